"""YAML as recipes are written in: values mean what they look like."""

import math

import hypothesis
import pytest
from hypothesis import strategies

from keras_transformer.trainer.recipe_file import YamlError, read_yaml, write_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        ("1E5", 1e5),
        (".5", 0.5),
        ("-3", -3),
        ("+3", 3),
        ("007", 7),
        (".inf", math.inf),
        ("-.INF", -math.inf),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("'1'", "1"),
        ("[1, a]", [1, "a"]),
        # What YAML 1.1 would make something else of.
        ("no", "no"),
        ("on", "on"),
        ("12:30", "12:30"),
        ("2025-03-07", "2025-03-07"),
        ("0x10", "0x10"),
        ("1_000", "1_000"),
        ("nan", "nan"),
    ],
)
def test_values_are_what_they_look_like(text, value):
    read, lines = read_yaml(f"key: {text}")
    assert read == {"key": value}
    assert type(read["key"]) is type(value)
    assert lines == {"key": 1}


def test_nan_is_a_number():
    assert math.isnan(read_yaml("key: .nan")[0]["key"])


def test_every_key_has_its_line():
    text = "# comment\na:\n  b: 1\n\n  c: {d: 2}\ne: [{f: 3}]\n"
    assert read_yaml(text)[1] == {"a": 2, "a.b": 3, "a.c": 5, "a.c.d": 5, "e": 6, "e.0.f": 6}


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("a: 1\nb: 2\na: 3", 3, 1, "`a` is there already, in line 1."),
        ("a:\n  b: 1\n  b: 2", 3, 3, "`a.b` is there already, in line 2."),
        ("a: &x 1", 1, 4, "&x: anchors and aliases are not allowed."),
        ("a: 1\nb: *x", 2, 4, "*x: anchors and aliases are not allowed."),
        ("a: !!python/name:os.system x", 1, 4, "tags are not allowed."),
        ("? [a]\n: 1", 1, 3, "a key must be a plain word."),
        ("a: [1\nb: 2", 2, 2, "expected ',' or ']', but got ':'"),
        ("a: b: c", 1, 5, "Check the indentation; text with ': ' in it must be in quotes."),
        ("a:\n\tb: 1", 2, 1, "Indent with spaces, not with tabs."),
        ("a: 1\nb: \x07", 2, 4, "the character U+0007 is not allowed."),
        ("a: 1\n---\nb: 1", 2, 1, "a second document begins."),
        ("a: " + "[" * 100_000, 1, 13, "nested more than 10 deep."),
        ("a: " + "9" * 5000, 1, 4, "a number of 5000 digits."),
        ("a: " + "x" * 1_000_000, 1, 1, "longer than 1,000,000 characters"),
    ],
)
def test_what_cannot_be_read_has_a_place(text, line, column, message):
    with pytest.raises(YamlError) as caught:
        read_yaml(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert (caught.value.line, caught.value.column) == (line, column)


def test_nothing_is_none():
    assert read_yaml("") == read_yaml("# only a comment\n") == (None, {})


# What a recipe can hold; PyYAML reads no lone surrogates.
TEXTS = strategies.text(strategies.characters(exclude_categories=["Cs"])) | strategies.sampled_from(
    ["1e-3", "no", "null", "~", "1:30", "0o7", "08", ".5e1", "*x", "- a", "a: b", "#", "<<", "="]
)
SCALARS = (
    strategies.none()
    | strategies.booleans()
    | strategies.integers()
    | strategies.floats(allow_nan=False)
    | TEXTS
)


@hypothesis.given(
    strategies.dictionaries(
        TEXTS,
        SCALARS | strategies.lists(SCALARS) | strategies.dictionaries(TEXTS, SCALARS),
    )
)
def test_what_is_written_is_read_again(value):
    read, _ = read_yaml(write_yaml(value))
    assert repr(read) == repr(value)
