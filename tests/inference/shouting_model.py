"""A text model without a network that converts texts to upper case."""

import numpy as np
import tensorflow as tf

from keras_transformer.inference import TextModel

N_BEST = 3


class ShoutingModel(TextModel):
    """A `TextModel` whose signatures are Python functions.

    Attributes:
        calls: name and number of rows of each call of a signature.
    """

    def __init__(self, kind="Transformer", name="shouting"):
        self.calls = []
        names = ("serving_default", "n_best", "sample", "score", "attention")
        if kind == "TextEncoder":
            names = ("serving_default", "encode", "classify")
        super().__init__(kind, name, {name: self._counted(name) for name in names})

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
        """Returns the line in upper case and the line itself; the third hypothesis is missing."""
        lines = strings(text)
        texts = [[shout(line), line, ""] for line in lines]
        scores = [[score_of(line), score_of(line) - 1, -np.inf] for line in lines]
        return answers(texts, scores)

    def _sample(self, text, temperature, seed):
        texts = [f"{line} {temperature.numpy():.1f} {seed.numpy()}" for line in strings(text)]
        return answers(texts, [-1.0] * len(texts))

    def _encode(self, text):
        """Returns the number of letters, and 1."""
        letters = [[len(line), 1] for line in strings(text)]
        return {"embedding": tf.reshape(tf.constant(letters, tf.float32), [-1, 2])}

    def _classify(self, text):
        """Returns "long" for texts with more than four letters, else "short"."""
        is_long = np.array([len(line) > 4 for line in strings(text)], np.float32)
        label = tf.constant(["long" if each else "short" for each in is_long], tf.string)
        return {"label": label, "probabilities": tf.stack([is_long, 1 - is_long], axis=1)}

    def _score(self, source, target):
        """Returns minus the number of letters of the source for each word and end of the target."""
        tokens = np.array([len(line.split()) + 1 for line in strings(target)], np.int32)
        letters = np.array([len(line) for line in strings(source)], np.float32)
        return {"log_probability": tf.constant(-letters * tokens), "tokens": tf.constant(tokens)}

    def _attention(self, source, target):
        """Returns words as tokens; the n-th attends to the n-th, further ones to the last."""
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
