"""A text model without a network: it shouts. What it gives is known without calling it."""

import numpy as np
import tensorflow as tf

N_BEST = 3


class ShoutingModel:
    """Has the attributes of a `TextModel`; each signature is a Python function.

    Attributes:
        calls: of each call of a signature, its name and the number of rows.
    """

    manifest = None
    reads_trees = False

    def __init__(self, kind="Transformer", name="shouting"):
        self.kind = kind
        self.name = name
        self.calls = []
        names = ("serving_default", "n_best", "sample", "score", "attention")
        self.signatures = {name: self._counted(name) for name in names}

    def _counted(self, name):
        function = getattr(self, f"_{name}")

        def call(**tensors):
            rows = next(iter(tensors.values())).shape[0]
            self.calls.append((name, rows))
            return function(**tensors)

        return call

    def _serving_default(self, text):
        texts = [shout(line) for line in strings(text)]
        return answers(texts, [score_of(line) for line in texts])

    def _n_best(self, text):
        """The shouted line, the line itself, if that differs; a third place is never filled."""
        lines = strings(text)
        texts = [[shout(line), line, ""] for line in lines]
        scores = [[score_of(line), score_of(line) - 1, -np.inf] for line in lines]
        return answers(texts, scores)

    def _sample(self, text, temperature, seed):
        texts = [f"{line} {temperature.numpy():.1f} {seed.numpy()}" for line in strings(text)]
        return answers(texts, [-1.0] * len(texts))

    def _score(self, source, target):
        """Each word and the end of the target cost as much as the source has letters."""
        tokens = np.array([len(line.split()) + 1 for line in strings(target)], np.int32)
        letters = np.array([len(line) for line in strings(source)], np.float32)
        return {"log_probability": tf.constant(-letters * tokens), "tokens": tf.constant(tokens)}

    def _attention(self, source, target):
        """Words are tokens; the n-th attends to the n-th, all that are left to the last."""
        sources, targets = (
            [[*line.split(), "<end>"] for line in strings(x)] for x in (source, target)
        )
        weights = np.zeros((len(sources), max(map(len, targets)), max(map(len, sources))), "f4")
        for number, (columns, rows) in enumerate(zip(sources, targets, strict=True)):
            for row in range(len(rows)):
                weights[number, row, min(row, len(columns) - 1)] = 1
        return {
            "source_tokens": tf.ragged.constant(sources).to_tensor(),
            "target_tokens": tf.ragged.constant(targets).to_tensor(),
            "weights": tf.constant(weights),
        }


def strings(tensor):
    if tensor.dtype != tf.string or tensor.shape.rank != 1:
        raise TypeError(f"A signature takes strings [B]; got {tensor}.")
    return [content.decode() for content in tensor.numpy()]


def shout(line):
    return line.strip().upper()


def score_of(text):
    return -len(text) / 8


def answers(texts, scores):
    return {"text": tf.constant(texts, tf.string), "score": tf.constant(scores, tf.float32)}
