"""The built-in quick-start corpus: dates in words, to be translated to ISO 8601."""

import collections
import dataclasses
import datetime
import functools
import itertools
import random
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence

from babel import Locale, localedata
from babel.core import get_global
from babel.dates import DateTimeFormat

from keras_transformer._utils.checks import require_positive_integer, require_seed
from keras_transformer._utils.errors import UserError
from keras_transformer.data.builtin.registry import CorpusSplits, register_builtin, shuffled
from keras_transformer.data.corpora.corpus import MemoryCorpus

STYLES = ("full", "long")

_FIELD = re.compile(r"%\((\w+)\)s")
_NUMBER = re.compile(r"[0-9]+")
# Meaning of the fields (Unicode TR 35, "Date Field Symbol Table"). Short names of months and
# weekdays are left out: Babel resolves inherited ones in data that its locales share, so that they
# depend on which locales the process used before (Yoruba's MMM may become "M03").
_ROLES = {"d": "day", "dd": "day", "y": "year", "MMMM": "month", "G": "era"}
_ROLES |= dict.fromkeys(("EEEE", "cccc"), "weekday")
# Any Monday; the other weekdays follow this date.
_MONDAY = datetime.date(2024, 1, 1)


@dataclasses.dataclass(frozen=True)
class DateTemplate:
    """A format of the dates of one month and weekday, with variable day and year.

    Attributes:
        text: The format string, with the fields `day` and `year`.
        signature: The text with `####` for the year and `#` for every other number.
        reading: The meaning of each number, in order, and the month if none of them is the month.
    """

    text: str
    signature: str
    reading: tuple[tuple[str, ...], int | None]

    def render(self, date: datetime.date) -> str:
        """Returns a date in this format."""
        return self.text.format(day=date.day, year=date.year)


def find_locales() -> list[str]:
    """Returns the base locales (`"pt"`, not `"pt_BR"`) that write dates in Latin letters.

    Locales without month names (CLDR's root gives them "M03") or full names are left out.
    """
    # This filter only saves time: loading a locale takes some milliseconds.
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


def make_templates(identifier: str) -> dict[tuple[str, int, int], DateTemplate]:
    """Returns the templates of a locale, by style without short names, month and weekday."""
    locale = Locale.parse(identifier)
    templates: dict[tuple[str, int, int], DateTemplate] = {}
    for style, pattern in _patterns(locale).items():
        parts = _FIELD.split(pattern)  # literal text and names of fields alternate
        fields = parts[1::2]
        months = [_names(fields, datetime.date(2024, month, 1), locale) for month in range(1, 13)]
        days = [_MONDAY + datetime.timedelta(weekday) for weekday in range(7)]
        weekdays = [_names(fields, day, locale) for day in days]
        has_weekday = any(_ROLES[field] == "weekday" for field in fields)
        for month, month_names in enumerate(months, start=1):
            for weekday, weekday_names in enumerate(weekdays):
                names = {"month": month_names, "weekday": weekday_names}
                if has_weekday or weekday == 0:
                    templates[style, month, weekday] = _template(parts, names, month)
                else:
                    templates[style, month, weekday] = templates[style, month, 0]
    return templates


def find_ambiguous_signatures(templates: Iterable[DateTemplate]) -> set[str]:
    """Returns the signatures that have two readings, for example two months.

    Only templates with the same signature can write two different dates as the same string.
    """
    readings: dict[str, set[object]] = collections.defaultdict(set)
    for template in templates:
        readings[template.signature].add(template.reading)
    return {signature for signature, ways in readings.items() if len(ways) > 1}


def _patterns(locale: Locale) -> dict[str, str]:
    patterns = {style: locale.date_formats[style].format for style in STYLES}
    return {style: text for style, text in patterns.items() if {*_FIELD.findall(text)} <= {*_ROLES}}


def _names(fields: Iterable[str], date: datetime.date, locale: Locale) -> dict[str, str]:
    formatter = DateTimeFormat(date, locale)
    return {field: formatter[field] for field in fields}


def _template(
    parts: Sequence[str], names: Mapping[str, Mapping[str, str]], month: int
) -> DateTemplate:
    text, signature = "", ""
    roles: list[str] = []
    for index, part in enumerate(parts):
        role = _ROLES[part] if index % 2 else "literal"
        if role in ("day", "year"):
            text += "{day:02}" if part == "dd" else f"{{{role}}}"
            signature += "####" if role == "year" else "#"
            roles.append(role)
            continue
        if role == "literal":
            words = part.replace("%%", "%")
        else:
            words = names["weekday" if role == "weekday" else "month"][part]
        text += words.replace("{", "{{").replace("}", "}}")
        signature += _NUMBER.sub("#", words)
        roles += [role] * len(_NUMBER.findall(words))
    month_by_name = None if "month" in roles else month
    return DateTemplate(text, signature, (tuple(roles), month_by_name))


def _is_latin(words: str) -> bool:
    letters = {letter for letter in words if letter.isalpha()}
    # Modifier letters are the apostrophe-like signs of Hawaiian, Hausa and others.
    return all(unicodedata.name(letter).startswith(("LATIN", "MODIFIER")) for letter in letters)


# Danish, Portuguese, Slovak and Zulu have close relatives in training; Basque, Hungarian, Lakota
# and Vietnamese have none. The months of Hungarian (Latin names) and Vietnamese (numbers) can be
# guessed; those of Basque and Lakota hardly can.
HELD_OUT_LOCALES = ("da", "eu", "hu", "lkt", "pt", "sk", "vi", "zu")

_FIRST, _LAST = datetime.date(1900, 1, 1), datetime.date(2099, 12, 31)
# Share of the dates for validation, and for tests.
_EVALUATION_SHARE = 0.05
# After so many failures in a row, nearly every possible pair has been made.
_MAX_FAILURES = 10_000


@register_builtin("dates")
def make_dates(
    seed: int = 0,
    training_pairs: int = 20_000,
    validation_pairs: int = 1_000,
    test_pairs: int = 1_000,
    held_out_pairs: int = 1_000,
) -> CorpusSplits[MemoryCorpus]:
    """Makes the quick-start corpus, in about a second and without any download.

    Sources are dates from 1900 to 2099 in the `full` and `long` formats of every base locale in
    Babel's CLDR data that uses Latin script, about 190. Targets are the same dates in ISO 8601, for
    example "perjantai 7. maaliskuuta 2025" and "2025-03-07". No source occurs twice. Wordings with
    two readings, in any locales, are left out. The same seed gives the same corpus on every
    machine with the same version of Babel.

    The splits have different dates. The test "unseen dates" has the locales of the training, and
    "unseen languages" those in `HELD_OUT_LOCALES`, without wordings that could occur in training.

    Args:
        seed: Seed of the choice of pairs, from 0 to 2**64 - 1.
        training_pairs: Number of pairs in `train`, spread about evenly over the locales.
        validation_pairs: Number of pairs in `validation`.
        test_pairs: Number of pairs of the test "unseen dates".
        held_out_pairs: Number of pairs of the test "unseen languages".

    >>> dates = make_dates(training_pairs=500)
    >>> len(dates.train), dates.train.columns
    (500, ('source', 'target'))
    """
    generator = random.Random(require_seed("seed", seed))
    require_positive_integer("training_pairs", training_pairs)
    require_positive_integer("validation_pairs", validation_pairs)
    require_positive_integer("test_pairs", test_pairs)
    require_positive_integer("held_out_pairs", held_out_pairs)
    templates = {locale: make_templates(locale) for locale in find_locales()}
    training_locales = [locale for locale in templates if locale not in HELD_OUT_LOCALES]
    ambiguous = find_ambiguous_signatures(
        template for by_form in templates.values() for template in by_form.values()
    )
    seen_in_training = {
        template.signature for locale in training_locales for template in templates[locale].values()
    }
    days = range((_LAST - _FIRST).days + 1)
    dates = shuffled((_FIRST + datetime.timedelta(day) for day in days), generator)
    share = round(len(days) * _EVALUATION_SHARE)
    validation_dates, test_dates = dates[:share], dates[share : 2 * share]
    training_dates = dates[2 * share :]
    sample = functools.partial(_sample, generator, templates)
    usual = training_locales, ambiguous
    unusual = HELD_OUT_LOCALES, ambiguous | seen_in_training
    return CorpusSplits(
        train=sample("training", training_pairs, training_dates, *usual),
        validation=sample("validation", validation_pairs, validation_dates, *usual),
        tests={
            "unseen dates": sample("test", test_pairs, test_dates, *usual),
            "unseen languages": sample("held_out", held_out_pairs, test_dates, *unusual),
        },
    )


def _sample(
    generator: random.Random,
    templates: Mapping[str, Mapping[tuple[str, int, int], DateTemplate]],
    split: str,
    number: int,
    dates: Sequence[datetime.date],
    locales: Iterable[str],
    refused: Collection[str],
) -> MemoryCorpus:
    """Returns `number` pairs with different sources; the locales take turns."""
    locales = shuffled(locales, generator)
    turns = itertools.cycle(locales)
    pairs: dict[str, str] = {}
    failures = 0
    while len(pairs) < number:
        if failures > _MAX_FAILURES:
            available = f"{len(dates):,} dates in {len(locales)} locales"
            raise UserError(
                f"{number:,} different pairs cannot be made from {available}; got {len(pairs):,}.",
                fix="Ask for fewer.",
            )
        style = STYLES[int(generator.random() * len(STYLES))]
        date = dates[int(generator.random() * len(dates))]
        template = templates[next(turns)].get((style, date.month, date.weekday()))
        failures += 1
        if template and template.signature not in refused:
            source = template.render(date)
            if source not in pairs:
                pairs[source] = date.isoformat()
                failures = 0
    return MemoryCorpus(pairs.items(), name=f"dates, {split}")
