"""Tokenization of corpora into caches: reuse, errors, several processes, labels, memory."""

import errno
import json
import logging
import resource
import shutil
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.data import (
    Corpus,
    LabelIndex,
    MemoryCorpus,
    ParallelCorpus,
    tokenize_corpus,
)
from keras_transformer.text import ByteTokenizer


class CountingCorpus(MemoryCorpus):
    """A corpus that counts how often it is read."""

    readings = 0

    def read(self, tally):
        self.readings += 1
        return super().read(tally)


class FailingCorpus(Corpus):
    """A corpus of thousands of examples that ends with an error."""

    columns = ("text",)
    name = "failing"

    def read(self, tally):
        for number in range(20_000):
            yield (f"text {number}",)
        raise UserError("failing:20001: a bad line. Put it right.")

    def fingerprint(self):
        return "failing"


def contents(cache):
    """Returns all ids of a cache, example by example."""
    examples = []
    for column in cache.columns.values():
        begins, counts = column.spans(np.arange(len(cache)))
        ids = column.gather(begins, counts)
        examples.append(np.split(ids, np.cumsum(counts)[:-1]))
    return [[ids.tolist() for ids in example] for example in zip(*examples, strict=True)]


def test_cache_is_made_once(tmp_path, pairs):
    corpus = CountingCorpus(pairs)
    first = tokenize_corpus(corpus, ByteTokenizer(), tmp_path)
    second = tokenize_corpus(corpus, ByteTokenizer(), tmp_path)
    assert corpus.readings == 1
    assert first.path == second.path
    assert first.key == second.key


def test_many_chunks_keep_their_order(tmp_path):
    examples = [(f"{number}", f"{number * 7}") for number in range(30_000)]
    done = []
    cache = tokenize_corpus(MemoryCorpus(examples), ByteTokenizer(), tmp_path, progress=done.append)
    assert contents(cache) == [
        [[byte + 4 for byte in text.encode()] for text in pair] for pair in examples
    ]
    assert done == sorted(done)
    assert done[-1] == 30_000
    assert len(done) > 2


def test_other_corpus_tokenizer_or_text_gives_other_cache(tmp_path, pairs):
    class OtherBytes(ByteTokenizer, registered_name="test_other_bytes"):
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


def test_changed_file_gives_new_cache(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("eins\n")
    target.write_text("one\n")
    tokenize_corpus(ParallelCorpus(source, target), ByteTokenizer(), tmp_path / "caches")
    target.write_text("two\n")
    cache = tokenize_corpus(ParallelCorpus(source, target), ByteTokenizer(), tmp_path / "caches")
    assert contents(cache)[0][1] == [byte + 4 for byte in b"two"]


@pytest.mark.parametrize("damage", ["flipped", "half-written", "of another key"])
def test_damaged_cache_is_logged_and_built_again(tmp_path, pairs, damage, caplog):
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


def test_open_cache_stays_readable_when_replaced(tmp_path, pairs):
    corpus = MemoryCorpus(pairs)
    old = tokenize_corpus(corpus, ByteTokenizer(), tmp_path)
    wanted = contents(old)
    (old.path / "cache.json").unlink()
    tokenize_corpus(corpus, ByteTokenizer(), tmp_path)
    assert contents(old) == wanted


def test_error_of_corpus_is_raised_and_leaves_nothing(tmp_path):
    with pytest.raises(UserError, match="failing:20001: a bad line"):
        tokenize_corpus(FailingCorpus(), ByteTokenizer(), tmp_path)
    assert [path.suffix for path in tmp_path.iterdir()] == [".lock"]


def test_empty_corpus_raises_and_leaves_nothing(tmp_path):
    with pytest.raises(UserError, match="nothing: no examples"):
        tokenize_corpus(MemoryCorpus([], name="nothing"), ByteTokenizer(), tmp_path)
    assert [path.suffix for path in tmp_path.iterdir()] == [".lock"]


def test_corpus_that_changes_meanwhile_raises(tmp_path, pairs):
    class ChangingCorpus(CountingCorpus):
        name = "changing"

        def fingerprint(self):
            return f"after {self.readings} readings"

    with pytest.raises(UserError, match="changed while it was being tokenized"):
        tokenize_corpus(ChangingCorpus(pairs), ByteTokenizer(), tmp_path)
    assert [path.suffix for path in tmp_path.iterdir()] == [".lock"]


@pytest.mark.parametrize(
    ("shift", "message"),
    [(-101, "got ids from 0 to 21 with padding"), (200, "got ids from 301 to 322")],
)
def test_ids_outside_vocabulary_raise(tmp_path, shift, message):
    class WrongBytes(ByteTokenizer, registered_name=f"test_wrong_bytes_{shift}"):
        def tokenize(self, strings):
            return super().tokenize(strings) + shift

    with pytest.raises(ValueError, match=f"column 'source' must give ids from 0 to 259.*{message}"):
        tokenize_corpus(MemoryCorpus([("av", "a")]), WrongBytes(), tmp_path)


def test_tokenizers_of_other_columns_are_refused(tmp_path, pairs):
    with pytest.raises(ValueError, match=r"\['source', 'target'\]; got \['source'\]"):
        tokenize_corpus(MemoryCorpus(pairs), {"source": ByteTokenizer()}, tmp_path)


def test_directory_that_is_a_file_is_refused(tmp_path, pairs):
    (tmp_path / "file").write_text("")
    for directory in (tmp_path / "file", tmp_path / "file" / "caches"):
        with pytest.raises(UserError, match="cannot contain the token cache"):
            tokenize_corpus(MemoryCorpus(pairs), ByteTokenizer(), directory)


def test_line_of_a_million_characters_is_kept(tmp_path):
    corpus = MemoryCorpus([("a", "b"), ("ä" * 10**6, "b"), ("a", "c")])
    cache = tokenize_corpus(corpus, ByteTokenizer(), tmp_path)
    assert cache.columns["source"].longest == 2 * 10**6
    assert contents(cache)[2][1] == [ord("c") + 4]


def test_leftovers_of_killed_process_are_removed(tmp_path, pairs):
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


def test_full_disk_raises_and_leaves_nothing(tmp_path):
    # A limit on the size of files stands for a full disk: both fail in the middle of a write.
    corpus = MemoryCorpus([(f"number {n}", "x") for n in range(50_000)])
    directory = tmp_path / "caches"
    message = "while writing the token cache"
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


def test_second_process_waits_for_cache_of_first(tmp_path, pairs):
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


def test_labels_without_label_index_are_refused(tmp_path):
    corpus = MemoryCorpus([("one text", "1"), ("another", "0")], columns=("text", "label"))
    with pytest.raises(ValueError, match="`LabelIndex`"):
        tokenize_corpus(corpus, ByteTokenizer(), tmp_path)


@pytest.mark.parametrize("wreck", ["cache.json", "."])
def test_obstacles_at_path_of_cache_are_removed(tmp_path, wreck):
    """There is a directory in place of the description, or a file in place of the cache."""
    corpus = MemoryCorpus([("one", "two")])
    cache = tokenize_corpus(corpus, ByteTokenizer(), tmp_path)
    if wreck == ".":
        shutil.rmtree(cache.path)
        cache.path.write_text("in the way")
    else:
        (cache.path / wreck).unlink()
        (cache.path / wreck).mkdir()
    assert len(tokenize_corpus(corpus, ByteTokenizer(), tmp_path)) == 1


class TestLabelIndex:
    def test_ids_are_in_order_of_labels(self):
        index = LabelIndex(["ü", "b", "a"])
        assert index.tokenize(["a", "ü", "a"]).to_list() == [[6], [4], [6]]
        assert index.vocabulary_size == 7

    def test_hash_depends_on_labels_and_order(self):
        hashes = {LabelIndex(labels).hash for labels in (["a", "b"], ["b", "a"], ["a"], ["ab"])}
        assert len(hashes) == 4
        assert LabelIndex(("a", "b")).hash == LabelIndex(["a", "b"]).hash

    def test_unknown_label_raises(self):
        with pytest.raises(UserError, match="'c'; known are 'a', 'b'"):
            LabelIndex(["a", "b"]).tokenize(["a", "c"])

    def test_repeated_label_is_refused(self):
        with pytest.raises(ValueError, match=r"must differ .*\('a', 'a'\)"):
            LabelIndex(["a", "a"])


# Memory.

GIB = 2**30


def run_an_epoch(pairs, directory):
    """Returns the peak memory, in bytes, of tokenizing pairs and of reading an epoch of batches."""
    code = r"""
        import hashlib, json, re, sys
        from keras_transformer.data import Corpus, PairBatches, choose_buckets, tokenize_corpus
        from keras_transformer.text import ByteTokenizer

        pairs, directory = int(sys.argv[1]), sys.argv[2]

        def peak():
            # Not `ru_maxrss`, which begins with the peak of the process that started this one.
            status = open("/proc/self/status").read()
            return int(re.search(r"VmHWM:\s*([0-9]+) kB", status)[1]) * 1024

        class Generated(Corpus):
            columns = ("source", "target")
            name = "generated"

            def read(self, tally):
                for number in range(pairs):
                    digest = hashlib.md5(number.to_bytes(8, "little")).hexdigest() * 2
                    length = 5 + int(digest[:2], 16) * 40 // 256
                    yield digest[:length], digest[1 : length + int(digest[2], 16) % 4]

            def fingerprint(self):
                return f"generated {pairs}"

        cache = tokenize_corpus(Generated(), ByteTokenizer(), directory)
        tokenized = peak()
        batches = PairBatches(cache, choose_buckets(cache), seed=1)
        for batch in batches.dataset().take(len(batches) + 10):
            pass
        print(json.dumps({"tokenized": tokenized, "trained": peak()}))
    """
    process = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(pairs), directory],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(process.stdout)


@pytest.mark.slow
def test_memory_for_two_million_pairs_is_little_more_than_for_a_thousand(tmp_path):
    small = run_an_epoch(1000, tmp_path / "small")
    large = run_an_epoch(2_000_000, tmp_path / "large")
    grown = large["trained"] - small["trained"]
    # Extrapolation to five million pairs.
    assert small["trained"] + 2.5 * grown < 1.5 * GIB
    assert large["tokenized"] - small["tokenized"] < 0.1 * GIB
