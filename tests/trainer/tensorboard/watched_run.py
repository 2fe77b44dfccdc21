"""A short training by `model.fit` with all callbacks, and what it should have logged."""

import dataclasses
import json
import pathlib

import keras
import numpy as np
import tensorflow as tf

from keras_transformer import InverseSquareRootDecay, TokenAccuracy, TokenCrossEntropy
from keras_transformer.decoding import GreedySearch, LengthLimits
from keras_transformer.export import TrainedModel
from keras_transformer.text import SpecialIds
from keras_transformer.trainer.attention_maps import AttentionMaps
from keras_transformer.trainer.callbacks import (
    EmbeddingProjector,
    HyperParameters,
    SampleTranslations,
    TrainingScalars,
    WeightHistograms,
)
from keras_transformer.trainer.translation_quality import TranslationQuality
from tests import phrases
from tests.trainer.tensorboard.events import close_all

EVERY = 2
SEARCH = GreedySearch(lengths=LengthLimits(maximum=24))
SETTINGS = {
    "name": "phrases",
    "model": {"hidden_dim": 64, "dropout": 0.0},
    "text": {"shared": True},
}
# The last one has signs of Markdown and HTML.
SOURCES = ["zwei rote Hunde", "neun graue Kühe und drei blaue Katzen", "| *a* <b>&amp; `x`"]
REFERENCES = ["two red dogs", "nine gray cows and three blue cats", "[a](http://b) | __c__ \\| #"]


@dataclasses.dataclass(frozen=True)
class WatchedRun:
    """The logs, and the values that Keras and the callbacks received.

    Attributes:
        log_dir: the directory for TensorBoard.
        batches, tests: the logs of each step and of each evaluation, by step.
        hypotheses: the translations, by step.
        history: what `fit` returned.
        embeddings: the table at the end.
        vocabulary: of the tokenizer.
    """

    log_dir: pathlib.Path
    batches: dict
    tests: dict
    hypotheses: dict
    history: dict
    embeddings: np.ndarray
    vocabulary: list


class Recorder(keras.callbacks.Callback):
    """Records its arguments; must be the last callback in the list."""

    def __init__(self, quality):
        super().__init__()
        self.quality = quality
        self.batches, self.tests, self.hypotheses = {}, {}, {}

    @property
    def step(self):
        return int(self.model.optimizer.iterations)

    def on_train_batch_end(self, batch, logs=None):
        self.batches[self.step] = dict(logs)

    def on_test_end(self, logs=None):
        self.tests[self.step] = dict(logs)
        self.hypotheses[self.step] = self.quality.hypotheses


def train_watched(phrases_run, directory):
    """Trains two epochs of three steps, each with an evaluation."""
    trained = TrainedModel.load(phrases_run)
    model, tokenizers = trained.model, trained.tokenizers
    optimizer = keras.optimizers.Adam(InverseSquareRootDecay(peak_rate=1e-3, warmup_steps=4))
    model.compile(optimizer, TokenCrossEntropy(), metrics=[TokenAccuracy()])
    log_dir = directory / "logs"
    quality = TranslationQuality(tokenizers, SOURCES, REFERENCES, SEARCH)
    recorder = Recorder(quality)
    inputs, labels = make_arrays(phrases.make_pairs()[:32], tokenizers)
    history = model.fit(
        inputs,
        labels,
        batch_size=8,
        epochs=2,
        shuffle=False,
        validation_split=0.25,
        verbose=0,
        callbacks=[
            quality,
            HyperParameters(log_dir, SETTINGS),
            TrainingScalars(log_dir, every=EVERY),
            AttentionMaps(log_dir, tokenizers, SOURCES[:2], REFERENCES[:2]),
            SampleTranslations(log_dir, quality),
            WeightHistograms(log_dir),
            EmbeddingProjector(log_dir, tokenizers),
            recorder,
        ],
    )
    close_all()
    np.save(directory / "embeddings.npy", model.get_layer("embedding").get_weights()[0])
    kept = {
        "batches": recorder.batches,
        "tests": recorder.tests,
        "hypotheses": recorder.hypotheses,
        "history": history.history,
        "vocabulary": tokenizers.target.vocabulary(),
    }
    (directory / "kept.json").write_text(json.dumps(kept), encoding="utf-8")


def make_arrays(pairs, tokenizers):
    """Returns inputs and labels for `fit`."""
    sources, targets = zip(*pairs, strict=True)
    source, target = tokenizers.source.tokenize(sources), tokenizers.target.tokenize(targets)
    start, end = (tf.fill([len(pairs), 1], each) for each in (SpecialIds().start, SpecialIds().end))
    rows = [source, end], [start, target], [target, end]
    source, target, labels = (tf.concat(row, axis=1).to_tensor().numpy() for row in rows)
    return {"source": source, "target": target}, labels


def read_watched(directory):
    kept = json.loads((directory / "kept.json").read_text(encoding="utf-8"))
    for name in ("batches", "tests", "hypotheses"):
        kept[name] = {int(step): value for step, value in kept[name].items()}
    return WatchedRun(
        log_dir=directory / "logs", embeddings=np.load(directory / "embeddings.npy"), **kept
    )
