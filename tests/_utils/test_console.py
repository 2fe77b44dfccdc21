"""Escapes of text that can deceive a terminal or a reader."""

import io
import json
import unicodedata

import pytest
from rich.console import Console

from keras_transformer._utils.console import for_stream, print_table, shown

DECEPTIVE = {
    "color": "\x1b[31m",
    "title of the window": "\x1b]0;owned\x07",
    "C1": "\x9b31m",
    "cursor": "a\b\r",
    "NUL": "\0",
    "delete": "\x7f",
    "line ends": "\n\x0b\x0c\x85\u2028\u2029",
    "direction": "\u061c\u200e\u200f\u202a\u202e\u2066\u2069",
    "invisible": "\u200b\u2060\ufeff\u00ad\U000e0041",
    "surrogate": "\ud800 \udcff",
    "private and unassigned": "\ue000\U0003fffd",
}

#: Text of scripts and emoji that is displayed as it is.
TEXTS = (
    "l’été\u202f: 20\xa0000",
    "日本語\u3000の文",
    "می\u200cخواهم",
    "शर्\u200dमा",
    "👩\u200d💻",
    "\u0601\u0661\u0662",
    "a\\x1b",
)


@pytest.mark.parametrize("text", DECEPTIVE.values(), ids=DECEPTIVE)
def test_deceptive_characters_become_visible_escapes(text):
    seen = shown(f"<{text}>")
    assert seen.startswith("<")
    assert seen.endswith(">")
    assert all(letter.isprintable() for letter in seen)
    assert seen[1:-1].encode().decode("unicode_escape") == text
    assert shown(seen) == seen


@pytest.mark.parametrize("text", TEXTS)
def test_texts_of_all_scripts_are_unchanged(text):
    assert shown(text) == text


def test_every_control_or_format_character_is_escaped():
    letters = list(map(chr, range(0x10000)))
    changed = {letter for letter in letters if shown(letter) != letter}
    categories = {"Cc", "Cs", "Zl", "Zp"}
    expected = {letter for letter in letters if unicodedata.category(letter) in categories}
    assert expected <= changed
    left = [letter for letter in set(letters) - changed if unicodedata.category(letter) == "Cf"]
    assert len(left) == 11


@pytest.mark.parametrize("text", DECEPTIVE.values(), ids=DECEPTIVE)
def test_escaped_json_is_the_same_json(text):
    escaped = shown(json.dumps({"text": text}, ensure_ascii=False), as_json=True)
    assert escaped.isprintable()
    assert json.loads(escaped) == {"text": text}


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_for_stream_escapes_for_terminals_alone():
    text = "1\ta\x1b[31m\u202e\n"
    assert for_stream(text, io.StringIO()) == text
    assert for_stream(text, Terminal()) == "1\ta\\x1b[31m\\u202e\n"


def test_tables_escape_cells_and_headings_and_read_no_markup():
    stream = io.StringIO()
    console = Console(file=stream, width=80)
    print_table(console, ["[bold]\x1b[31m"], [["[red]\u202e"]], title="[i]\x07")
    assert stream.getvalue().split("\n")[:3] == ["[i]\\x07", "[bold]\\x1b[31m", "[red]\\u202e   "]
