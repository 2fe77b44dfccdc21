"""`model.fit` and the training loop have equal losses, weights and optimizers, step by step."""

import keras
import numpy as np
import pytest

from keras_transformer import LanguageModel, TokenCrossEntropy, Transformer
from keras_transformer.data import (
    MemoryCorpus,
    PackedBatches,
    PairBatches,
    choose_buckets,
    tokenize_corpus,
)
from keras_transformer.text import ByteTokenizer
from keras_transformer.trainer import TrainingLoop
from keras_transformer.trainer.building import make_optimizer
from keras_transformer.trainer.checkpoints import moving_averages, training_variables
from keras_transformer.trainer.config import TrainingSection
from tests.phrases import make_pairs

STEPS = 6
SMALL = {
    "vocabulary_size": 260,
    "hidden_dim": 16,
    "num_heads": 2,
    "intermediate_dim": 32,
    "dropout": 0.1,
}
ADAM = {"steps": STEPS, "warmup_steps": 4, "clip_norm": 0.5, "label_smoothing": 0.1}
ADAMW = {**ADAM, "optimizer": "adamw", "optimizer_options": {"weight_decay": 0.1}, "ema": 0.9}


@pytest.fixture(scope="module")
def pair_batches(tmp_path_factory):
    corpus = MemoryCorpus(make_pairs()[::4])
    cache = tokenize_corpus(corpus, ByteTokenizer(), tmp_path_factory.mktemp("pairs"))
    return PairBatches(cache, choose_buckets(cache, tokens=200, max_buckets=2), seed=1)


@pytest.fixture(scope="module")
def packed_batches(tmp_path_factory):
    corpus = MemoryCorpus([(target,) for _, target in make_pairs()[::4]], columns=("text",))
    cache = tokenize_corpus(corpus, ByteTokenizer(), tmp_path_factory.mktemp("documents"))
    return PackedBatches(cache, row_length=40, tokens=160, seed=1)


def translator(dtype):
    return Transformer.from_size(
        "tiny", num_encoder_layers=1, num_decoder_layers=1, dtype=dtype, **SMALL
    )


def language_model(dtype):
    return LanguageModel.from_size("tiny", num_layers=1, is_packed=True, dtype=dtype, **SMALL)


class Losses(keras.callbacks.Callback):
    """Records the loss of each epoch, which here is one step, and the weights of the last."""

    def __init__(self):
        super().__init__()
        self.losses = []

    def on_epoch_end(self, epoch, logs=None):
        self.losses.append(logs["loss"])
        # `fit` replaces the weights with their moving averages when it ends.
        self.values = {
            name.rpartition("/")[0]: variable.numpy()
            for name, variable in training_variables(self.model).items()
        }


@pytest.mark.parametrize(
    ("make_model", "dtype", "training"),
    [
        (translator, "float32", ADAMW),
        (translator, "mixed_float16", ADAM),
        (language_model, "mixed_bfloat16", ADAM | {"schedule": "cosine", "learning_rate": 0.01}),
    ],
    ids=["AdamW with averages", "Adam in float16", "packed language model in bfloat16"],
)
def test_fit_equals_loop_step_by_step(make_model, dtype, training, pair_batches, packed_batches):
    batches = pair_batches if make_model is translator else packed_batches
    section = TrainingSection(**training)

    def compiled():
        keras.utils.set_random_seed(3)
        model = make_model(dtype)
        optimizer = make_optimizer(section, model.config.hidden_dim, STEPS)
        model.compile(optimizer, TokenCrossEntropy(section.label_smoothing), jit_compile=False)
        return model

    fitted = Losses()
    model = compiled()
    model.fit(
        batches.dataset(),
        steps_per_epoch=1,
        epochs=STEPS,
        shuffle=False,
        verbose=0,
        callbacks=[fitted],
    )
    looped = compiled()
    loop = TrainingLoop(looped, batches)
    records = [*loop.run(2), *loop.run(STEPS - 2)]

    losses = [record.statistics.logs()["loss"] for record in records]
    np.testing.assert_allclose(losses, fitted.losses, rtol=1e-6)
    assert losses[-1] < losses[0]
    ours = training_variables(looped)
    assert len(ours) == len(fitted.values)
    for name, variable in ours.items():
        expected = fitted.values[name.rpartition("/")[0]]
        np.testing.assert_array_equal(variable.numpy(), expected, name)
    assert any(name.startswith("seeds/") for name in ours)
    if section.ema:
        with moving_averages(looped):
            for one, other in zip(looped.weights, model.weights, strict=True):
                np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_losses_of_layers_train_in_fit_and_loop(pair_batches):
    def trained(coverage_weight, way):
        keras.utils.set_random_seed(3)
        settings = {
            "num_encoder_layers": 1,
            "num_decoder_layers": 1,
            "coverage_weight": coverage_weight,
        }
        model = Transformer.from_size("tiny", **settings, **SMALL)
        model.compile(keras.optimizers.SGD(0.1), TokenCrossEntropy(), jit_compile=False)
        if way == "fit":
            model.fit(pair_batches.dataset(), steps_per_epoch=2, shuffle=False, verbose=0)
        else:
            TrainingLoop(model, pair_batches).run(2)
        return [weight.numpy() for weight in model.weights]

    fitted, looped = (trained(1.0, way) for way in ("fit", "loop"))
    for one, other in zip(fitted, looped, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
    without = trained(0.0, "loop")
    assert any(np.abs(one - other).max() > 1e-4 for one, other in zip(looped, without, strict=True))
