"""How each language writes a date in words, from the Unicode CLDR data that Babel carries."""

import collections
import dataclasses
import datetime
import re
import unicodedata

from babel import Locale, localedata
from babel.core import get_global
from babel.dates import DateTimeFormat

STYLES = ("full", "long")

_FIELD = re.compile(r"%\((\w+)\)s")
_NUMBER = re.compile(r"[0-9]+")
# What a field is (Unicode TR 35, "Date Field Symbol Table"): only numbers, the era, and names in
# full. Short names, which a few locales use, are often inherited; those Babel resolves in place,
# in data that its locales share, so that they come out differently (Yoruba's MMM as "M03", or
# worse) after other locales were used in the same process.
_ROLES = {
    "d": "day",
    "dd": "day",
    "y": "year",
    "MMMM": "month",
    "EEEE": "weekday",
    "cccc": "weekday",
    "G": "era",
}
# Any Monday; the weekdays follow.
_MONDAY = datetime.date(2024, 1, 1)


@dataclasses.dataclass(frozen=True)
class DateTemplate:
    """One way to write the dates of one month and weekday, with day and year left open.

    Attributes:
        text: The format string, with the fields `day` and `year`.
        signature: The text with `####` for the year, which alone has four digits, and `#` for
            every other number: all that tells it from other templates.
        reading: What each number means, in order, and the month if that is not one of them.
    """

    text: str
    signature: str
    reading: tuple

    def render(self, date):
        return self.text.format(day=date.day, year=date.year)


def find_locales():
    """Returns the base locales (`"pt"`, not `"pt_BR"`) that write dates in Latin letters.

    Latin is decided by the letters themselves. Locales without month names of their own (CLDR's
    root gives them "M03") and those that write only short names are left out.
    """
    # Only a short cut: loading a locale takes some milliseconds.
    likely_subtags = get_global("likely_subtags")
    identifiers = sorted(
        name
        for name in localedata.locale_identifiers()
        if "_" not in name and "_Latn" in likely_subtags.get(name, "_Latn")
    )
    root_months = set(localedata.load("root")["months"]["format"]["wide"].values())
    locales = []
    for identifier in identifiers:
        locale = Locale.parse(identifier)
        months = locale.months["format"]["wide"].values()
        weekdays = locale.days["format"]["wide"].values()
        patterns = _patterns(locale).values()
        words = "".join([*months, *weekdays, *(_FIELD.sub("", pattern) for pattern in patterns)])
        if patterns and root_months.isdisjoint(months) and _is_latin(words):
            locales.append(identifier)
    return locales


def make_templates(identifier):
    """Returns the templates of a locale, by style, month and weekday (0 is Monday).

    A style whose format holds a short name has none.
    """
    locale = Locale.parse(identifier)
    templates = {}
    for style, pattern in _patterns(locale).items():
        # Literal text and names of fields, in turn.
        parts = _FIELD.split(pattern)
        fields = parts[1::2]
        months = [_names(fields, datetime.date(2024, month, 1), locale) for month in range(1, 13)]
        days = [_MONDAY + datetime.timedelta(weekday) for weekday in range(7)]
        weekdays = [_names(fields, day, locale) for day in days]
        has_weekday = any(_ROLES[field] == "weekday" for field in fields)
        for month, month_names in enumerate(months, start=1):
            for weekday, weekday_names in enumerate(weekdays):
                if has_weekday or weekday == 0:
                    names = {"month": month_names, "weekday": weekday_names}
                    template = _template(parts, names, month)
                templates[style, month, weekday] = template
    return templates


def find_ambiguous_signatures(templates):
    """Returns the signatures that are read in two ways, for example as two months.

    Two dates can only be written by the same string if their templates have the same signature.
    If they also have the same reading, then the string gives the same day, month and year to
    both, so the dates are one date.
    """
    readings = collections.defaultdict(set)
    for template in templates:
        readings[template.signature].add(template.reading)
    return {signature for signature, ways in readings.items() if len(ways) > 1}


def _patterns(locale):
    patterns = {style: locale.date_formats[style].format for style in STYLES}
    return {
        style: pattern
        for style, pattern in patterns.items()
        if all(field in _ROLES for field in _FIELD.findall(pattern))
    }


def _names(fields, date, locale):
    formatter = DateTimeFormat(date, locale)
    return {field: formatter[field] for field in fields}


def _template(parts, names, month):
    text, signature, roles = "", "", []
    for index, part in enumerate(parts):
        role = _ROLES[part] if index % 2 else "literal"
        if role == "literal":
            words = part.replace("%%", "%")
        elif role in ("day", "year"):
            text += "{day:02}" if part == "dd" else f"{{{role}}}"
            signature += "####" if role == "year" else "#"
            roles.append(role)
            continue
        else:
            words = names["weekday" if role == "weekday" else "month"][part]
        text += words.replace("{", "{{").replace("}", "}}")
        signature += _NUMBER.sub("#", words)
        roles += [role] * len(_NUMBER.findall(words))
    month_by_name = None if "month" in roles else month
    return DateTemplate(text, signature, (tuple(roles), month_by_name))


def _is_latin(words):
    letters = {letter for letter in words if letter.isalpha()}
    # Modifier letters are the apostrophe-like signs of Hawaiian, Hausa and others.
    return all(unicodedata.name(letter).startswith(("LATIN", "MODIFIER")) for letter in letters)
