import numpy as np

from keras_transformer.data import DocumentBatches, choose_buckets


def test_a_row_is_a_document(make_cache, documents):
    cache = make_cache(documents, columns=("text",))
    batches = DocumentBatches(cache, choose_buckets(cache, tokens=700, max_buckets=4), seed=1)
    found = []
    for number in range(len(batches)):
        inputs, labels = batches.batch(0, number)
        assert list(inputs) == ["target"]
        for target, label in zip(inputs["target"], labels, strict=True):
            if label.any():
                target, label = np.trim_zeros(target, "b"), np.trim_zeros(label, "b")
                assert target[0] == 2
                assert label[-1] == 3
                assert target[1:].tolist() == label[:-1].tolist()
                found.append(bytes(label[:-1].astype(np.uint8) - 4).decode())
    assert sorted(found) == sorted(text for (text,) in documents)
