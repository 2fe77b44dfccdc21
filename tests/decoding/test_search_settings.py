"""Searches by name, and their settings as plain values."""

import argparse
import dataclasses
import inspect
import subprocess
import sys

import pytest
import tensorflow as tf

from keras_transformer._utils.errors import ArgumentError, UserError
from keras_transformer.cli.shared import add_search_options, search_settings
from keras_transformer.decoding import (
    SEARCHES,
    BeamSearch,
    ForbiddenTokens,
    ForcedFirstToken,
    GreedySearch,
    LengthLimits,
    NoRepeatNgram,
    RepetitionPenalty,
    SamplingSearch,
    SearchSettings,
    get_search,
    register_search,
    registered_searches,
)
from keras_transformer.text import SpecialIds
from tests.mistakes import assert_mistake


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, [40, 40]),
        ({"max_length_margin": 3}, [8, 33]),
        ({"max_length_ratio": 2.0, "max_length_margin": 0}, [10, 40]),
        ({"max_length_ratio": 0.0, "max_length_margin": 3}, [3, 3]),
    ],
)
def test_settings_without_source_limit_length_by_prompt_if_requested(given, expected):
    lengths = SearchSettings(**given).make(40, has_source=False).lengths
    assert lengths.maxima(tf.constant([5, 30])).numpy().tolist() == expected


def test_defaults_of_settings_are_those_of_the_searches():
    assert SearchSettings().make() == BeamSearch()
    assert SearchSettings().make_sampling() == SamplingSearch()
    assert SearchSettings(method="greedy").make() == GreedySearch()
    assert SearchSettings(method="sampling").make() == SamplingSearch()


@pytest.mark.parametrize("method", ["beam", "greedy"])
def test_settings_with_one_beam_make_greedy_search(method):
    beams = {"beams": 1} if method == "beam" else {}
    assert SearchSettings(method=method, **beams).make() == GreedySearch()


def test_settings_with_coverage_penalty_make_beam_search():
    search = SearchSettings(beams=1, coverage_penalty=0.2).make()
    assert search == BeamSearch(beams=1, coverage_penalty=0.2)


def test_every_setting_reaches_the_search():
    settings = SearchSettings(
        beams=3,
        length_penalty=1.0,
        coverage_penalty=0.2,
        max_length=20,
        max_length_ratio=2.0,
        max_length_margin=5,
        min_length=2,
        min_length_ratio=0.5,
        no_repeat_ngram=3,
        repetition_penalty=1.2,
        forbidden_ids=[1],
        forced_first_id=5,
        length_normalization="length",
        stopping="early",
        top_k=7,
        top_p=0.9,
    )
    shared = {
        "length_penalty": 1.0,
        "length_normalization": "length",
        "lengths": LengthLimits(
            maximum=20, maximum_ratio=2.0, maximum_margin=5, minimum=2, minimum_ratio=0.5
        ),
        "constraints": (
            NoRepeatNgram(3),
            RepetitionPenalty(1.2),
            ForbiddenTokens([1]),
            ForcedFirstToken(5),
        ),
    }
    beam = BeamSearch(beams=3, coverage_penalty=0.2, stopping="early", **shared)
    sampling = SamplingSearch(top_k=7, top_p=0.9, **shared)
    assert dataclasses.replace(settings, top_k=None, top_p=None).make() == beam
    assert settings.make_sampling() == sampling
    assert settings.make_both() == (beam, sampling)
    # All others reach a search as its setting of the same name.
    defaults = {
        field.name
        for field in dataclasses.fields(settings)
        if getattr(settings, field.name) == field.default
    }
    kinds = [type(get_search(name)) for name in registered_searches()]
    own = {field.name for kind in kinds for field in dataclasses.fields(kind)}
    assert defaults - {"method"} <= own


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("method", "beem"),
        ("beams", 0),
        ("length_penalty", -1),
        ("coverage_penalty", "much"),
        ("length_normalization", "words"),
        ("stopping", "late"),
        ("max_length", 0),
        ("max_length_ratio", -1),
        ("max_length_margin", -1),
        ("min_length", 0),
        ("min_length_ratio", -1),
        ("no_repeat_ngram", -1),
        ("repetition_penalty", 0.5),
        ("forbidden_ids", 7),
        ("forbidden_ids", [-1]),
        ("forced_first_id", -1),
        ("top_k", 0),
        ("top_p", 1.5),
    ],
)
def test_wrong_setting_is_refused_by_name(name, value):
    with pytest.raises(ArgumentError) as raised:
        SearchSettings(**{name: value})
    assert raised.value.argument == name


# Settings of the registered searches that are no fields of `SearchSettings`, and why.
NOT_AMONG_SETTINGS = {
    "lengths": "made from max_length, min_length and the other fields of lengths",
    "constraints": "made from no_repeat_ngram, repetition_penalty and forbidden_ids",
    "with_alignment": "follows from what the caller asks for",
    "n_best": "an argument of each call, and the option --n-best",
    "samples": "an argument of each call",
    "temperature": "an argument of each call, and the option --temperature",
}


@pytest.mark.parametrize("name", registered_searches())
def test_every_setting_of_a_search_has_an_option(name):
    """Its help comes from the docstring of `SearchSettings`, its type from the field."""
    parser = argparse.ArgumentParser()
    add_search_options(parser)
    options = {action.dest: action for action in parser._actions if action.dest != "help"}
    assert options.keys() == {field.name for field in dataclasses.fields(SearchSettings)}
    assert all(action.help and "(default: " in action.help for action in options.values())
    settings = {field.name for field in dataclasses.fields(type(get_search(name)))}
    assert settings - options.keys() <= NOT_AMONG_SETTINGS.keys()


def test_options_give_the_settings():
    parser = argparse.ArgumentParser()
    add_search_options(parser)
    given = ["--forbidden-ids", "1,5", "--max-length", "9", "--top-p", "0.5", "--method", "greedy"]
    expected = {"forbidden_ids": (1, 5), "max_length": 9, "top_p": 0.5, "method": "greedy"}
    assert search_settings(parser.parse_args(given)) == expected
    with pytest.raises(SystemExit):
        parser.parse_args(["--forbidden-ids", "1,a"])


def test_minimum_above_maximum_is_refused():
    with pytest.raises(ArgumentError, match=r"`min_length` .*`max_length`, 3; got 4"):
        SearchSettings(min_length=4, max_length=3)


def test_forbidden_end_id_is_refused():
    with pytest.raises(ArgumentError, match=r"`forbidden_ids` .* 3, the end id"):
        SearchSettings(forbidden_ids=(3,)).make()
    special = SpecialIds(padding=9, start=9, end=0)
    assert SearchSettings(forbidden_ids=(3,)).make(special_ids=special).constraints
    with pytest.raises(ArgumentError, match=r"`forbidden_ids` .* 0, the end id"):
        SearchSettings(forbidden_ids=(0,)).make(special_ids=special)


def test_setting_of_another_method_is_refused():
    for make in (SearchSettings.make, SearchSettings.make_both):
        with pytest.raises(ArgumentError) as raised:
            make(SearchSettings(method="greedy", beams=8))
        assert_mistake(raised.value, key="beams", expected="'greedy'", got=8, fix="'beam'")
    assert SearchSettings(method="greedy", beams=4).make() == GreedySearch()  # the default


@pytest.mark.parametrize("method", ["beam", "greedy"])
@pytest.mark.parametrize(("name", "value"), [("top_k", 5), ("top_p", 0.9)])
def test_setting_of_sampling_is_refused_by_a_search_and_accepted_beside_it(method, name, value):
    settings = SearchSettings(method=method, **{name: value})
    for function in (settings.make, settings.require_used, lambda: get_search(settings)):
        with pytest.raises(ArgumentError) as raised:
            function()
        fix = "--temperature 1"
        assert_mistake(raised.value, fix, key=name, expected=f"'{method}'", got=value)
    settings.require_used([name], is_sampling=True)
    assert getattr(settings.make_both()[1], name) == value
    assert getattr(SearchSettings(method="sampling", **{name: value}).make(), name) == value


@pytest.mark.parametrize(
    ("name", "value"), [("beams", 8), ("coverage_penalty", 0.2), ("method", "greedy")]
)
def test_setting_of_a_search_is_refused_with_a_temperature(name, value):
    settings = SearchSettings(**{name: value})
    with pytest.raises(ArgumentError) as raised:
        settings.require_used([name], is_sampling=True)
    assert_mistake(
        raised.value, key=name, expected="'sampling'", got=value, fix="leave out the temperature"
    )
    settings.require_used(["length_penalty"], is_sampling=True)  # those of a recipe are accepted


def test_search_of_an_export_must_be_deterministic():
    with pytest.raises(ArgumentError) as raised:
        SearchSettings(method="sampling").make_both()
    assert_mistake(
        raised.value, "--temperature", "'beam'", key="method", expected="'greedy'", got="sampling"
    )


@pytest.mark.parametrize(
    ("entry", "got"),
    [
        ("", "no description"),
        ("test_setting: Smallest probability", "Smallest probability"),
        ("test_setting: Smallest probability.", "Smallest probability."),
        ("test_setting: Smallest probability; default 0.", "Smallest probability; default 0."),
    ],
)
def test_setting_without_a_description_in_the_docstring_is_named(entry, got):
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class More(SearchSettings):
        test_setting: float = 0.0

    before = f"    {entry}\n" if entry else ""
    docstring = inspect.getdoc(SearchSettings)
    More.__doc__ = docstring.replace("    beams:", f"{before}    beams:")
    with pytest.raises(ArgumentError) as raised:
        More.descriptions()
    assert_mistake(raised.value, "`test_setting: Text. Default: text.`", "More", key="test_setting")


def test_setting_of_a_type_without_an_option_is_named(monkeypatch):
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class More(SearchSettings):
        test_flag: bool = False

    added = "    test_flag: Whether. Default: no.\n    beams:"
    More.__doc__ = inspect.getdoc(SearchSettings).replace("    beams:", added)
    monkeypatch.setattr("keras_transformer.cli.shared.SearchSettings", More)
    with pytest.raises(ArgumentError) as raised:
        add_search_options(argparse.ArgumentParser())
    assert_mistake(raised.value, key="test_flag", expected="int", got=bool)


# --- searches by name -----------------------------------------------------------------------------


def test_get_search_by_name_sets_class_length_and_constraints():
    search = get_search("beam", beams=2, n_best=2, max_length=20, no_repeat_ngram=3)
    lengths, constraints = LengthLimits(maximum=20), (NoRepeatNgram(3),)
    assert search == BeamSearch(beams=2, n_best=2, lengths=lengths, constraints=constraints)
    search = get_search("sampling", temperature=0.5, top_k=9, longest=30, has_source=False)
    lengths = LengthLimits(maximum=30, maximum_ratio=None)
    assert search == SamplingSearch(temperature=0.5, top_k=9, lengths=lengths)
    assert get_search("greedy", lengths=lengths) == GreedySearch(lengths=lengths)


def test_get_search_of_object_returns_it():
    search = BeamSearch(beams=2)
    assert get_search(search) is search
    made = get_search(SearchSettings(beams=2), longest=9)
    assert made == BeamSearch(beams=2, lengths=LengthLimits(maximum=9))


@pytest.mark.parametrize(
    ("search", "settings", "facts"),
    [
        ("beem", {}, r"'beam'.*'greedy'.*'sampling'.*'beem'.*'beam'\?"),
        ("greedy", {"beams": 2}, "greedy search.*length_penalty.*'beams'"),
        ("sampling", {"temprature": 2}, r"sampling search.*'temprature'.*'temperature'\?"),
        ("beam", {"lengths": LengthLimits(), "max_length": 3}, "`lengths` or max_length"),
        (BeamSearch(), {"beams": 2}, "beams"),
        (7, {}, "`search` must be .* got 7"),
    ],
    ids=str,
)
def test_get_search_refuses_wrong_names_and_settings(search, settings, facts):
    with pytest.raises(UserError, match=facts):
        get_search(search, **settings)


def test_registered_search_is_found_by_name():
    @register_search("test_greedy")
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class AlwaysGreedy(GreedySearch):
        """Search of the test."""

    try:
        assert "test_greedy" in registered_searches()
        assert get_search("test_greedy", max_length=3) == AlwaysGreedy(
            lengths=LengthLimits(maximum=3)
        )
        assert isinstance(SearchSettings(method="test_greedy").make(), AlwaysGreedy)
    finally:
        del SEARCHES["test_greedy"]


def test_every_file_of_a_search_registers_its_name():
    for name in registered_searches():
        assert isinstance(get_search(name), SEARCHES[name])


def test_settings_and_special_ids_need_no_tensorflow():
    code = (
        "import sys\n"
        "from keras_transformer.decoding import SearchSettings, registered_searches\n"
        "from keras_transformer.text import SpecialIds, registered_tokenizers\n"
        "SearchSettings(method='sampling', top_p=0.9), SpecialIds()\n"
        "assert registered_tokenizers() and registered_searches()\n"
        "assert 'tensorflow' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
