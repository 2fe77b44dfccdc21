"""The recall corpus: its rule, its distances, its splits."""

import collections
import re

import pytest

from keras_transformer.data import make_recall
from keras_transformer.data.recall import TEST_DISTANCES, TRAINED_DISTANCES, recall_distance


@pytest.fixture(scope="module")
def recall():
    return make_recall(seed=3, training_pairs=3000, validation_pairs=300, test_pairs=150)


def splits(recall):
    return [recall.train, recall.validation, *recall.tests.values()]


def test_every_target_is_the_value_of_the_key_that_is_asked_for(recall):
    for split in splits(recall):
        for source, target in split:
            text, _, key = re.fullmatch(r"((?:([A-H])\d\2|[a-z])+)\?([A-H])", source).groups()
            pairs = re.findall(r"([A-H])(\d)", text)
            assert len(pairs) == len(dict(pairs)) == 3
            assert dict(pairs)[key] == target


def test_distances_are_counted_between_the_pair_and_the_question(recall):
    assert recall_distance("xA1A?A") == 0
    assert recall_distance("A1AB2Bxyz?A") == 6
    for distance, examples in recall.tests.items():
        assert len(examples) == 150
        assert {recall_distance(source) for source, _ in examples} == {distance}


def test_training_has_all_distances_of_its_range_and_no_others(recall):
    first, last = TRAINED_DISTANCES
    for split in (recall.train, recall.validation):
        assert {recall_distance(source) for source, _ in split} == set(range(first, last + 1))
    assert min(TEST_DISTANCES) >= first
    assert last in TEST_DISTANCES
    assert sum(distance > last for distance in TEST_DISTANCES) == len(TEST_DISTANCES) / 2


def test_no_source_is_there_twice(recall):
    sources = [source for split in splits(recall) for source, _ in split]
    assert len(set(sources)) == len(sources) == 3000 + 300 + 150 * len(TEST_DISTANCES)


def test_neither_the_place_among_the_pairs_nor_the_values_tell_the_answer(recall):
    def place(source):
        return re.findall(r"([A-H])\d", source).index(source[-1])

    for split in (recall.train, recall.tests[8]):
        counts = collections.Counter(place(source) for source, _ in split)
        assert all(0.2 < counts[number] / len(split) < 0.47 for number in range(3))
    targets = collections.Counter(target for _, target in recall.train)
    assert all(200 < targets[digit] < 400 for digit in "0123456789")


def test_the_seed_decides_about_everything(recall):
    again = make_recall(seed=3, training_pairs=3000, validation_pairs=300, test_pairs=150)
    other = make_recall(seed=4, training_pairs=3000, validation_pairs=300, test_pairs=150)
    for one, same, another in zip(*map(splits, (recall, again, other)), strict=True):
        assert list(one) == list(same)
        assert one.fingerprint() != another.fingerprint()


def test_the_default_corpus_is_the_same_on_every_machine():
    recall = make_recall(training_pairs=2)
    assert next(iter(recall.train)) == ("mqsgxrxxizvC5CuewiwsazsoG9GgrmvoglE5Encycik?C", "5")
    assert next(iter(recall.tests[8])) == ("oB1BqA6AC0Coftyjtbv?C", "0")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seed": -1}, "`seed` must be a whole number of at least 0; got -1."),
        ({"training_pairs": 0}, "`training_pairs` must be a whole number of at least 1; got 0."),
    ],
)
def test_mistakes(arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make_recall(**arguments)
