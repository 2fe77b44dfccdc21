"""Token caches: content, special ids, damage, resident memory."""

import hashlib
import json
import pathlib
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_transformer._utils.errors import UserError
from keras_transformer.data import DamagedCacheError, MemoryCorpus, TokenCache, tokenize_corpus
from keras_transformer.data import token_cache as cache_module
from keras_transformer.data.token_cache import concatenated_ranges
from keras_transformer.text import ByteTokenizer, SpecialIds

FILES = [
    "cache.json",
    "source.ids",
    "source.offsets",
    "source.text",
    "source.text_offsets",
    "target.ids",
    "target.offsets",
    "target.text",
    "target.text_offsets",
]


@pytest.fixture
def cache(make_cache, pairs):
    return make_cache(pairs, keep_text=True)


def ids_of(column, number):
    begins, counts = column.spans(np.array([number]))
    return column.gather(begins, counts)


def test_cache_has_ids_of_every_example(cache, pairs):
    assert len(cache) == len(pairs)
    assert list(cache.columns) == ["source", "target"]
    for number, pair in enumerate(pairs):
        for column, text in zip(cache.columns.values(), pair, strict=True):
            assert ids_of(column, number).tolist() == [byte + 4 for byte in text.encode()]


def test_gather_concatenates_spans(cache, pairs):
    examples = np.array([7, 0, 299, 7])
    column = cache.columns["target"]
    begins, counts = column.spans(examples)
    wanted = "".join(pairs[example][1] for example in examples)
    assert column.gather(begins, counts).tolist() == [byte + 4 for byte in wanted.encode()]


def test_column_has_texts_and_counts(cache, pairs):
    texts = cache.columns["source"].texts(np.array([5, 0]))
    assert texts == [pairs[5][0].encode(), pairs[0][0].encode()]
    targets = [len(target) for _, target in pairs]
    assert cache.columns["target"].tokens == sum(targets)
    assert cache.columns["target"].longest == max(targets)
    assert cache.columns["target"].vocabulary_size == 260


def test_iterate_lengths_yields_all_lengths(cache, pairs):
    lengths = np.concatenate(list(cache.iterate_lengths()))
    assert lengths.tolist() == [[len(source), len(target)] for source, target in pairs]


def test_texts_of_cache_without_text_raise(make_cache, pairs):
    with pytest.raises(ValueError, match=r"without its text.*keep_text=True"):
        make_cache(pairs).columns["source"].texts(np.array([0]))


def test_ids_of_small_vocabularies_take_two_bytes(make_cache, pairs, tmp_path):
    class ManyPieces:
        hash = "many"
        vocabulary_size = 70_000

        def tokenize(self, strings):
            return ByteTokenizer().tokenize(strings) + 69_000

    small = make_cache(pairs)
    large = tokenize_corpus(MemoryCorpus(pairs), ManyPieces(), tmp_path)
    sizes = [(c.path / "source.ids").stat().st_size for c in (small, large)]
    assert sizes == [2 * small.columns["source"].tokens, 4 * small.columns["source"].tokens]
    small_ids, large_ids = (ids_of(c.columns["source"], 3).tolist() for c in (small, large))
    assert large_ids == [n + 69_000 for n in small_ids]


def test_cache_has_no_other_files(cache):
    assert sorted(path.name for path in cache.path.iterdir()) == FILES


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["cut", "lengthened", "emptied", "removed", "flipped"])
def test_damage_to_any_file_raises(cache, name, damage, random):
    path = cache.path / name
    content = bytearray(path.read_bytes())
    if damage == "flipped":
        content[random.integers(len(content))] ^= 1 << random.integers(8)
    damaged = {"cut": content[: len(content) // 2], "lengthened": content + b"0", "emptied": b""}
    if damage == "removed":
        path.unlink()
    else:
        path.write_bytes(damaged.get(damage, content))
    with pytest.raises(DamagedCacheError, match=name):
        TokenCache(cache.path)


def test_changed_description_raises(cache):
    path = cache.path / "cache.json"
    description = json.loads(path.read_text())
    description["content"]["format"] = 0
    path.write_text(json.dumps(description))
    with pytest.raises(DamagedCacheError, match="sha256 do not match"):
        TokenCache(cache.path)


def resident_bytes(path):
    """Returns the resident bytes of a mapped file of this process."""
    # A mapping is a line that ends with the path, then lines of numbers, one of them "Rss: n kB".
    maps = pathlib.Path("/proc/self/smaps").read_text()
    found = re.findall(re.escape(str(path)) + r"\n(?:.+\n)*?Rss: +(\d+) kB", maps)
    return sum(map(int, found)) * 1024


@pytest.mark.parametrize("limit", [2**30, 2**18])
def test_resident_part_is_bounded(make_cache, monkeypatch, limit):
    monkeypatch.setattr(cache_module, "_RESIDENT_LIMIT", limit)
    cache = make_cache([(chr(97 + n % 26) * 10_000, "x") for n in range(200)])
    column = cache.columns["source"]
    file = cache.path / "source.ids"
    for number in range(200):
        assert set(ids_of(column, number).tolist()) == {97 + number % 26 + 4}
    if limit == 2**30:
        assert resident_bytes(file) > 3.9 * 10**6  # so that the other case can differ
    else:
        assert resident_bytes(file) <= limit + 2**17


def test_directory_without_description_raises(tmp_path):
    with pytest.raises(DamagedCacheError, match=r"cache\.json is missing"):
        TokenCache(tmp_path)


def rewrite_description(path, change):
    """Changes the content of a cache's description, and its sha256."""
    description = json.loads((path / "cache.json").read_text())
    change(description["content"])
    content = json.dumps(description["content"], sort_keys=True).encode()
    description["sha256"] = hashlib.sha256(content).hexdigest()
    (path / "cache.json").write_text(json.dumps(description))


def test_other_format_raises(cache):
    rewrite_description(cache.path, lambda content: content.update(format=0))
    with pytest.raises(DamagedCacheError, match="expected format 1, got 0"):
        TokenCache(cache.path)


def test_cache_without_special_ids_has_the_default_ones(cache):
    assert cache.special_ids == SpecialIds()
    rewrite_description(cache.path, lambda content: content.pop("special_ids"))
    assert TokenCache(cache.path).special_ids == SpecialIds()


def test_cache_stores_special_ids_of_tokenizers(pairs, tmp_path):
    special_ids = SpecialIds(padding=1, unknown=0, start=1, end=2)
    cache = tokenize_corpus(MemoryCorpus(pairs), ByteTokenizer(special_ids), tmp_path)
    assert TokenCache(cache.path).special_ids == special_ids


def test_tokenizers_with_different_special_ids_are_refused(pairs, tmp_path):
    tokenizers = {"source": ByteTokenizer(SpecialIds(end=5)), "target": ByteTokenizer()}
    with pytest.raises(ValueError, match=r"same special ids.*end=5.*end=3"):
        tokenize_corpus(MemoryCorpus(pairs), tokenizers, tmp_path)


def test_padding_id_inside_text_raises(tmp_path):
    tokenizer = ByteTokenizer()
    tokenizer.special_ids = SpecialIds(padding=ord("b") + 4)
    with pytest.raises(ValueError, match="other than the padding id 102"):
        tokenize_corpus(MemoryCorpus([("abc", "x")]), tokenizer, tmp_path)


@given(st.lists(st.tuples(st.integers(0, 10**12), st.integers(0, 9))))
def test_concatenated_ranges_equals_ranges(ranges):
    begins, counts = [b for b, _ in ranges], [c for _, c in ranges]
    wanted = [n for begin, count in ranges for n in range(begin, begin + count)]
    found = concatenated_ranges(begins, counts)
    assert found.tolist() == wanted
    assert found.dtype == np.int64


def test_cache_that_shrinks_while_it_is_used_is_an_error_and_no_signal(cache):
    """Reading a mapped page beyond the end of the file would end the process."""
    path = cache.path / "source.ids"
    column = cache.columns["source"]
    assert len(ids_of(column, 0))
    content = path.read_bytes()
    with path.open("r+b") as file:
        file.truncate(0)
    for read in (lambda: ids_of(column, 0), lambda: column.gather(np.array([0]), np.array([1]))):
        with pytest.raises(UserError, match=r"source\.ids: .*shrunk"):
            read()
    with path.open("r+b") as file:
        file.write(content)
    assert len(ids_of(column, 0))


def test_cache_that_is_removed_or_replaced_while_it_is_used_stays_readable(cache, pairs):
    column = cache.columns["source"]
    expected = ids_of(column, 5).tolist()
    path = cache.path / "source.ids"
    path.unlink()
    path.write_bytes(b"")
    assert ids_of(column, 5).tolist() == expected
