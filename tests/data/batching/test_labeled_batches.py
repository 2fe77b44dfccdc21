import numpy as np
import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.data import LabeledBatches, LabelIndex, choose_buckets


def test_a_row_is_a_text_with_the_number_of_its_class(make_cache, pairs):
    classes = ["bad", "fair", "good"]
    examples = [(text, classes[len(text) % 3]) for text, _ in pairs]
    cache = make_cache(examples, columns=("text", "label"))
    batches = LabeledBatches(cache, choose_buckets(cache, tokens=700, max_buckets=4), seed=1)
    found = []
    for number in range(len(batches)):
        inputs, labels, weights = batches.batch(0, number)
        assert list(inputs) == ["source"]
        for source, label, weight in zip(inputs["source"], labels, weights, strict=True):
            assert weight == source.any()
            if weight:
                ids = np.trim_zeros(source, "b")
                assert ids[-1] == 3
                found.append((bytes(ids[:-1].astype(np.uint8) - 4).decode(), classes[label]))
    assert sorted(found) == sorted(examples)


class TestLabelIndex:
    def test_numbers_labels_in_order(self):
        index = LabelIndex(["ü", "b", "a"])
        assert index.tokenize(["a", "ü", "a"]).to_list() == [[6], [4], [6]]
        assert index.vocabulary_size == 7

    def test_other_labels_have_another_hash(self):
        hashes = {LabelIndex(labels).hash for labels in (["a", "b"], ["b", "a"], ["a"], ["ab"])}
        assert len(hashes) == 4
        assert LabelIndex(("a", "b")).hash == LabelIndex(["a", "b"]).hash

    def test_an_unknown_label_is_the_users_mistake(self):
        with pytest.raises(
            UserError, match=r"Unknown label 'c'; known are 'a', 'b'\. Put it right"
        ):
            LabelIndex(["a", "b"]).tokenize(["a", "c"])

    def test_refuses_the_same_label_twice(self):
        with pytest.raises(ValueError, match=r"must differ from each other; got \('a', 'a'\)"):
            LabelIndex(["a", "a"])
