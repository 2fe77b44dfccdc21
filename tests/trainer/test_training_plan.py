"""Events of a training, compared with brute force."""

import types

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_transformer._utils.errors import UserError
from keras_transformer.trainer.training_state import TrainingPlan

small = st.integers(1, 12)


@given(
    total_steps=st.integers(1, 40),
    epoch_batches=small,
    accumulate=small,
    log_every=small,
    evaluate_every=small,
    save_every=small,
    profile=st.one_of(st.just(()), st.tuples(small, small)),
)
def test_next_event_is_the_first_step_with_anything_due(**numbers):
    plan = TrainingPlan(**numbers)

    def is_anything_due(step):
        return (
            plan.logs(step)
            or plan.evaluates(step)
            or plan.saves(step)
            or plan.ends_epoch(step)
            or step in plan.profile
            or step == plan.total_steps
        )

    for done in range(plan.total_steps):
        expected = next(s for s in range(done + 1, plan.total_steps + 1) if is_anything_due(s))
        assert plan.next_event(done) == expected


@given(batches=small, accumulate=small)
def test_epoch_ends_with_the_step_that_has_its_last_batch(batches, accumulate):
    plan = TrainingPlan(
        total_steps=99,
        epoch_batches=batches,
        accumulate=accumulate,
        log_every=99,
        evaluate_every=99,
        save_every=99,
    )
    for step in range(1, 30):
        numbers = range((step - 1) * accumulate, step * accumulate)
        has_last = any(number % batches == batches - 1 for number in numbers)
        assert plan.ends_epoch(step) == has_last
        # The first step of an epoch is the one after the end of the previous epoch.
        if has_last:
            assert plan.first_step(int(plan.epoch(step))) == step


def test_last_step_has_evaluation_and_checkpoint():
    plan = TrainingPlan(
        total_steps=7, epoch_batches=5, accumulate=1, log_every=3, evaluate_every=4, save_every=5
    )
    steps = range(1, 8)
    assert [step for step in steps if plan.logs(step)] == [3, 6]
    assert [step for step in steps if plan.evaluates(step)] == [4, 7]
    assert [step for step in steps if plan.saves(step)] == [5, 7]


def recipe(steps=None, epochs=None, accumulate=1, is_finite=True, warmup=5):
    """Returns the parts of a recipe that a plan depends on."""
    space = types.SimpleNamespace
    return space(
        batches=space(accumulate=accumulate),
        training=space(
            steps=steps, epochs=epochs, has_finite_schedule=is_finite, warmup_steps=warmup
        ),
        tensorboard=space(every=10, profile=None),
        evaluation=space(every=20),
        checkpoints=space(every=30),
    )


@pytest.mark.parametrize(
    ("settings", "max_steps", "total"),
    [
        ({"steps": 100}, None, 100),
        ({"epochs": 3}, None, 21),
        ({"epochs": 3, "accumulate": 2}, None, 11),  # the last one begins a fourth epoch
        ({"epochs": 3}, 2, 2),
        ({"steps": 1}, 2, 1),
    ],
)
def test_plan_has_the_lengths_of_the_recipe(settings, max_steps, total):
    plan = TrainingPlan.for_recipe(recipe(**settings), 7, max_steps)
    assert (plan.total_steps, plan.epoch_batches) == (total, 7)
    assert (plan.log_every, plan.evaluate_every, plan.save_every) == (10, 20, 30)


@pytest.mark.parametrize("max_steps", [None, 2])
def test_epochs_that_end_within_the_warm_up_are_refused(max_steps):
    with pytest.raises(UserError, match=r"`training\.epochs` .* 21 steps .* got 3\.") as refused:
        TrainingPlan.for_recipe(recipe(epochs=3, warmup=21), 7, max_steps)
    assert refused.value.arguments == ("training.epochs", "training.warmup_steps")
    plan = TrainingPlan.for_recipe(recipe(epochs=3, warmup=20), 7, max_steps)
    assert plan.total_steps == (max_steps or 21)
    endless = recipe(epochs=3, warmup=21, is_finite=False)
    assert TrainingPlan.for_recipe(endless, 7, max_steps).total_steps == (max_steps or 21)
