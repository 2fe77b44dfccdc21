"""The built-in quick-start corpus: dates written in words, to be translated to ISO 8601."""

import dataclasses
import datetime
import itertools
import os
import random

from keras_transformer.atomic import atomic_file
from keras_transformer.checks import require_positive_integer, require_seed
from keras_transformer.data.corpora.memory import MemoryCorpus
from keras_transformer.data.dates.date_templates import (
    STYLES,
    find_ambiguous_signatures,
    find_locales,
    make_templates,
)

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
