"""Learning of vocabularies: reproducibility, progress, and wrong arguments."""

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
from keras_transformer.text import SpecialIds, check_learning, learn_tokenizer

LEARN_AGAIN = """
import json, os, runpy, sys
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
from keras_transformer.text import ByteTokenizer, learn_tokenizer

def silent(stage, done, total):
    pass

ByteTokenizer().tokenize(["text"])
for module in ("tensorflow_text", "sentencepiece"):
    if module in sys.modules:
        raise SystemExit(f"{module} was imported before it was needed")
lines = runpy.run_path(sys.argv[1])["names_from_cldr"]
unigram = learn_tokenizer("sentencepiece", lines(), 3000, progress=silent)
bpe = learn_tokenizer("sentencepiece", lines(), 3000, model="bpe", progress=silent)
print(unigram.hash)
print(bpe.hash)
print(learn_tokenizer("wordpiece", lines(), 7000, progress=silent).hash)
for tokenizer in (unigram, bpe):
    print(json.dumps(tokenizer.sample(["perjantai 7. maaliskuuta"] * 20, seed=7).to_list()))
"""


def test_learning_in_other_process_on_one_core_gives_same_bytes(tokenizers):
    # The other process has other hashes of strings and another number of cores.
    run = subprocess.run(
        [sys.executable, "-c", LEARN_AGAIN, str(pathlib.Path(__file__).parent / "conftest.py")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": "12345"},
    )
    assert run.returncode == 0, run.stderr
    *hashes, unigram_samples, bpe_samples = run.stdout.splitlines()
    assert hashes == [tokenizers[name].hash for name in ("unigram", "bpe", "wordpiece")]
    # Random segmentation also depends on text and seed alone.
    for name, samples in (("unigram", unigram_samples), ("bpe", bpe_samples)):
        sampled = tokenizers[name].sample(["perjantai 7. maaliskuuta"] * 20, seed=7).to_list()
        assert sampled == json.loads(samples)
        assert len({tuple(ids) for ids in sampled}) > 1


@pytest.mark.parametrize("model", ["unigram", "bpe"])
def test_learning_twice_gives_the_same_bytes(corpus, model, silent):
    first, second = (
        learn_tokenizer("sentencepiece", corpus[:3000], 1500, model=model, progress=silent)
        for _ in range(2)
    )
    assert first.to_bytes() == second.to_bytes()
    assert b".tsv" not in first.to_bytes()  # No name of a temporary file.


def test_learning_reads_lines_once(corpus, silent):
    lines = iter(corpus[:2000])
    tokenizer = learn_tokenizer("wordpiece", lines, 1500, progress=silent)
    assert next(lines, None) is None
    assert tokenizer.vocabulary_size == 1500


def test_learning_of_bytes_reads_no_lines(silent):
    def lines():
        raise AssertionError("read")
        yield

    assert learn_tokenizer("bytes", lines(), 260, progress=silent).vocabulary_size == 260


@pytest.mark.parametrize(
    ("name", "size"), [("sentencepiece", 50_000), ("wordpiece", 50_000), ("bytes", 8000)]
)
def test_learning_of_smaller_vocabulary_warns_with_both_sizes(corpus, name, size, silent):
    expected = rf"{name} vocabulary has \d+ ids, fewer than the {size}"
    with pytest.warns(UserWarning, match=expected) as caught:
        tokenizer = learn_tokenizer(name, corpus[:500], size, progress=silent)
    assert f"has {tokenizer.vocabulary_size} ids" in str(caught[0].message)
    assert tokenizer.vocabulary_size < size


@pytest.mark.parametrize("model", ["unigram", "bpe"])
def test_learning_of_requested_size_gives_no_warning(corpus, model, silent):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tokenizer = learn_tokenizer(
            "sentencepiece", corpus[:2000], 900, model=model, progress=silent
        )
    assert tokenizer.vocabulary_size == 900


def test_learning_of_too_small_vocabulary_gives_smallest_size(silent):
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
def test_learning_from_blank_lines_is_refused(name, lines, silent):
    with pytest.raises(UserError, match="no line has text"):
        learn_tokenizer(name, lines, 300, progress=silent)


def test_wrong_argument_of_learning_is_refused_by_name(silent):
    with pytest.raises(ValueError, match=r"`tokenizer` must be one of .*mean 'wordpiece'\?"):
        learn_tokenizer("wordpeice", ["a"], 300)
    with pytest.raises(ValueError, match=r"`option` must be one of 'model'; got 'modle'\. Did you"):
        learn_tokenizer("sentencepiece", ["a"], 300, modle="bpe")
    with pytest.raises(ValueError, match=r"`model` must be one of 'bpe', 'unigram'; got 'word'"):
        learn_tokenizer("sentencepiece", ["a"], 300, model="word", progress=silent)
    with pytest.raises(UserError, match="`vocabulary_size` must be at least 8 for 'wordpiece'"):
        learn_tokenizer("wordpiece", ["a"], 6, progress=silent)
    with pytest.raises(UserError, match=r"'bytes' .*no options; got 'lowercase'"):
        learn_tokenizer("bytes", ["a"], 300, lowercase=True)
    with pytest.raises(ValueError, match="`lowercase` must be True or False; got 'no'"):
        learn_tokenizer("wordpiece", ["a"], 300, lowercase="no", progress=silent)
    with pytest.raises(UserError, match=r"`lines` .*got .*'a b'"):
        learn_tokenizer("wordpiece", "a b", 300)
    with pytest.raises(UserError, match=r"`lines` .*line 2 is b'b'"):
        learn_tokenizer("wordpiece", ["a", b"b"], 300, progress=silent)
    with pytest.raises(ValueError, match="`maximum_passages` must be a whole number of at least 1"):
        learn_tokenizer("wordpiece", ["a"], 300, maximum_passages=0)


def test_check_learning_checks_arguments_without_lines():
    assert check_learning("bytes", 8000) == 260
    assert check_learning("bytes", 8000, special_ids=SpecialIds(padding=2)) == 259
    assert check_learning("sentencepiece", 8000, model="bpe") is None
    with pytest.raises(ValueError, match="`model`"):
        check_learning("sentencepiece", 8000, model="word")
    with pytest.raises(UserError, match="at least 260"):
        check_learning("bytes", 100)
    with pytest.raises(UserError, match=r"below `vocabulary_size`, 300; got .*padding=300"):
        check_learning("sentencepiece", 300, special_ids=SpecialIds(padding=300))


def test_learning_with_maximum_passages_samples_the_corpus(corpus, silent):
    with pytest.warns(UserWarning, match="fewer than"):
        few = learn_tokenizer("wordpiece", corpus, 9000, maximum_passages=50, progress=silent)
    assert few.vocabulary_size < 1000


@pytest.mark.parametrize(("name", "size"), [("sentencepiece", 3000), ("wordpiece", 6000)])
def test_learning_reports_every_stage_to_callback(corpus, name, size):
    reported = []

    def listen(stage, done, total):
        reported.append((stage, done, total))

    learn_tokenizer(name, corpus * 2, size, progress=listen)
    assert reported[0] == ("Reading lines", 10_000, None)
    assert ("Reading lines", 2 * len(corpus), 2 * len(corpus)) in reported
    assert len({stage for stage, _, _ in reported}) == 2


def test_learning_without_terminal_prints_one_line(corpus, capfd):
    for name in ("sentencepiece", "wordpiece"):
        learn_tokenizer(name, corpus[:2000], 1200)
        captured = capfd.readouterr()
        assert captured.err == f"Learning a {name} vocabulary of 1200\n"
        assert captured.out == ""


def test_learning_on_terminal_shows_and_erases_progress_bar(corpus, monkeypatch):
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
    assert shown.result().endswith("\x1b[2K")  # the line is erased


def read_to_the_end(descriptor):
    content = b""
    with open(descriptor, "rb", buffering=0) as file:
        while True:
            try:
                content += file.read(1000)
            except OSError:  # Linux reports the closed other end like this
                return content.decode()
