"""Hostile text in the output of all commands: escaped on a terminal and in messages, else exact."""

import contextlib
import json
import os
import pty
import re
import threading

import numpy as np
import pytest
import tensorflow as tf

import keras_transformer.inference
from keras_transformer.cli.main import VERBS, main

# Everything but NUL and line feeds, which end the reading of a line.
HOSTILE = "\x1b]0;owned\x07\x1b[666m\x9b66m\u202edlrow\u2066\u2028\x08\x7f\x85\u200b"
NAME = f"run{HOSTILE}"

# What rich and this package write to a terminal: colors, cursor, erased lines, line ends.
OWN = re.compile(r"\x1b\[(?:(?:\d{1,2})(?:;\d{1,3})*m|\d?[ABKGH]|2K|\?25[hl])|\r\n|\r|\n|\t")


class Terminal:
    """Standard output and standard error on a pseudo-terminal; `text` is what it received."""

    def __enter__(self):
        reader, writer = pty.openpty()
        self._reader, self._parts = reader, []
        self._thread = threading.Thread(target=self._read)
        self._thread.start()
        self._stack = contextlib.ExitStack()
        # Python's standard error escapes what cannot be encoded, its standard output does not.
        for redirect, errors in (
            (contextlib.redirect_stdout, "strict"),
            (contextlib.redirect_stderr, "backslashreplace"),
        ):
            stream = open(os.dup(writer), "w", encoding="utf-8", errors=errors)
            self._stack.enter_context(stream)
            self._stack.enter_context(redirect(stream))
        os.close(writer)
        return self

    def __exit__(self, *_):
        self._stack.close()
        self._thread.join()
        os.close(self._reader)
        self.text = b"".join(self._parts).decode()

    def _read(self):
        # A terminal whose other end is closed raises OSError.
        with contextlib.suppress(OSError):
            while part := os.read(self._reader, 65536):
                self._parts.append(part)


def require_harmless(text):
    """Fails if there is a control character that this package does not write itself."""
    assert "owned" in text, "the hostile text is not shown at all"
    rest = OWN.sub("", text)
    assert rest.isprintable(), [letter for letter in rest if not letter.isprintable()][:10]
    assert "\\x1b" in rest or "\\u001b" in rest


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TERM", "xterm-256color")
    (tmp_path / "hostile.de").write_text(f"zwei {HOSTILE}\n" * 3, encoding="utf-8")
    (tmp_path / "hostile.en").write_text(f"two {HOSTILE}\n" * 3, encoding="utf-8")
    return tmp_path


@pytest.fixture
def hostile_model(phrases_run, monkeypatch):
    """Returns a run whose model answers with hostile text."""
    load = keras_transformer.inference.load

    def load_hostile(path, key=None):
        model = load(path, key)

        def answer(text):
            rows = int(text.shape[0])
            return {"text": tf.constant([HOSTILE] * rows), "score": tf.zeros(rows)}

        model.signatures["serving_default"] = answer
        return model

    monkeypatch.setattr(keras_transformer.inference, "load", load_hostile)
    return str(phrases_run)


def on_terminal(*arguments, code=0):
    with Terminal() as terminal:
        assert main([str(argument) for argument in arguments]) == code
    require_harmless(terminal.text)
    return terminal.text


@pytest.mark.parametrize("form", ["text", "tsv", "jsonl"])
def test_translations_on_a_terminal_are_escaped(folder, hostile_model, form):
    command = ["translate", hostile_model, "--input", "hostile.de", "--format", form]
    lines = on_terminal(*command).splitlines()
    assert len(lines) == 3
    if form == "jsonl":
        answer = json.loads(lines[0])
        assert answer["source"] == f"zwei {HOSTILE}"
        assert answer["translations"] == [{"text": HOSTILE}]


def test_translations_in_a_pipe_or_file_are_exact(folder, hostile_model, capfdbinary):
    command = ["translate", hostile_model, "--input", "hostile.de"]
    assert main(command) == 0
    assert capfdbinary.readouterr() == (f"{HOSTILE}\n".encode() * 3, b"")
    assert main([*command, "--output", "answers.en"]) == 0
    assert (folder / "answers.en").read_bytes() == f"{HOSTILE}\n".encode() * 3


def test_evaluation_on_a_terminal_is_escaped(folder, hostile_model):
    files = ["--source", "hostile.de", "--reference", "hostile.en"]
    on_terminal("evaluate", hostile_model, *files)


def test_explanation_on_a_terminal_and_in_html_is_escaped(folder, phrases_run):
    command = ["explain", phrases_run, f"zwei {HOSTILE}", "--draws", "1"]
    on_terminal(*command, "--target", f"two {HOSTILE}")
    page = (folder / "explanation.html").read_text(encoding="utf-8")
    assert "owned" in page
    assert page.replace("\n", "").isprintable()
    text = on_terminal(*command, "--target", f"two {HOSTILE}", "--json")
    assert json.loads(text)["target"] == f"two {HOSTILE}"


def test_data_report_on_a_terminal_is_escaped(folder):
    lines = [f"{HOSTILE} {number}\tthis is {HOSTILE}{number}" for number in range(40)]
    (folder / f"{NAME}.tsv").write_text("\n".join([*lines, f"{HOSTILE}\t{HOSTILE}\n"]))
    text = on_terminal("data", f"{NAME}.tsv", "--tokenizer", "bytes", "--output", f"{NAME}_report")
    assert "identical sides" in text


MISTAKES = {
    "models": ["models", HOSTILE],
    "import": ["import", NAME, "--to", "there"],
    "data": ["data", f"{NAME}.tsv"],
    "train": ["train", f"{NAME}.yaml"],
    "train, override": ["train", "quickstart", "--set", f"name={HOSTILE}"],
    "seal": ["seal", NAME],
    "export": ["export", NAME, "--to", "there"],
    "sign": ["sign", "model", "--key", NAME],
    "verify": ["verify", NAME],
    "translate": ["translate", NAME, "--input", "hostile.de"],
    "translate, file": ["translate", "model", "--input", NAME],
    "evaluate": ["evaluate", NAME, "--source", "hostile.de", "--reference", "hostile.en"],
    "evaluate, files": ["evaluate", "model", "--source", NAME, "--reference", "hostile.en"],
    "score": ["score", NAME, "--target", "hostile.en"],
    "explain": ["explain", NAME, "text"],
    "serve": ["serve", NAME],
    "stream": ["stream", NAME, "text"],
    "compare": ["compare", f"{NAME}.yaml"],
    "compare, models": ["compare", "quickstart", "--models", NAME],
}


def test_each_command_has_a_hostile_mistake():
    assert {name.split(",")[0] for name in MISTAKES} == set(VERBS)


@pytest.mark.parametrize("command", MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_one_escaped_line_on_terminals_and_in_pipes(folder, command, capsys):
    lines = on_terminal(*command, code=2).splitlines()
    assert len(lines) == 1
    assert main(command) == 2
    printed, told = capsys.readouterr()
    assert printed == ""
    assert told == f"{lines[0]}\n"


@pytest.mark.parametrize(
    "command", [[HOSTILE], ["models", f"--{HOSTILE}"], ["score", "m", "--format", NAME]]
)
def test_mistakes_of_the_command_line_are_escaped(command):
    with Terminal() as terminal, pytest.raises(SystemExit) as ended:
        main(command)
    assert ended.value.code == 2
    require_harmless(terminal.text)


def test_replaced_bytes_of_a_hostile_file_name_are_reported_escaped(folder, hostile_model):
    (folder / NAME).write_bytes(b"a\xff\n")
    command = ["translate", hostile_model, "--input", NAME, "--encoding-errors", "replace"]
    assert "1 byte sequences" in on_terminal(*command)


def test_tables_for_tensorboard_are_escaped():
    from keras_transformer.trainer.callbacks import HyperParameters, make_table

    table = make_table([(HOSTILE, HOSTILE, HOSTILE)])
    assert table.replace("\n", "").isprintable()
    values = HyperParameters("logs", {"data": {"train": [HOSTILE], "cache": HOSTILE}}).values
    assert all(value.isprintable() for value in values.values())


def test_pages_of_attention_are_escaped(folder):
    from keras_transformer.inference.attention_maps import Alignment, make_attention_page

    weights = np.ones((1, 1), np.float32)
    page = make_attention_page([Alignment(HOSTILE, HOSTILE, (HOSTILE,), (HOSTILE,), weights)])
    assert "owned" in page
    # The page itself isolates the direction of each token.
    assert re.sub("[\n\u2068\u2069]", "", page).isprintable()
