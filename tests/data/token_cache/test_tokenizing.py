import errno
import logging
import resource
import shutil
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.data import Corpus, MemoryCorpus, ParallelCorpus, tokenize_corpus
from keras_transformer.text import ByteTokenizer


class CountingCorpus(MemoryCorpus):
    """Counts how often it is read."""

    readings = 0

    def read(self, tally):
        self.readings += 1
        return super().read(tally)


class FailingCorpus(Corpus):
    """Thousands of examples, and then an error."""

    columns = ("text",)
    name = "failing"

    def read(self, tally):
        for number in range(20_000):
            yield (f"text {number}",)
        raise UserError("failing:20001: a bad line. Put it right.")

    def fingerprint(self):
        return "failing"


def contents(cache):
    """All ids of a cache, example by example."""
    examples = []
    for column in cache.columns.values():
        begins, counts = column.spans(np.arange(len(cache)))
        ids = column.gather(begins, counts)
        examples.append(np.split(ids, np.cumsum(counts)[:-1]))
    return [[ids.tolist() for ids in example] for example in zip(*examples, strict=True)]


def test_is_made_once(tmp_path, pairs):
    corpus = CountingCorpus(pairs)
    first = tokenize_corpus(corpus, ByteTokenizer(), tmp_path)
    second = tokenize_corpus(corpus, ByteTokenizer(), tmp_path)
    assert corpus.readings == 1
    assert first.path == second.path
    assert first.key == second.key


def test_keeps_the_order_of_many_chunks(tmp_path):
    examples = [(f"{number}", f"{number * 7}") for number in range(30_000)]
    done = []
    cache = tokenize_corpus(MemoryCorpus(examples), ByteTokenizer(), tmp_path, progress=done.append)
    assert contents(cache) == [
        [[byte + 4 for byte in text.encode()] for text in pair] for pair in examples
    ]
    assert done == sorted(done)
    assert done[-1] == 30_000
    assert len(done) > 2


def test_is_another_one_for_anything_else(tmp_path, pairs):
    class OtherBytes(ByteTokenizer, registered_name="other_bytes_of_a_test"):
        hash = "other"

    corpus, tokenizer = MemoryCorpus(pairs), ByteTokenizer()
    caches = [
        tokenize_corpus(corpus, tokenizer, tmp_path),
        tokenize_corpus(MemoryCorpus(pairs[1:]), tokenizer, tmp_path),
        tokenize_corpus(corpus, OtherBytes(), tmp_path),
        tokenize_corpus(corpus, {"source": tokenizer, "target": OtherBytes()}, tmp_path),
        tokenize_corpus(corpus, {"source": OtherBytes(), "target": tokenizer}, tmp_path),
        tokenize_corpus(corpus, tokenizer, tmp_path, keep_text=True),
    ]
    assert len({cache.path for cache in caches}) == len(caches)


def test_a_file_that_changed_gets_a_new_cache(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("eins\n")
    target.write_text("one\n")
    tokenize_corpus(ParallelCorpus(source, target), ByteTokenizer(), tmp_path / "caches")
    target.write_text("two\n")
    cache = tokenize_corpus(ParallelCorpus(source, target), ByteTokenizer(), tmp_path / "caches")
    assert contents(cache)[0][1] == [byte + 4 for byte in b"two"]


@pytest.mark.parametrize("damage", ["flipped", "half-written", "of another key"])
def test_a_damaged_cache_is_reported_and_built_again(tmp_path, pairs, damage, caplog):
    corpus = MemoryCorpus(pairs)
    cache = tokenize_corpus(corpus, ByteTokenizer(), tmp_path)
    wanted = contents(cache)
    path = cache.path
    if damage == "flipped":
        ids = bytearray((path / "source.ids").read_bytes())
        ids[17] ^= 4
        (path / "source.ids").write_bytes(ids)
    elif damage == "half-written":
        (path / "cache.json").unlink()
        (path / "target.ids").unlink()
    else:
        for file in path.iterdir():
            file.unlink()
        path.rmdir()
        other = tokenize_corpus(MemoryCorpus(pairs[1:]), ByteTokenizer(), tmp_path)
        other.path.rename(path)
    with caplog.at_level(logging.WARNING):
        cache = tokenize_corpus(corpus, ByteTokenizer(), tmp_path)
    assert caplog.text.count("damaged and will be built again") == 1
    assert str(path) in caplog.text
    assert cache.path == path
    assert contents(cache) == wanted


def test_readers_of_a_replaced_cache_keep_it(tmp_path, pairs):
    corpus = MemoryCorpus(pairs)
    old = tokenize_corpus(corpus, ByteTokenizer(), tmp_path)
    wanted = contents(old)
    (old.path / "cache.json").unlink()
    tokenize_corpus(corpus, ByteTokenizer(), tmp_path)
    assert contents(old) == wanted


def test_an_error_of_the_corpus_comes_out_and_leaves_nothing(tmp_path):
    with pytest.raises(UserError, match="failing:20001: a bad line"):
        tokenize_corpus(FailingCorpus(), ByteTokenizer(), tmp_path)
    assert [path.suffix for path in tmp_path.iterdir()] == [".lock"]


def test_an_empty_corpus_is_the_users_mistake(tmp_path):
    with pytest.raises(UserError, match="nothing: no examples"):
        tokenize_corpus(MemoryCorpus([], name="nothing"), ByteTokenizer(), tmp_path)
    assert [path.suffix for path in tmp_path.iterdir()] == [".lock"]


def test_a_corpus_that_changes_meanwhile_is_an_error(tmp_path, pairs):
    class ChangingCorpus(CountingCorpus):
        name = "changing"

        def fingerprint(self):
            return f"after {self.readings} readings"

    with pytest.raises(UserError, match=r"changed while it was being tokenized\. Run again"):
        tokenize_corpus(ChangingCorpus(pairs), ByteTokenizer(), tmp_path)
    assert [path.suffix for path in tmp_path.iterdir()] == [".lock"]


@pytest.mark.parametrize(("shift", "message"), [(-101, "got 0 to 21"), (200, "got 301 to 322")])
def test_refuses_ids_that_are_none(tmp_path, shift, message):
    class WrongBytes(ByteTokenizer, registered_name=f"wrong_bytes_of_a_test_{shift}"):
        def tokenize(self, strings):
            return super().tokenize(strings) + shift

    with pytest.raises(ValueError, match=f"column 'source' must give ids from 1 to 259.*{message}"):
        tokenize_corpus(MemoryCorpus([("av", "a")]), WrongBytes(), tmp_path)


def test_refuses_tokenizers_of_other_columns(tmp_path, pairs):
    with pytest.raises(ValueError, match=r"columns \['source', 'target'\]; got \['source'\]"):
        tokenize_corpus(MemoryCorpus(pairs), {"source": ByteTokenizer()}, tmp_path)


def test_refuses_a_directory_that_cannot_be_one(tmp_path, pairs):
    (tmp_path / "file").write_text("")
    for directory in (tmp_path / "file", tmp_path / "file" / "caches"):
        with pytest.raises(UserError, match=r"cannot hold the token cache .*\. Give a directory"):
            tokenize_corpus(MemoryCorpus(pairs), ByteTokenizer(), directory)


def test_a_line_of_a_million_characters_is_kept(tmp_path):
    corpus = MemoryCorpus([("a", "b"), ("ä" * 10**6, "b"), ("a", "c")])
    cache = tokenize_corpus(corpus, ByteTokenizer(), tmp_path)
    assert cache.columns["source"].longest == 2 * 10**6
    assert contents(cache)[2][1] == [ord("c") + 4]


def test_removes_what_a_killed_process_left(tmp_path, pairs):
    corpus = MemoryCorpus(pairs)
    key = tokenize_corpus(corpus, ByteTokenizer(), tmp_path / "elsewhere").key
    code = f"""
        import os, signal, sys
        from keras_transformer.data import MemoryCorpus, tokenize_corpus
        from keras_transformer.text import ByteTokenizer
        kill = lambda examples: os.kill(os.getpid(), signal.SIGKILL)
        tokenize_corpus(MemoryCorpus({pairs!r}), ByteTokenizer(), sys.argv[1], progress=kill)
    """
    directory = tmp_path / "caches"
    killed = subprocess.run([sys.executable, "-c", textwrap.dedent(code), directory], check=False)
    assert killed.returncode < 0
    assert not (directory / key).exists()
    assert list(directory.glob(f".{key}.*"))
    cache = tokenize_corpus(corpus, ByteTokenizer(), directory)
    assert sorted(path.name for path in directory.iterdir()) == [key, f"{key}.lock"]
    assert len(cache) == len(pairs)


def test_a_full_disk_leaves_nothing_behind(tmp_path):
    # A limit on the size of files stands for a full disk: both fail in the middle of a write.
    corpus = MemoryCorpus([(f"number {n}", "x") for n in range(50_000)])
    directory = tmp_path / "caches"
    message = "while writing the token cache: make room, or move the cache"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, limits[1]))
    try:
        with pytest.raises(OSError, match=message) as caught:
            tokenize_corpus(corpus, ByteTokenizer(), directory)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.errno == errno.EFBIG
    assert str(directory) in str(caught.value)
    assert [path.suffix for path in directory.iterdir()] == [".lock"]


def test_a_second_process_waits_for_the_cache_of_the_first(tmp_path, pairs):
    code = f"""
        import logging, sys
        from keras_transformer.data import MemoryCorpus, tokenize_corpus
        from keras_transformer.text import ByteTokenizer
        logging.basicConfig(level=logging.INFO, stream=sys.stdout)
        read = lambda examples: print("read by itself")
        corpus = MemoryCorpus({pairs!r})
        cache = tokenize_corpus(corpus, ByteTokenizer(), sys.argv[1], progress=read)
        print("has", cache.path)
    """
    second = []

    def start_second_process(examples):
        command = [sys.executable, "-c", textwrap.dedent(code), tmp_path]
        second.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        assert any(
            "Another process is building this token cache" in line for line in second[0].stdout
        )

    cache = tokenize_corpus(
        MemoryCorpus(pairs), ByteTokenizer(), tmp_path, progress=start_second_process
    )
    answer, _ = second[0].communicate()
    assert answer == f"has {cache.path}\n"


def test_labels_are_not_tokenized_as_text(tmp_path):
    corpus = MemoryCorpus([("one text", "1"), ("another", "0")], columns=("text", "label"))
    with pytest.raises(ValueError, match="Labels are no text: `tokenizers` must be a mapping with"):
        tokenize_corpus(corpus, ByteTokenizer(), tmp_path)


@pytest.mark.parametrize("wreck", ["cache.json", "."])
def test_what_is_in_the_way_of_a_cache_is_removed(tmp_path, wreck):
    """A directory where the description should be, or a file where the cache should be."""
    corpus = MemoryCorpus([("one", "two")])
    cache = tokenize_corpus(corpus, ByteTokenizer(), tmp_path)
    if wreck == ".":
        shutil.rmtree(cache.path)
        cache.path.write_text("in the way")
    else:
        (cache.path / wreck).unlink()
        (cache.path / wreck).mkdir()
    assert len(tokenize_corpus(corpus, ByteTokenizer(), tmp_path)) == 1
