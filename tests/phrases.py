"""A small real task, a model trained on it, and its export, made once per test run."""

import contextlib
import fcntl
import itertools
import os
import random

import keras
import numpy as np

from keras_transformer import TokenCrossEntropy, Transformer
from keras_transformer.decoding import BeamSearch, LengthLimits
from keras_transformer.export import TextLimits, TrainedModel, export_model
from keras_transformer.text import ByteTokenizer, TokenizerPair, learn_tokenizer

NUMBERS = {"zwei": "two", "drei": "three", "vier": "four", "fünf": "five", "neun": "nine"}
COLOURS = {"rote": "red", "blaue": "blue", "grüne": "green", "weiße": "white", "graue": "gray"}
ANIMALS = {"Hunde": "dogs", "Katzen": "cats", "Vögel": "birds", "Kühe": "cows", "Fische": "fish"}
EXAMPLES = ("zwei rote Hunde", "neun graue Kühe und drei blaue Katzen")
SEARCH = BeamSearch(beams=4, lengths=LengthLimits(maximum=40))
LIMITS = TextLimits(tokens=64)


#: Settings of an untrained model.
SMALL = {
    "vocabulary_size": 260,
    "hidden_dim": 16,
    "intermediate_dim": 32,
    "num_heads": 2,
    "max_length": 16,
}


def make_bytes_model():
    """Returns an untrained `TrainedModel` over bytes."""
    keras.utils.set_random_seed(1)
    model = Transformer.from_size("tiny", num_encoder_layers=1, num_decoder_layers=1, **SMALL)
    return TrainedModel(model, TokenizerPair(ByteTokenizer()))


def make_pairs():
    """Returns 125 phrases and 125 pairs of phrases, with their translations."""
    phrases = [
        (f"{a} {b} {c}", f"{NUMBERS[a]} {COLOURS[b]} {ANIMALS[c]}")
        for a, b, c in itertools.product(NUMBERS, COLOURS, ANIMALS)
    ]
    others = random.Random(1).sample(phrases, len(phrases))
    both = [
        (f"{a} und {c}", f"{b} and {d}") for (a, b), (c, d) in zip(phrases, others, strict=True)
    ]
    return phrases + both


def train():
    """Returns a `TrainedModel` that has memorized the phrases."""
    pairs = make_pairs()
    tokenizer = learn_tokenizer(
        "sentencepiece", itertools.chain(*pairs), 320, model="bpe", progress=lambda *_: None
    )
    keras.utils.set_random_seed(1)
    model = Transformer.from_size(
        "tiny",
        vocabulary_size=tokenizer.vocabulary_size,
        hidden_dim=64,
        intermediate_dim=128,
        num_encoder_layers=1,
        num_decoder_layers=1,
        dropout=0.0,
        normalize_first=True,
        max_length=64,
    )
    source, target = (
        tokenizer.tokenize([pair[side] for pair in pairs]).to_list() for side in (0, 1)
    )
    ids = tokenizer.special_ids
    inputs = {
        "source": _padded([[*row, ids.end] for row in source]),
        "target": _padded([[ids.start, *row] for row in target]),
    }
    labels = _padded([[*row, ids.end] for row in target])
    model.compile(keras.optimizers.Adam(5e-3), TokenCrossEntropy())
    # Otherwise the first step creates variables, and is traced a second time.
    model.optimizer.build(model.trainable_variables)
    model.fit(inputs, labels, batch_size=50, epochs=20, verbose=0)
    return TrainedModel(
        model,
        TokenizerPair(tokenizer),
        recipe={"task": "phrases"},
        quality={"exact_match": 1.0},
        examples=EXAMPLES,
    )


def _padded(rows):
    padded = np.zeros((len(rows), max(map(len, rows))), np.int32)
    for row, ids in zip(padded, rows, strict=True):
        row[: len(ids)] = ids
    return padded


def made_once(directory, name, make):
    """Returns `directory / name`, created by `make(path)` in the first process that needs it."""
    path = directory / name
    with _locked(directory / f"{name}.lock"):
        if not path.exists():
            make(path)
    return path


@contextlib.contextmanager
def _locked(path):
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def shared_directory(tmp_path_factory):
    """Returns a directory that all processes of a test run share."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def export_phrases(run, path, **settings):
    """Exports the run of the phrases with the search and limits of the tests."""
    export_model(run, path, search=SEARCH, limits=LIMITS, **settings)
