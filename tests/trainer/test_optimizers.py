"""Optimizers and schedules of recipes, compared with those of Keras and of the papers."""

import dataclasses
import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_transformer import CosineDecay, InverseSquareRootDecay, LinearDecay, Transformer
from keras_transformer._utils.checks import require_rate
from keras_transformer._utils.errors import UserError
from keras_transformer.trainer.building import make_optimizer
from keras_transformer.trainer.config import TrainingSection
from keras_transformer.trainer.optimizers import OPTIMIZERS, OptimizerConfig, register_optimizer
from keras_transformer.trainer.section import setting
from tests.trainer.small_runs import make_recipe


def section(**settings):
    return TrainingSection(**{"steps": 100, "warmup_steps": 10} | settings)


def test_default_optimizer_and_schedule_are_those_of_vaswani_2017():
    """Section 5.3."""
    optimizer = make_optimizer(TrainingSection(steps=100_000), 512, 100_000)
    assert isinstance(optimizer, keras.optimizers.Adam)
    assert (optimizer.beta_1, optimizer.beta_2, optimizer.epsilon) == (0.9, 0.98, 1e-9)
    assert not optimizer.use_ema
    assert optimizer.global_clipnorm is None
    schedule = TrainingSection(steps=100_000).learning_rate_schedule(512, 100_000)
    for step in (1, 4000, 100_000):
        rate = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
        assert float(schedule(step - 1)) == pytest.approx(rate, rel=1e-5)


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({"schedule": "inverse_square_root", "learning_rate": 0.01}, InverseSquareRootDecay),
        ({"schedule": "cosine", "learning_rate": 0.01, "final_rate": 0.001}, CosineDecay),
        ({"schedule": "linear", "learning_rate": 0.01, "final_rate": 0.001}, LinearDecay),
    ],
)
def test_schedule_rises_to_the_rate_and_falls(settings, kind):
    schedule = section(**settings).learning_rate_schedule(64, 100)
    assert type(schedule) is kind
    rates = [float(schedule(step)) for step in range(100)]
    assert max(rates) == pytest.approx(0.01)
    assert np.argmax(rates) in (9, 10)
    assert rates[99] < 0.005
    if kind is not InverseSquareRootDecay:
        assert float(schedule(100)) == pytest.approx(0.001)


def test_constant_rate_is_a_number():
    assert section(schedule="constant", learning_rate=0.25).learning_rate_schedule(64, 100) == 0.25


def test_schedule_of_a_run_shorter_than_its_warm_up_rises():
    schedule = section(schedule="cosine", learning_rate=0.01).learning_rate_schedule(64, 2)
    assert 0 < schedule(0) < schedule(1) < 0.01


def test_optimizer_has_the_settings_of_the_recipe():
    optimizer = make_optimizer(
        section(
            optimizer="adamw",
            optimizer_options={
                "weight_decay": 0.1,
                "beta_1": 0.8,
                "beta_2": 0.95,
                "epsilon": 1e-6,
            },
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
def test_weight_decay_leaves_biases_and_normalizations_alone(variant):
    model = Transformer.from_size(
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
    settings = {"schedule": "constant", "learning_rate": 0.5}
    options = {"weight_decay": 0.1}
    optimizer = make_optimizer(
        section(optimizer="adamw", optimizer_options=options, **settings), 8, 100
    )
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


@pytest.fixture
def sign_descent():
    """Registers an optimizer, as a file in the package would."""

    @register_optimizer("test_sign_descent")
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class SignDescent(OptimizerConfig):
        beta: float = setting(0.9, require_rate)

        def build(self, learning_rate, **shared):
            return keras.optimizers.Lion(learning_rate, beta_1=self.beta, beta_2=0.5, **shared)

    yield SignDescent
    del OPTIMIZERS["test_sign_descent"]


@pytest.mark.usefixtures("sign_descent")
def test_registered_optimizer_trains_by_a_recipe(corpora, trainings, tmp_path):
    training = {"optimizer": "test_sign_descent", "optimizer_options": {}, "steps": 4}
    recipe = make_recipe(corpora, training=training)
    trainings.train(recipe, tmp_path / "run")
    assert type(trainings.model.optimizer) is keras.optimizers.Lion
    assert trainings.model.optimizer.beta_1 == 0.9
    training = {"optimizer": "test_sign_descent", "optimizer_options": {"beta": 0.1}}
    other = make_optimizer(make_recipe(corpora, training=training).training, 16, 12)
    assert other.beta_1 == 0.1


@pytest.mark.usefixtures("sign_descent")
def test_option_of_another_optimizer_is_refused(corpora):
    training = {"optimizer": "test_sign_descent", "optimizer_options": {"epsilon": 1e-9}}
    with pytest.raises(UserError, match=r"optimizer_options\.epsilon"):
        make_recipe(corpora, training=training)


def test_registered_name_cannot_be_taken_again(sign_descent):
    with pytest.raises(UserError, match="'adam' is taken"):
        register_optimizer("adam")(sign_descent)


@pytest.mark.parametrize("package", ["optimizers", "loggers"])
def test_registry_imports_no_tensorflow(package):
    code = (
        f"import sys, keras_transformer.trainer.{package}; assert 'tensorflow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
