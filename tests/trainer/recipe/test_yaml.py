"""Strict YAML: values, locations of keys, refused input, and writing."""

import math
import subprocess
import sys

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
        # Text that YAML 1.1, or a more liberal reader, would convert.
        ("no", "no"),
        ("on", "on"),
        ("12:30", "12:30"),
        ("2025-03-07", "2025-03-07"),
        ("0x10", "0x10"),
        ("1_000", "1_000"),
        ("nan", "nan"),
    ],
)
def test_read_yaml_converts_scalars_of_yaml_1_2_only(text, value):
    read, lines = read_yaml(f"key: {text}")
    assert read == {"key": value}
    assert type(read["key"]) is type(value)
    assert lines == {"key": 1}


def test_read_yaml_reads_nan():
    assert math.isnan(read_yaml("key: .nan")[0]["key"])


def test_read_yaml_returns_the_line_of_every_key():
    text = "# comment\na:\n  b: 1\n\n  c: {d: 2}\ne: [{f: 3}]\n"
    assert read_yaml(text)[1] == {"a": 2, "a.b": 3, "a.c": 5, "a.c.d": 5, "e": 6, "e.0.f": 6}


@pytest.mark.parametrize("text", ["", "# only a comment\n"])
def test_read_yaml_of_nothing_is_none(text):
    assert read_yaml(text) == (None, {})


BILLION_LAUGHS = "a: &a [x, x]\n" + "".join(
    f"{name}: &{name} [*{of}, *{of}]\n" for of, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "line", "column", "facts"),
    [
        ("a: 1\nb: 2\na: 3", 3, 1, ["`a`", "line 1"]),
        ("a:\n  b: 1\n  b: 2", 3, 3, ["`a.b`", "line 2"]),
        ("a: &x 1", 1, 4, ["&x", "anchors"]),
        ("a: {b: &x {c: 1}, d: *x}", 1, 8, ["&x", "anchors"]),
        ("&x a: 1", 1, 1, ["&x", "anchors"]),
        ("a: 1\nb: *x", 2, 4, ["*x", "aliases"]),
        (BILLION_LAUGHS, 1, 4, ["&a", "anchors"]),
        ("a: !!python/name:os.system x", 1, 4, ["python/name:os.system", "tags"]),
        ("a: !b 1", 1, 4, ["!b", "tags"]),
        ("? [a]\n: 1", 1, 3, ["key"]),
        ("a: [1\nb: 2", 2, 2, ["','", "':'"]),
        ("a: b: c", 1, 5, ["': '", "quotes"]),
        ("a:\n\tb: 1", 2, 1, ["spaces", "tabs"]),
        ("a: 1\nb: \x07", 2, 4, ["U+0007"]),
        ("a: 1\n---\nb: 1", 2, 1, ["'---'"]),
        ("a: " + "[" * 100_000, 1, 13, ["10"]),
        ("a: " + "{b: " * 100_000, 1, 37, ["10"]),
        ("a: " + "9" * 5000, 1, 4, ["5000 digits"]),
        ("a: " + "x" * 1_000_000, 1, 1, ["1,000,000 characters"]),
        ("a: 'x", 1, 6, ["end of stream"]),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else None,
)
def test_read_yaml_refuses_with_line_and_column(text, line, column, facts):
    with pytest.raises(YamlError) as caught:
        read_yaml(text)
    message = str(caught.value)
    assert all(fact in message for fact in facts), message
    assert "\n" not in message
    assert (caught.value.line, caught.value.column) == (line, column)


# Text that a recipe can have; lone surrogates cannot be written as UTF-8.
SPECIAL = [
    "1e-3",
    "no",
    "null",
    "~",
    "1:30",
    "0o7",
    "08",
    ".5e1",
    "*x",
    "#",
    "<<",
    "=",
    "0x10",
    "1_0",
    "2025-03-07",
    "Yes",
    "---",
    "...",
    "%a",
    "-",
    "?",
    "|",
    ">",
    "@",
    "`",
    "!",
    "&a",
]
SPECIAL += ["- a", "a: b", "a #b", "a\n", " ", "a  b", "long " * 50]
TEXTS = strategies.text(strategies.characters(exclude_categories=["Cs"])) | strategies.sampled_from(
    SPECIAL
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
def test_read_yaml_reads_what_write_yaml_wrote(value):
    read, _ = read_yaml(write_yaml(value))
    assert repr(read) == repr(value)


def test_write_yaml_quotes_text_that_other_readers_would_convert():
    words = ["no", "Yes", "null", "1_000", "2025-03-07", "0x10", "1:30", "~", "y", "path/to.en"]
    written = write_yaml({"words": words})
    assert written == (
        "words: ['no', 'Yes', 'null', '1_000', '2025-03-07', '0x10', '1:30', '~', 'y', "
        "path/to.en]\n"
    )


def test_recipe_files_are_read_without_tensorflow():
    program = (
        "import sys\n"
        "from keras_transformer.trainer.recipes import read_recipe_file\n"
        "read_recipe_file('quickstart')\n"
        "print('tensorflow' in sys.modules, 'keras' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.stdout == "False False\n"


@pytest.mark.parametrize("escape", ["\\UFFFFFFFF", "\\U00110000"])
def test_escape_that_is_no_character_is_located(escape):
    with pytest.raises(YamlError, match="no character") as found:
        read_yaml(f'# \\U0010FFFF\nname: "a{escape}"\n')
    assert (found.value.line, found.value.column) == (2, 9)
