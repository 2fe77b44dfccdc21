"""Learning a vocabulary: the same each time, silent or telling, and clear about what is wrong."""

import json
import os
import pathlib
import pty
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.text import learn_tokenizer

LEARN_AGAIN = """
import json, os, runpy, sys
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
from keras_transformer.text import ByteTokenizer, learn_tokenizer

def silent(stage, done, total):
    pass

ByteTokenizer().tokenize(["text"])
for module in ("tensorflow_text", "sentencepiece"):
    if module in sys.modules:
        raise SystemExit(f"{module} was imported before anybody needed it")
lines = runpy.run_path(sys.argv[1])["names_from_cldr"]
unigram = learn_tokenizer("sentencepiece", lines(), 3000, progress=silent)
bpe = learn_tokenizer("sentencepiece", lines(), 3000, model="bpe", progress=silent)
print(unigram.hash)
print(bpe.hash)
print(learn_tokenizer("wordpiece", lines(), 7000, progress=silent).hash)
for tokenizer in (unigram, bpe):
    print(json.dumps(tokenizer.sample(["perjantai 7. maaliskuuta"] * 20, seed=7).to_list()))
"""


def test_another_process_on_one_core_learns_the_same_bytes(tokenizers):
    # The names of the fixture, in a process with other hashes of strings and another core count.
    run = subprocess.run(
        [sys.executable, "-c", LEARN_AGAIN, str(pathlib.Path(__file__).parent / "conftest.py")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": "12345"},
    )
    assert run.returncode == 0, run.stderr
    *hashes, unigram_cuts, bpe_cuts = run.stdout.splitlines()
    assert hashes == [tokenizers[name].hash for name in ("unigram", "bpe", "wordpiece")]
    # Random cuts too depend on text and seed alone.
    for name, cuts in (("unigram", unigram_cuts), ("bpe", bpe_cuts)):
        sampled = tokenizers[name].sample(["perjantai 7. maaliskuuta"] * 20, seed=7).to_list()
        assert sampled == json.loads(cuts)
        assert len({tuple(ids) for ids in sampled}) > 1


@pytest.mark.parametrize("model", ["unigram", "bpe"])
def test_learning_twice_gives_the_same_bytes(corpus, model, silent):
    first, second = (
        learn_tokenizer("sentencepiece", corpus[:3000], 1500, model=model, progress=silent)
        for _ in range(2)
    )
    assert first.to_bytes() == second.to_bytes()
    assert b".tsv" not in first.to_bytes()  # No name of a temporary file.


def test_lines_are_read_once_as_a_stream(corpus, silent):
    lines = iter(corpus[:2000])
    tokenizer = learn_tokenizer("wordpiece", lines, 1500, progress=silent)
    assert next(lines, None) is None
    assert tokenizer.vocabulary_size == 1500


def test_bytes_read_nothing(silent):
    def lines():
        raise AssertionError("read")
        yield

    assert learn_tokenizer("bytes", lines(), 260, progress=silent).vocabulary_size == 260


@pytest.mark.parametrize(
    ("name", "size"), [("sentencepiece", 50_000), ("wordpiece", 50_000), ("bytes", 8000)]
)
def test_a_smaller_vocabulary_than_asked_is_a_warning_with_both_sizes(corpus, name, size, silent):
    expected = rf"The {name} vocabulary has \d+ ids, fewer than the {size} asked for"
    with pytest.warns(UserWarning, match=expected) as caught:
        tokenizer = learn_tokenizer(name, corpus[:500], size, progress=silent)
    assert f"has {tokenizer.vocabulary_size} ids" in str(caught[0].message)
    assert tokenizer.vocabulary_size < size


@pytest.mark.parametrize("model", ["unigram", "bpe"])
def test_a_vocabulary_as_large_as_asked_gives_no_warning(corpus, model, silent):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tokenizer = learn_tokenizer(
            "sentencepiece", corpus[:2000], 900, model=model, progress=silent
        )
    assert tokenizer.vocabulary_size == 900


def test_too_small_a_vocabulary_says_how_large_it_must_be(silent):
    lines = ["abcdefgh" * 3] * 10
    with pytest.raises(UserError, match=r"`vocabulary_size` must be at least 269 .*; got 262\."):
        learn_tokenizer("sentencepiece", lines, 262, progress=silent)
    assert learn_tokenizer("sentencepiece", lines, 269, progress=silent).vocabulary_size == 269
    with pytest.raises(UserError, match=r"must be at least 260 for 'bytes'.* got 100\."):
        learn_tokenizer("bytes", lines, 100, progress=silent)
    with pytest.raises(ValueError, match=r"`vocabulary_size` must be a whole number of at least 5"):
        learn_tokenizer("wordpiece", lines, 4, progress=silent)


@pytest.mark.parametrize("name", ["sentencepiece", "wordpiece"])
@pytest.mark.parametrize("lines", [[], ["", "  ", "\n", "\u3000"]])
def test_nothing_to_learn_from_is_an_error(name, lines, silent):
    with pytest.raises(UserError, match="nothing to learn a vocabulary from: no line has any text"):
        learn_tokenizer(name, lines, 300, progress=silent)


def test_wrong_arguments_are_named(silent):
    with pytest.raises(ValueError, match=r"`tokenizer` must be one of .*mean 'wordpiece'\?"):
        learn_tokenizer("wordpeice", ["a"], 300)
    with pytest.raises(ValueError, match=r"`option` must be one of 'model'; got 'modle'\. Did you"):
        learn_tokenizer("sentencepiece", ["a"], 300, modle="bpe")
    with pytest.raises(ValueError, match=r"`model` must be one of 'bpe', 'unigram'; got 'word'"):
        learn_tokenizer("sentencepiece", ["a"], 300, model="word", progress=silent)
    with pytest.raises(UserError, match="`vocabulary_size` must be at least 8 for 'wordpiece'"):
        learn_tokenizer("wordpiece", ["a"], 6, progress=silent)
    with pytest.raises(UserError, match="'bytes' tokenizer has no options; got 'lowercase'"):
        learn_tokenizer("bytes", ["a"], 300, lowercase=True)
    with pytest.raises(ValueError, match="`lowercase` must be True or False; got 'no'"):
        learn_tokenizer("wordpiece", ["a"], 300, lowercase="no", progress=silent)
    with pytest.raises(UserError, match=r"`lines` must be many strings.*got a single one, 'a b'\."):
        learn_tokenizer("wordpiece", "a b", 300)
    with pytest.raises(UserError, match="`lines` must give strings; line 2 is b'b'"):
        learn_tokenizer("wordpiece", ["a", b"b"], 300, progress=silent)
    with pytest.raises(ValueError, match="`maximum_passages` must be a whole number of at least 1"):
        learn_tokenizer("wordpiece", ["a"], 300, maximum_passages=0)


def test_a_large_corpus_is_sampled_down(corpus, silent):
    with pytest.warns(UserWarning, match="asked for"):
        few = learn_tokenizer("wordpiece", corpus, 9000, maximum_passages=50, progress=silent)
    assert few.vocabulary_size < 1000


@pytest.mark.parametrize(("name", "size"), [("sentencepiece", 3000), ("wordpiece", 6000)])
def test_a_callback_hears_of_every_stage(corpus, name, size):
    heard = []

    def listen(stage, done, total):
        heard.append((stage, done, total))

    learn_tokenizer(name, corpus * 2, size, progress=listen)
    assert heard[0] == ("Reading lines", 10_000, None)
    assert ("Reading lines", 2 * len(corpus), 2 * len(corpus)) in heard
    assert len({stage for stage, _, _ in heard}) == 2


def test_elsewhere_than_on_a_terminal_there_is_one_plain_line(corpus, capfd):
    for name in ("sentencepiece", "wordpiece"):
        learn_tokenizer(name, corpus[:2000], 1200)
        captured = capfd.readouterr()
        assert captured.err == f"Learning a {name} vocabulary of 1200\n"
        assert captured.out == ""


def test_on_a_terminal_a_line_moves_and_vanishes(corpus, monkeypatch):
    reader, writer = pty.openpty()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with ThreadPoolExecutor(max_workers=1) as thread:
        shown = thread.submit(read_to_the_end, reader)
        with os.fdopen(writer, "w") as terminal:
            monkeypatch.setattr(sys, "stderr", terminal)
            learn_tokenizer("wordpiece", corpus[:2000], 1200)
            monkeypatch.undo()
    assert "Learning a wordpiece vocabulary of 1200: " in shown.result()
    assert shown.result().endswith("\x1b[2K")  # The line is erased.


def read_to_the_end(descriptor):
    content = b""
    with open(descriptor, "rb", buffering=0) as file:
        while True:
            try:
                content += file.read(1000)
            except OSError:  # How Linux says that the other end is closed.
                return content.decode()
