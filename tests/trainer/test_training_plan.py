"""What is due when: by brute force."""

import types

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_transformer._utils.errors import UserError
from keras_transformer.trainer.training_plan import TrainingPlan

small = st.integers(1, 12)


@given(
    total=st.integers(1, 40),
    batches=small,
    accumulate=small,
    log=small,
    evaluate=small,
    save=small,
    profile=st.one_of(st.just(()), st.tuples(small, small)),
)
def test_next_event_is_the_first_update_with_anything_due(**numbers):
    plan = TrainingPlan(**numbers)

    def is_anything_due(update):
        return (
            any(plan.is_due(what, update) for what in ("log", "evaluate", "save", "profile"))
            or plan.ends_epoch(update)
            or update == plan.total
        )

    for done in range(plan.total):
        expected = next(u for u in range(done + 1, plan.total + 1) if is_anything_due(u))
        assert plan.next_event(done) == expected


@given(batches=small, accumulate=small)
def test_epoch_ends_with_the_update_that_has_its_last_batch(batches, accumulate):
    plan = TrainingPlan(
        total=99, batches=batches, accumulate=accumulate, log=99, evaluate=99, save=99
    )
    for update in range(1, 30):
        numbers = range((update - 1) * accumulate, update * accumulate)
        has_last = any(number % batches == batches - 1 for number in numbers)
        assert plan.ends_epoch(update) == has_last


def test_evaluation_and_checkpoint_come_also_with_the_last_update():
    plan = TrainingPlan(total=7, batches=5, accumulate=1, log=3, evaluate=4, save=5)
    due = {
        what: [update for update in range(1, 8) if plan.is_due(what, update)]
        for what in ("log", "evaluate", "save")
    }
    assert due == {"log": [3, 6], "evaluate": [4, 7], "save": [5, 7]}


def recipe(steps=None, epochs=None, accumulate=1, schedule="cosine", warmup=5):
    """The parts of a recipe that a plan is made of."""
    space = types.SimpleNamespace
    return space(
        batches=space(accumulate=accumulate),
        training=space(steps=steps, epochs=epochs, schedule=schedule, warmup_steps=warmup),
        tensorboard=space(every=10, profile=None),
        evaluation=space(every=20),
        checkpoints=space(every=30),
    )


@pytest.mark.parametrize(
    ("settings", "most", "total"),
    [
        ({"steps": 100}, None, 100),
        ({"epochs": 3}, None, 21),
        ({"epochs": 3, "accumulate": 2}, None, 11),  # the last one begins a fourth epoch
        ({"epochs": 3}, 2, 2),
        ({"steps": 1}, 2, 1),
    ],
)
def test_plan_of_a_recipe(settings, most, total):
    plan = TrainingPlan.of(recipe(**settings), 7, most)
    assert (plan.total, plan.batches) == (total, 7)
    assert (plan.log, plan.evaluate, plan.save) == (10, 20, 30)


@pytest.mark.parametrize("most", [None, 2])
def test_epochs_that_end_within_the_warm_up(most):
    with pytest.raises(UserError) as refused:
        TrainingPlan.of(recipe(epochs=3, warmup=21), 7, most)
    assert str(refused.value) == (
        "`training.epochs` must be more than `training.warmup_steps`, which they include; got 3, "
        "which are 21 updates here, and 21. Give more epochs, or a shorter warm-up."
    )
    assert TrainingPlan.of(recipe(epochs=3, warmup=20), 7, most).total == (most or 21)
    endless = recipe(epochs=3, warmup=21, schedule="inverse_square_root")
    assert TrainingPlan.of(endless, 7, most).total == (most or 21)
