"""The built-in quick-start corpus: dates written in words, to be translated to ISO 8601."""

import collections
import dataclasses
import datetime
import itertools
import os
import random
import re
import unicodedata

from babel import Locale, localedata
from babel.core import get_global
from babel.dates import DateTimeFormat

from keras_transformer._utils.checks import require_positive_integer, require_seed
from keras_transformer._utils.files import atomic_file
from keras_transformer.data.corpora.memory import MemoryCorpus

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


# Held out whole. Danish, Portuguese, Slovak and Zulu have near relatives in training (Norwegian
# and Swedish, Galician and Spanish, Czech and Polish, Xhosa); Basque, Hungarian, Lakota and
# Vietnamese have none there. Hungarian borrows the months' Latin names and Vietnamese numbers
# them, so that they can be guessed; those of Basque and Lakota hardly can.
HELD_OUT_LOCALES = ("da", "eu", "hu", "lkt", "pt", "sk", "vi", "zu")

_FIRST, _LAST = datetime.date(1900, 1, 1), datetime.date(2099, 12, 31)
_VALIDATION_SHARE = _TEST_SHARE = 0.05
# So many in a row mean that nearly every pair that can be made was made.
_MAX_FAILURES = 10_000


@dataclasses.dataclass(frozen=True)
class DatesCorpus:
    """Dates in words with their ISO 8601 form, split so that the splits measure something.

    Attributes:
        train: Pairs to learn from, a `MemoryCorpus` like the others.
        validation: Pairs of the same locales on dates that are not in `train` in any locale.
        test: Likewise, on dates that are in neither `train` nor `validation`.
        held_out: Pairs of locales that are in no other split, on the dates of `test`. No wording
            of a date that `train` could hold is among them.
        locales: The locales of the first three splits.
        held_out_locales: Those of `held_out`.
    """

    train: MemoryCorpus
    validation: MemoryCorpus
    test: MemoryCorpus
    held_out: MemoryCorpus
    locales: tuple
    held_out_locales: tuple

    def write(self, directory):
        """Writes `train.tsv`, `validation.tsv`, `test.tsv` and `held_out.tsv`, each atomically."""
        os.makedirs(directory, exist_ok=True)
        for split in ("train", "validation", "test", "held_out"):
            with atomic_file(os.path.join(directory, f"{split}.tsv")) as file:
                file.writelines(f"{source}\t{target}\n" for source, target in getattr(self, split))


def make_dates(
    seed=0,
    training_pairs=20_000,
    validation_pairs=1_000,
    test_pairs=1_000,
    held_out_pairs=1_000,
):
    """Makes the quick-start corpus, in about a second and without any download.

    Sources are dates from 1900 to 2099 in the `full` and `long` formats of every Latin-script
    base locale in Babel's CLDR data, about 190; targets are the same dates in ISO 8601, such as
    "perjantai 7. maaliskuuta 2025" and "2025-03-07". No source occurs twice. Wordings with two
    readings, in whatever locales, are left out.

    The same seed gives the same corpus on every machine with the same version of Babel.

    Args:
        seed: A whole number from 0 to 2**64 - 1.
        training_pairs: The number of pairs in `train`, spread about evenly over the locales.
        validation_pairs: The number of pairs in `validation`.
        test_pairs: The number of pairs in `test`.
        held_out_pairs: The number of pairs in `held_out`.

    Returns:
        A `DatesCorpus`.

    Example:

    >>> dates = make_dates(training_pairs=500)
    >>> len(dates.train), dates.train.columns
    (500, ('source', 'target'))
    """
    generator = random.Random(require_seed("seed", seed))
    require_positive_integer("training_pairs", training_pairs)
    require_positive_integer("validation_pairs", validation_pairs)
    require_positive_integer("test_pairs", test_pairs)
    require_positive_integer("held_out_pairs", held_out_pairs)
    locales = find_locales()
    templates = {locale: make_templates(locale) for locale in locales}
    training_locales = [locale for locale in locales if locale not in HELD_OUT_LOCALES]
    ambiguous = find_ambiguous_signatures(
        template for by_form in templates.values() for template in by_form.values()
    )
    seen_in_training = {
        template.signature for locale in training_locales for template in templates[locale].values()
    }
    training_dates, validation_dates, test_dates = _split_dates(generator)

    def sample(split, number, sampled_locales, dates, refused):
        pairs = _sample(generator, number, sampled_locales, dates, templates, refused)
        return MemoryCorpus(pairs, name=f"dates, {split}")

    return DatesCorpus(
        train=sample("training", training_pairs, training_locales, training_dates, ambiguous),
        validation=sample(
            "validation", validation_pairs, training_locales, validation_dates, ambiguous
        ),
        test=sample("test", test_pairs, training_locales, test_dates, ambiguous),
        held_out=sample(
            "held_out", held_out_pairs, HELD_OUT_LOCALES, test_dates, ambiguous | seen_in_training
        ),
        locales=tuple(training_locales),
        held_out_locales=HELD_OUT_LOCALES,
    )


def _split_dates(generator):
    number = (_LAST - _FIRST).days + 1
    dates = [_FIRST + datetime.timedelta(days) for days in range(number)]
    dates = _shuffled(dates, generator)
    validation, test = round(number * _VALIDATION_SHARE), round(number * _TEST_SHARE)
    return dates[validation + test :], dates[:validation], dates[validation : validation + test]


def _sample(generator, number, locales, dates, templates, refused):
    """Returns `number` pairs with different sources, the locales taking turns."""
    turns = itertools.cycle(_shuffled(locales, generator))
    pairs = {}
    failures = 0
    while len(pairs) < number:
        if failures > _MAX_FAILURES:
            raise ValueError(
                f"Only {len(pairs):,} different pairs of the {number:,} asked for could be made "
                f"from {len(dates):,} dates in {len(locales)} locales. Ask for fewer."
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
    return list(pairs.items())


def _shuffled(values, generator):
    # Of Python's generator only `random()` is promised to stay the same in later versions.
    return [value for _, value in sorted((generator.random(), value) for value in values)]
