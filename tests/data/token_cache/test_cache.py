import json
import pathlib
import re

import numpy as np
import pytest

from keras_transformer.data import DamagedCacheError, MemoryCorpus, TokenCache, tokenize_corpus
from keras_transformer.data import token_cache as cache_module
from keras_transformer.text import ByteTokenizer

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


def test_gives_the_ids_of_every_example(cache, pairs):
    assert len(cache) == len(pairs)
    assert list(cache.columns) == ["source", "target"]
    for number, pair in enumerate(pairs):
        for column, text in zip(cache.columns.values(), pair, strict=True):
            assert ids_of(column, number).tolist() == [byte + 4 for byte in text.encode()]


def test_gathers_many_pieces_at_once(cache, pairs):
    examples = np.array([7, 0, 299, 7])
    column = cache.columns["target"]
    begins, counts = column.spans(examples)
    wanted = "".join(pairs[example][1] for example in examples)
    assert column.gather(begins, counts).tolist() == [byte + 4 for byte in wanted.encode()]


def test_gives_the_texts_and_counts(cache, pairs):
    texts = cache.columns["source"].texts(np.array([5, 0]))
    assert texts == [pairs[5][0].encode(), pairs[0][0].encode()]
    targets = [len(target) for _, target in pairs]
    assert cache.columns["target"].tokens == sum(targets)
    assert cache.columns["target"].longest == max(targets)
    assert cache.columns["target"].vocabulary_size == 260


def test_iterates_over_lengths(cache, pairs):
    lengths = np.concatenate(list(cache.iterate_lengths()))
    assert lengths.tolist() == [[len(source), len(target)] for source, target in pairs]


def test_says_so_if_the_text_was_not_kept(make_cache, pairs):
    with pytest.raises(ValueError, match=r"without its text.*keep_text=True"):
        make_cache(pairs).columns["source"].texts(np.array([0]))


def test_small_vocabularies_take_two_bytes_an_id(make_cache, pairs, tmp_path):
    class ManyPieces(ByteTokenizer, registered_name="many_pieces_of_a_test"):
        vocabulary_size = 70_000
        hash = "many"

        def tokenize(self, strings):
            return super().tokenize(strings) + 69_000

    small = make_cache(pairs)
    large = tokenize_corpus(MemoryCorpus(pairs), ManyPieces(), tmp_path)
    sizes = [(c.path / "source.ids").stat().st_size for c in (small, large)]
    assert sizes == [2 * small.columns["source"].tokens, 4 * small.columns["source"].tokens]
    small_ids, large_ids = (ids_of(c.columns["source"], 3).tolist() for c in (small, large))
    assert large_ids == [n + 69_000 for n in small_ids]


def test_all_files_are_known(cache):
    assert sorted(path.name for path in cache.path.iterdir()) == FILES


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["cut", "lengthened", "emptied", "removed", "flipped"])
def test_notices_damage_to_any_file(cache, name, damage, random):
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


def test_refuses_another_format(cache):
    path = cache.path / "cache.json"
    description = json.loads(path.read_text())
    description["content"]["format"] = 0
    path.write_text(json.dumps(description))
    with pytest.raises(DamagedCacheError, match="content and its sha256 differ"):
        TokenCache(cache.path)


def resident_bytes(path):
    """How much of a file is mapped and in memory, for this process."""
    # A mapping is a line that ends with the path, then lines of numbers, one of them "Rss: n kB".
    maps = pathlib.Path("/proc/self/smaps").read_text()
    found = re.findall(re.escape(str(path)) + r"\n(?:.+\n)*?Rss: +(\d+) kB", maps)
    return sum(map(int, found)) * 1024


@pytest.mark.parametrize("limit", [2**30, 2**18])
def test_only_a_bounded_part_stays_resident(make_cache, monkeypatch, limit):
    monkeypatch.setattr(cache_module, "_RESIDENT_LIMIT", limit)
    cache = make_cache([(chr(97 + n % 26) * 10_000, "x") for n in range(200)])
    column = cache.columns["source"]
    file = cache.path / "source.ids"
    for number in range(200):
        assert set(ids_of(column, number).tolist()) == {97 + number % 26 + 4}
    if limit == 2**30:
        assert resident_bytes(file) > 3.9 * 10**6  # so the other case does see something
    else:
        assert resident_bytes(file) <= limit + 2**17


def test_a_directory_without_description_is_no_cache(tmp_path):
    with pytest.raises(DamagedCacheError, match=r"no cache\.json"):
        TokenCache(tmp_path)
