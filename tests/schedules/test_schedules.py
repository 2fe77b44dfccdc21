"""Tests of the schedules: the papers' formulas in float64, use in optimizers, the registry."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import keras_transformer.schedules as registry
from keras_transformer.schedules import (
    CosineDecay,
    InverseSquareRootDecay,
    LinearDecay,
    WarmUpSchedule,
)

SCHEDULES = [
    InverseSquareRootDecay(0.002, 40, initial_rate=1e-5),
    InverseSquareRootDecay.from_hidden_dim(512),
    CosineDecay(0.002, 40, 500, final_rate=1e-5),
    LinearDecay(0.002, 0, 500),
]


def paper_rate(n, hidden_dim, warmup_steps, factor=1.0):
    """Vaswani et al. 2017, equation 3; n counts from 1."""
    return factor * hidden_dim**-0.5 * min(n**-0.5, n * warmup_steps**-1.5)


@settings(max_examples=100)
@given(
    step=st.integers(0, 20_000) | st.integers(9_900_000, 10_100_000),
    hidden_dim=st.integers(1, 4096),
    warmup_steps=st.integers(1, 10_000),
    factor=st.floats(0.1, 10),
)
def test_inverse_square_root_equals_the_paper_by_hidden_dim_and_by_peak(
    step, hidden_dim, warmup_steps, factor
):
    expected = paper_rate(step + 1, hidden_dim, warmup_steps, factor)
    by_hidden_dim = InverseSquareRootDecay.from_hidden_dim(hidden_dim, warmup_steps, factor)
    np.testing.assert_allclose(by_hidden_dim(step), expected, rtol=1e-6)
    peak = paper_rate(warmup_steps, hidden_dim, warmup_steps, factor)
    by_peak = InverseSquareRootDecay(peak, warmup_steps)
    np.testing.assert_allclose(by_peak(step), expected, rtol=1e-6)


def test_from_hidden_dim_defaults_equal_the_paper():
    schedule = InverseSquareRootDecay.from_hidden_dim(512)
    steps = [0, 1, 3998, 3999, 4000, 99_999]
    expected = [paper_rate(step + 1, 512, 4000) for step in steps]
    np.testing.assert_allclose([schedule(step) for step in steps], expected, rtol=1e-6)


@pytest.mark.parametrize("total_steps", [300, 10_000_000])
@pytest.mark.parametrize(
    ("schedule_class", "share"),
    [
        (CosineDecay, lambda passed: (1 + math.cos(math.pi * passed)) / 2),
        (LinearDecay, lambda p: 1 - p),
    ],
)
def test_finite_schedule_equals_its_formula(schedule_class, share, total_steps):
    peak, final, warmup_steps = 3e-4, 1e-5, 100
    schedule = schedule_class(peak, warmup_steps, total_steps, final)
    span = total_steps - warmup_steps
    for step in (100, 101, 100 + span // 4, 100 + span // 2, total_steps - 1):
        expected = final + (peak - final) * share((step - warmup_steps) / span)
        np.testing.assert_allclose(schedule(step), expected, rtol=1e-6)
    for step in (total_steps, total_steps + 1, 10 * total_steps):
        np.testing.assert_allclose(schedule(step), final, rtol=1e-6)


@pytest.mark.parametrize("schedule_class", [CosineDecay, LinearDecay])
def test_finite_schedule_reaches_zero_only_after_the_last_step(schedule_class):
    total_steps = 10_000_000
    schedule = schedule_class(1e-3, 4000, total_steps)
    span = total_steps - 4000
    last = math.sin(math.pi / 2 / span) ** 2 if schedule_class is CosineDecay else 1 / span
    np.testing.assert_allclose(schedule(total_steps - 1), 1e-3 * last, rtol=1e-5)
    assert float(schedule(total_steps)) == 0.0


@pytest.mark.parametrize(
    "schedule",
    [InverseSquareRootDecay(1e-3, 8), CosineDecay(1e-3, 8, 100), LinearDecay(1e-3, 8, 100)],
)
def test_warm_up_is_linear_with_a_first_rate_above_zero(schedule):
    rates = [float(schedule(step)) for step in range(8)]
    np.testing.assert_allclose(rates, 1e-3 * np.arange(1, 9) / 8, rtol=1e-6)


def test_warm_up_starts_from_the_initial_rate():
    schedule = InverseSquareRootDecay(1e-3, 8, initial_rate=2e-4)
    rates = [float(schedule(step)) for step in range(8)]
    np.testing.assert_allclose(rates, 2e-4 + 8e-4 * np.arange(1, 9) / 8, rtol=1e-6)


@pytest.mark.parametrize("schedule_class", [CosineDecay, LinearDecay])
def test_zero_warm_up_steps_start_at_the_peak_rate(schedule_class):
    schedule = schedule_class(1e-3, 0, 10)
    np.testing.assert_allclose(schedule(0), 1e-3, rtol=1e-6)
    assert float(schedule(1)) < 1e-3


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_rate_rises_to_the_peak_and_falls_afterwards(schedule):
    rates = schedule(tf.range(6000)).numpy()
    top = rates.argmax()
    assert (np.diff(rates[: top + 1]) > 0).all()
    assert (np.diff(rates[top:]) <= 0).all()
    assert rates[top] <= schedule.peak_rate * (1 + 1e-6)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("jit_compile", [False, True])
def test_schedule_in_a_graph_accepts_every_dtype_of_step(schedule, jit_compile):
    compiled = tf.function(schedule, jit_compile=jit_compile)
    for dtype in (tf.int32, tf.int64, tf.float32, tf.float64):
        rate = compiled(tf.constant(123, dtype))
        assert rate.dtype == tf.float32
        np.testing.assert_allclose(rate, schedule(123), rtol=1e-6)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_serialized_schedule_has_the_same_rates(schedule):
    serialized = keras.optimizers.schedules.serialize(schedule)
    copy = keras.optimizers.schedules.deserialize(serialized)
    assert type(copy) is type(schedule)
    assert copy.get_config() == schedule.get_config()
    assert [float(copy(step)) for step in (0, 60, 4500)] == [
        float(schedule(step)) for step in (0, 60, 4500)
    ]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_optimizer_steps_with_the_rates_and_saves_the_schedule(schedule, tmp_path):
    layer = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")
    model = keras.Sequential([keras.Input([1]), layer])
    # Far below its target, the absolute error has the slope -1: the weight is the sum of the rates.
    model.compile(keras.optimizers.SGD(schedule), loss="mean_absolute_error")
    model.fit(np.ones((3, 1)), np.full((3, 1), 100.0), batch_size=1, verbose=0)
    rates = [float(schedule(step)) for step in range(3)]
    np.testing.assert_allclose(layer.kernel.numpy().item(), sum(rates), rtol=1e-6)

    model.save(tmp_path / "model.keras")
    optimizer = keras.saving.load_model(tmp_path / "model.keras").optimizer
    assert int(optimizer.iterations) == 3
    assert float(optimizer.learning_rate) == float(schedule(3))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: CosineDecay(1e-3, 100, 100),
            "total_steps=100 and warmup_steps=100",
        ),
        (lambda: LinearDecay(1e-3, 100, 50), "total_steps=50 and warmup_steps=100"),
        (lambda: CosineDecay(0.0, 1, 10), "`peak_rate`.*got 0.0"),
        (lambda: CosineDecay(math.nan, 1, 10), "`peak_rate`.*got nan"),
        (lambda: LinearDecay(math.inf, 1, 10), "`peak_rate`.*got inf"),
        (
            lambda: LinearDecay(1e-3, -1, 10),
            "`warmup_steps`.*at least 0; got -1",
        ),
        (lambda: LinearDecay(1e-3, 1.5, 10), "`warmup_steps`.*got 1.5"),
        (lambda: LinearDecay(1e-3, 1, 10.0), "`total_steps`.*at least 1; got 10.0"),
        (lambda: LinearDecay(1e-3, 1, 10, -0.1), "`final_rate`.*at least 0; got -0.1"),
        (
            lambda: LinearDecay(1e-3, 1, 10, 0.1),
            "final_rate=0.1 and peak_rate=0.001",
        ),
        (lambda: InverseSquareRootDecay(1e-3, 10, 0.1), "initial_rate=0.1 and peak_rate=0.001"),
        (lambda: InverseSquareRootDecay(1e-3, 0), "`warmup_steps`.*at least 1; got 0"),
        (
            lambda: InverseSquareRootDecay.from_hidden_dim(0),
            "`hidden_dim`.*at least 1; got 0",
        ),
        (
            lambda: InverseSquareRootDecay.from_hidden_dim(8, 0),
            "`warmup_steps`.*at least 1; got 0",
        ),
        (
            lambda: InverseSquareRootDecay.from_hidden_dim(8, factor=-1),
            "`factor`.*above 0; got -1",
        ),
    ],
)
def test_invalid_arguments_raise_value_error(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_abstract_schedule_cannot_be_constructed():
    with pytest.raises(TypeError, match="rate_after_warmup"):
        WarmUpSchedule(1e-3, 10)


def test_registry_has_one_entry_per_schedule():
    assert {
        "cosine": CosineDecay,
        "inverse_square_root": InverseSquareRootDecay,
        "linear": LinearDecay,
    } == registry.SCHEDULES


@pytest.mark.parametrize("name", sorted(registry.SCHEDULES))
def test_for_training_uses_the_settings_that_the_schedule_has(name):
    schedule = registry.SCHEDULES[name].for_training(
        peak_rate=1e-3, warmup_steps=10, total_steps=100, final_rate=1e-5, hidden_dim=64
    )
    config = schedule.get_config()
    assert (config["peak_rate"], config["warmup_steps"]) == (1e-3, 10)
    if schedule.is_finite:
        assert (config["total_steps"], config["final_rate"]) == (100, 1e-5)


def test_for_training_without_a_peak_rate_uses_the_paper():
    schedule = InverseSquareRootDecay.for_training(
        peak_rate=None, warmup_steps=10, total_steps=100, hidden_dim=64
    )
    assert schedule.get_config() == InverseSquareRootDecay.from_hidden_dim(64, 10).get_config()


def test_for_training_allows_a_run_shorter_than_its_warm_up():
    schedule = LinearDecay.for_training(
        peak_rate=1e-3, warmup_steps=10, total_steps=5, hidden_dim=64
    )
    assert schedule.total_steps == 11


def test_register_schedule_rejects_a_registered_name():
    with pytest.raises(ValueError, match=r"'linear'.*LinearDecay"):
        registry.register_schedule("linear")(CosineDecay)
