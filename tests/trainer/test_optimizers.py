"""Optimizers and schedules as recipes describe them, against Keras' own and the papers'."""

import keras
import numpy as np
import pytest

from keras_transformer import CosineDecay, InverseSquareRootDecay, LinearDecay, Transformer
from keras_transformer.trainer.config import TrainingSection
from keras_transformer.trainer.optimizers import make_optimizer, make_schedule


def section(**settings):
    return TrainingSection(**{"steps": 100, "warmup_steps": 10} | settings)


def test_default_is_the_papers():
    """Vaswani et al. 2017, §5.3."""
    optimizer = make_optimizer(TrainingSection(steps=100_000), 512, 100_000)
    assert isinstance(optimizer, keras.optimizers.Adam)
    assert (optimizer.beta_1, optimizer.beta_2, optimizer.epsilon) == (0.9, 0.98, 1e-9)
    assert not optimizer.use_ema
    assert optimizer.global_clipnorm is None
    schedule = make_schedule(TrainingSection(steps=100_000), 512, 100_000)
    for update in (1, 4000, 100_000):
        rate = 512**-0.5 * min(update**-0.5, update * 4000**-1.5)
        assert float(schedule(update - 1)) == pytest.approx(rate, rel=1e-5)


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({"schedule": "inverse_square_root", "learning_rate": 0.01}, InverseSquareRootDecay),
        ({"schedule": "cosine", "learning_rate": 0.01, "final_rate": 0.001}, CosineDecay),
        ({"schedule": "linear", "learning_rate": 0.01, "final_rate": 0.001}, LinearDecay),
    ],
)
def test_schedule_rises_to_the_rate_and_falls(settings, kind):
    schedule = make_schedule(section(**settings), 64, 100)
    assert type(schedule) is kind
    rates = [float(schedule(step)) for step in range(100)]
    assert max(rates) == pytest.approx(0.01)
    assert np.argmax(rates) in (9, 10)
    assert rates[99] < 0.005
    if kind is not InverseSquareRootDecay:
        assert float(schedule(100)) == pytest.approx(0.001)


def test_constant_rate_is_a_number():
    assert make_schedule(section(schedule="constant", learning_rate=0.25), 64, 100) == 0.25


def test_schedule_of_a_run_that_is_shorter_than_its_warm_up():
    schedule = make_schedule(section(schedule="cosine", learning_rate=0.01), 64, 2)
    assert 0 < schedule(0) < schedule(1) < 0.01


def test_settings_arrive():
    optimizer = make_optimizer(
        section(
            optimizer="adamw",
            weight_decay=0.1,
            beta_1=0.8,
            beta_2=0.95,
            epsilon=1e-6,
            clip_norm=2.0,
            ema=0.999,
        ),
        64,
        100,
    )
    assert isinstance(optimizer, keras.optimizers.AdamW)
    assert (optimizer.weight_decay, optimizer.global_clipnorm) == (0.1, 2.0)
    assert (optimizer.beta_1, optimizer.beta_2, optimizer.epsilon) == (0.8, 0.95, 1e-6)
    assert (optimizer.use_ema, optimizer.ema_momentum) == (True, 0.999)


@pytest.mark.parametrize("variant", [{}, {"normalization": "rms", "positions": "learned"}])
def test_decay_leaves_biases_and_normalizations_alone(variant):
    model = Transformer.from_preset(
        "tiny",
        vocabulary_size=20,
        hidden_dim=8,
        num_heads=2,
        num_encoder_layers=1,
        num_decoder_layers=1,
        max_length=8,
        **variant,
    )
    for variable in model.trainable_variables:
        variable.assign(np.ones(variable.shape))
    settings = {"schedule": "constant", "learning_rate": 0.5, "weight_decay": 0.1}
    optimizer = make_optimizer(section(optimizer="adamw", **settings), 8, 100)
    zeros = [np.zeros(variable.shape, "float32") for variable in model.trainable_variables]
    optimizer.apply(zeros, model.trainable_variables)
    decayed = {v.path for v in model.trainable_variables if np.all(v.numpy() != 1.0)}
    expected = {v.path for v in model.trainable_variables if len(v.shape) > 1}
    per_head_biases = {path for path in expected if path.endswith("/bias")}
    assert decayed == expected - per_head_biases
    assert decayed
    for variable in model.trainable_variables:
        value = 0.95 if variable.path in decayed else 1.0  # 1 - rate · decay
        np.testing.assert_allclose(variable.numpy(), value, rtol=1e-6)
