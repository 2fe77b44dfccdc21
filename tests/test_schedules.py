"""Schedules against the papers' formulas in float64, and inside optimizers."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

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
def test_both_forms_of_inverse_square_root_are_the_papers(step, hidden_dim, warmup_steps, factor):
    expected = paper_rate(step + 1, hidden_dim, warmup_steps, factor)
    by_width = InverseSquareRootDecay.from_hidden_dim(hidden_dim, warmup_steps, factor)
    np.testing.assert_allclose(by_width(step), expected, rtol=1e-6)
    peak = paper_rate(warmup_steps, hidden_dim, warmup_steps, factor)
    by_peak = InverseSquareRootDecay(peak, warmup_steps)
    np.testing.assert_allclose(by_peak(step), expected, rtol=1e-6)


def test_defaults_are_those_of_the_paper():
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
def test_finite_schedules_follow_their_curve(schedule_class, share, total_steps):
    peak, final, warmup_steps = 3e-4, 1e-5, 100
    schedule = schedule_class(peak, warmup_steps, total_steps, final)
    span = total_steps - warmup_steps
    for step in (100, 101, 100 + span // 4, 100 + span // 2, total_steps - 1):
        expected = final + (peak - final) * share((step - warmup_steps) / span)
        np.testing.assert_allclose(schedule(step), expected, rtol=1e-6)
    for step in (total_steps, total_steps + 1, 10 * total_steps):
        np.testing.assert_allclose(schedule(step), final, rtol=1e-6)


@pytest.mark.parametrize("schedule_class", [CosineDecay, LinearDecay])
def test_finite_schedules_reach_zero_after_the_last_update_and_not_before(schedule_class):
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
def test_warm_up_is_a_line_whose_first_update_is_not_wasted(schedule):
    rates = [float(schedule(step)) for step in range(8)]
    np.testing.assert_allclose(rates, 1e-3 * np.arange(1, 9) / 8, rtol=1e-6)


def test_warm_up_starts_from_the_initial_rate():
    schedule = InverseSquareRootDecay(1e-3, 8, initial_rate=2e-4)
    rates = [float(schedule(step)) for step in range(8)]
    np.testing.assert_allclose(rates, 2e-4 + 8e-4 * np.arange(1, 9) / 8, rtol=1e-6)


@pytest.mark.parametrize("schedule_class", [CosineDecay, LinearDecay])
def test_without_warm_up_the_first_update_has_the_peak_rate(schedule_class):
    schedule = schedule_class(1e-3, 0, 10)
    np.testing.assert_allclose(schedule(0), 1e-3, rtol=1e-6)
    assert float(schedule(1)) < 1e-3


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_rate_rises_to_the_peak_and_never_rises_again(schedule):
    rates = schedule(tf.range(6000)).numpy()
    top = rates.argmax()
    assert (np.diff(rates[: top + 1]) > 0).all()
    assert (np.diff(rates[top:]) <= 0).all()
    assert rates[top] <= schedule.peak_rate * (1 + 1e-6)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("jit_compile", [False, True])
def test_all_types_of_step_in_a_graph(schedule, jit_compile):
    compiled = tf.function(schedule, jit_compile=jit_compile)
    for dtype in (tf.int32, tf.int64, tf.float32, tf.float64):
        rate = compiled(tf.constant(123, dtype))
        assert rate.dtype == tf.float32
        np.testing.assert_allclose(rate, schedule(123), rtol=1e-6)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_config_round_trip(schedule):
    serialized = keras.optimizers.schedules.serialize(schedule)
    copy = keras.optimizers.schedules.deserialize(serialized)
    assert type(copy) is type(schedule)
    assert copy.get_config() == schedule.get_config()
    assert [float(copy(step)) for step in (0, 60, 4500)] == [
        float(schedule(step)) for step in (0, 60, 4500)
    ]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_optimizer_updates_with_the_rates_and_is_saved_with_them(schedule, tmp_path):
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
            r"total_steps=100 and warmup_steps=100\. Raise the one",
        ),
        (lambda: LinearDecay(1e-3, 100, 50), "total_steps=50 and warmup_steps=100"),
        (lambda: CosineDecay(0.0, 1, 10), "`peak_rate` must be a finite number above 0; got 0.0"),
        (lambda: CosineDecay(math.nan, 1, 10), "`peak_rate`.*got nan"),
        (lambda: LinearDecay(math.inf, 1, 10), "`peak_rate`.*got inf"),
        (
            lambda: LinearDecay(1e-3, -1, 10),
            "`warmup_steps` must be a whole number of at least 0; got -1",
        ),
        (lambda: LinearDecay(1e-3, 1.5, 10), "`warmup_steps`.*got 1.5"),
        (lambda: LinearDecay(1e-3, 1, 10.0), "`total_steps` must be a whole number of at least 1"),
        (lambda: LinearDecay(1e-3, 1, 10, -0.1), "`final_rate` must be .* at least 0; got -0.1"),
        (
            lambda: LinearDecay(1e-3, 1, 10, 0.1),
            "final_rate=0.1 and peak_rate=0.001. Lower the one",
        ),
        (lambda: InverseSquareRootDecay(1e-3, 10, 0.1), "initial_rate=0.1 and peak_rate=0.001"),
        (lambda: InverseSquareRootDecay(1e-3, 0), "`warmup_steps` must be .* at least 1; got 0"),
        (
            lambda: InverseSquareRootDecay.from_hidden_dim(0),
            "`hidden_dim` must be .* at least 1; got 0",
        ),
        (
            lambda: InverseSquareRootDecay.from_hidden_dim(8, 0),
            "`warmup_steps` must be .* at least 1; got 0",
        ),
        (
            lambda: InverseSquareRootDecay.from_hidden_dim(8, factor=-1),
            "`factor` must be .* above 0; got -1",
        ),
    ],
)
def test_bad_arguments_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_schedule_without_a_fall_says_what_to_implement():
    with pytest.raises(NotImplementedError, match="WarmUpSchedule must implement `rate_after_warm"):
        WarmUpSchedule(1e-3, 10)(0)
