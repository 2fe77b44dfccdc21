"""The quick-start corpus, checked against Babel itself."""

import collections
import datetime
import os
import re
import subprocess
import sys

import pytest
from babel.dates import format_date

from keras_transformer.data import TsvCorpus, make_dates
from keras_transformer.data.builtin.dates import (
    HELD_OUT_LOCALES,
    STYLES,
    DateTemplate,
    find_ambiguous_signatures,
    find_locales,
    make_templates,
)

SPLITS = ("train", "validation", "unseen_dates", "unseen_languages")


@pytest.fixture(scope="module")
def dates():
    return make_dates(seed=3)


@pytest.fixture(scope="module")
def written():
    """Returns every date of 2024 as Babel writes it: text → locales and dates."""
    days = [datetime.date(2024, 1, 1) + datetime.timedelta(number) for number in range(366)]
    written = collections.defaultdict(set)
    for locale in find_locales():
        for style in STYLES:
            for day in days:
                written[format_date(day, style, locale)].add((locale, day.isoformat()))
    return written


@pytest.fixture(scope="module")
def training_locales():
    return [locale for locale in find_locales() if locale not in HELD_OUT_LOCALES]


def by_split(dates):
    """Returns the corpus of each of `SPLITS`."""
    return [dates.train, dates.validation, *dates.tests.values()]


def targets(corpus):
    return {target for _, target in corpus}


def sources(corpus):
    return {source for source, _ in corpus}


def wording(source):
    return re.sub(r"\d+", "#", source)


def test_splits_have_requested_sizes(dates):
    assert list(dates.tests) == ["unseen dates", "unseen languages"]
    assert list(map(len, by_split(dates))) == [20_000, 1_000, 1_000, 1_000]
    for corpus in by_split(dates):
        assert corpus.columns == ("source", "target")
        assert corpus.check().duplicates == 0


def test_targets_are_dates_from_1900_to_2099(dates):
    years = [datetime.date.fromisoformat(target).year for target in targets(dates.train)]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", target) for target in targets(dates.train))
    assert (min(years), max(years)) == (1900, 2099)


def test_each_date_is_in_one_split(dates):
    train, validation, test = map(
        targets, (dates.train, dates.validation, dates.tests["unseen dates"])
    )
    assert not train & validation
    assert not train & test
    assert not validation & test
    assert not targets(dates.tests["unseen languages"]) & (train | validation)


def test_each_source_is_in_one_split(dates):
    everything = [source for corpus in by_split(dates) for source, _ in corpus]
    assert len(set(everything)) == len(everything)


def test_no_source_has_two_readings(dates):
    readings = collections.defaultdict(set)
    for corpus in by_split(dates):
        for source, target in corpus:
            readings[source].add(target)
    assert [source for source, found in readings.items() if len(found) > 1] == []


def test_ambiguous_signatures_agree_with_brute_force(written):
    # Brute force over all dates of a year, without templates.
    ambiguous = {text for text, found in written.items() if len({date for _, date in found}) > 1}
    templates = [
        template for locale in find_locales() for template in make_templates(locale).values()
    ]
    assert bool(ambiguous) == bool(find_ambiguous_signatures(templates))


def test_templates_render_as_babel(written):
    for locale in find_locales():
        templates = make_templates(locale)
        for number in range(0, 366, 5):
            day = datetime.date(2024, 1, 1) + datetime.timedelta(number)
            for style in {style for style, _, _ in templates}:
                text = templates[style, day.month, day.weekday()].render(day)
                assert (locale, day.isoformat()) in written[text]


def test_templates_are_valid_for_every_year():
    for locale in ("fi", "la", "lv", "vi", "vo", "mgo"):
        templates = make_templates(locale)
        for year in (1900, 1987, 2099):
            day = datetime.date(year, 2, 9)
            for style in STYLES:
                template = templates[style, day.month, day.weekday()]
                assert template.render(day) == format_date(day, style, locale)


def test_every_source_is_a_format_of_babel(dates, training_locales):
    held_out = dates.tests["unseen languages"]
    for corpus, locales in ((dates.train, training_locales), (held_out, HELD_OUT_LOCALES)):
        for source, target in list(corpus)[:25]:
            date = datetime.date.fromisoformat(target)
            forms = {format_date(date, style, locale) for style in STYLES for locale in locales}
            assert source in forms


def test_template_of_finnish_date(written):
    day = datetime.date(2025, 3, 7)
    template = make_templates("fi")["full", day.month, day.weekday()]
    assert template.render(day) == "perjantai 7. maaliskuuta 2025"
    assert "fi" in find_locales()


def test_locales_are_latin_base_locales_with_month_names(dates):
    locales = find_locales()
    assert set(locales) > set(HELD_OUT_LOCALES)
    assert 180 <= len(locales) == len(set(locales))
    assert {"en", "de", "fr", "sw", "tr", "id", "qu", "haw"} <= set(locales)
    # Other scripts; regional forms; locales without month names.
    assert not {"ru", "el", "ja", "ar", "hi", "sr", "en_GB", "nv", "jbo"} & set(locales)
    assert all(re.fullmatch("[a-z]{2,3}", locale) for locale in locales)
    assert not [source for source in sources(dates.train) if re.search(r"\bM[01]\d", source)]


def test_formats_with_short_names_are_excluded():
    # CLDR: "EEEE, d MMM y" and "d MMM y" in Yoruba, "EEEE, d MMM, y" and "d MMMM, y" in Wolof.
    assert "yo" not in find_locales()
    assert {style for style, _, _ in make_templates("wo")} == {"long"}


def test_training_covers_every_locale(dates, training_locales):
    pairs = {(wording(source), target[5:7]) for source, target in dates.train}
    for locale in training_locales:
        forms = {
            (wording(template.text.format(day=7, year=2025)), f"{month:02}")
            for (_, month, _), template in make_templates(locale).items()
        }
        assert len(forms & pairs) >= 12, locale


def test_held_out_locales_are_in_no_other_split(dates, written, training_locales):
    training_wordings = {
        wording(text)
        for text, found in written.items()
        if any(locale in training_locales for locale, _ in found)
    }
    assert not training_wordings & set(map(wording, sources(dates.tests["unseen languages"])))


def test_each_held_out_locale_occurs(dates, written):
    by_locale = collections.defaultdict(set)
    for text, found in written.items():
        for locale, _ in found:
            by_locale[locale].add(wording(text))
    held_out = set(map(wording, sources(dates.tests["unseen languages"])))
    assert all(
        len(by_locale[locale] & held_out) > 10 for locale in HELD_OUT_LOCALES if locale != "vi"
    )
    assert by_locale["vi"] & held_out


def test_wordings_with_two_readings_are_ambiguous():
    def template(text, *reading):
        return DateTemplate(text, re.sub(r"\{day\}", "#", text.replace("{year}", "####")), reading)

    october = template("{day} listopada {year}", ("day", "year"), 10)
    november = template("{day} listopada {year}", ("day", "year"), 11)
    other_order = template("{year} listopada {day}", ("year", "day"), 11)
    assert find_ambiguous_signatures([october, october, other_order]) == set()
    assert find_ambiguous_signatures([october, november, other_order]) == {"# listopada ####"}


def test_numbered_month_differs_from_day():
    template = make_templates("vi")["long", 3, 0]
    assert template.signature == "# tháng #, ####"
    assert template.reading == (("day", "month", "year"), None)
    swapped = DateTemplate(
        "3 tháng {day}, {year}", template.signature, (("month", "day", "year"), None)
    )
    assert find_ambiguous_signatures([template, swapped]) == {template.signature}


PRINT_FINGERPRINTS = """
import sys
from babel import Locale, localedata
# Babel changes data that its locales share when names are looked up: look up all of them.
for identifier in sorted(localedata.locale_identifiers(), reverse=True):
    if "_" not in identifier:
        locale = Locale.parse(identifier)
        for names in (locale.months, locale.days):
            [dict(names[context][width]) for context in names for width in names[context]]
from keras_transformer.data import TsvCorpus, make_dates
dates = make_dates(seed=3)
for corpus in (dates.train, dates.validation, *dates.tests.values(), TsvCorpus(sys.argv[1])):
    print(corpus.fingerprint())
"""


def test_same_seed_gives_same_corpus_in_any_process(dates, tmp_path):
    dates.write(tmp_path)
    path = tmp_path / "train.tsv"
    environment = os.environ | {"PYTHONHASHSEED": "12345", "LC_ALL": "C", "TZ": "Asia/Tokyo"}
    command = [sys.executable, "-c", PRINT_FINGERPRINTS, str(path)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    corpora = [*by_split(dates), TsvCorpus(path)]
    assert run.stdout.split() == [corpus.fingerprint() for corpus in corpora]


def test_other_seed_gives_other_corpus(dates):
    assert make_dates(seed=4).train.fingerprint() != dates.train.fingerprint()


def test_written_files_contain_the_corpus(dates, tmp_path):
    dates.write(tmp_path / "new" / "dates")
    assert sorted(os.listdir(tmp_path / "new" / "dates")) == sorted(
        f"{split}.tsv" for split in SPLITS
    )
    for split, corpus in zip(SPLITS, by_split(dates), strict=True):
        assert list(TsvCorpus(tmp_path / "new" / "dates" / f"{split}.tsv")) == list(corpus)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"seed": -1}, "`seed`"),
        ({"training_pairs": 0}, "`training_pairs`"),
        ({"held_out_pairs": 1.5}, "`held_out_pairs`"),
        (
            {"held_out_pairs": 100_000},
            "100,000 different pairs cannot be made",
        ),
    ],
)
def test_invalid_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make_dates(**({"training_pairs": 10} | settings))
