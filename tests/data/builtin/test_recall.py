"""The recall corpus: rule, distances and splits."""

import collections
import re

import pytest

from keras_transformer.data import make_recall
from keras_transformer.data.builtin.recall import TEST_DISTANCES, TRAINED_DISTANCES, recall_distance


@pytest.fixture(scope="module")
def recall():
    return make_recall(seed=3, training_pairs=3000, validation_pairs=300, test_pairs=150)


def splits(recall):
    return [recall.train, recall.validation, *recall.tests.values()]


def test_every_target_is_value_of_requested_key(recall):
    for split in splits(recall):
        for source, target in split:
            text, _, key = re.fullmatch(r"((?:([A-H])\d\2|[a-z])+)\?([A-H])", source).groups()
            pairs = re.findall(r"([A-H])(\d)", text)
            assert len(pairs) == len(dict(pairs)) == 3
            assert dict(pairs)[key] == target


def test_distance_is_between_pair_and_question(recall):
    assert recall_distance("xA1A?A") == 0
    assert recall_distance("A1AB2Bxyz?A") == 6
    assert list(recall.tests) == [f"distance_{distance}" for distance in TEST_DISTANCES]
    for distance, examples in zip(TEST_DISTANCES, recall.tests.values(), strict=True):
        assert len(examples) == 150
        assert {recall_distance(source) for source, _ in examples} == {distance}


def test_training_has_exactly_the_distances_of_its_range(recall):
    first, last = TRAINED_DISTANCES
    for split in (recall.train, recall.validation):
        assert {recall_distance(source) for source, _ in split} == set(range(first, last + 1))
    assert min(TEST_DISTANCES) >= first
    assert last in TEST_DISTANCES
    assert sum(distance > last for distance in TEST_DISTANCES) == len(TEST_DISTANCES) / 2


def test_no_source_occurs_twice(recall):
    sources = [source for split in splits(recall) for source, _ in split]
    assert len(set(sources)) == len(sources) == 3000 + 300 + 150 * len(TEST_DISTANCES)


def test_answers_cannot_be_guessed_from_position_or_frequency(recall):
    def position(source):
        return re.findall(r"([A-H])\d", source).index(source[-1])

    for split in (recall.train, recall.tests["distance_8"]):
        counts = collections.Counter(position(source) for source, _ in split)
        assert all(0.2 < counts[number] / len(split) < 0.47 for number in range(3))
    targets = collections.Counter(target for _, target in recall.train)
    assert all(200 < targets[digit] < 400 for digit in "0123456789")


def test_corpus_depends_on_seed_alone(recall):
    again = make_recall(seed=3, training_pairs=3000, validation_pairs=300, test_pairs=150)
    other = make_recall(seed=4, training_pairs=3000, validation_pairs=300, test_pairs=150)
    for one, same, another in zip(*map(splits, (recall, again, other)), strict=True):
        assert list(one) == list(same)
        assert one.fingerprint() != another.fingerprint()


def test_default_corpus_is_fixed():
    recall = make_recall(training_pairs=2)
    assert next(iter(recall.train)) == ("mqsgxrxxizvC5CuewiwsazsoG9GgrmvoglE5Encycik?C", "5")
    assert next(iter(recall.tests["distance_8"])) == ("oB1BqA6AC0Coftyjtbv?C", "0")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seed": -1}, "`seed`"),
        ({"training_pairs": 0}, "`training_pairs`"),
    ],
)
def test_invalid_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make_recall(**arguments)
