"""TODO"""

import dataclasses

from keras_transformer._utils.errors import UserError
from keras_transformer.trainer.config import FINITE_SCHEDULES


@dataclasses.dataclass(frozen=True)
class TrainingPlan:
    """What is due after each update. It depends on nothing but the update's number.

    Attributes:
        total: the number of updates.
        batches: of an epoch.
        accumulate: batches of an update.
        log, evaluate, save: each is due after so many updates; the last two also after the last.
        profile: the updates after which the profiler starts and stops, if it is to.

    >>> plan = TrainingPlan(total=10, batches=8, accumulate=2, log=3, evaluate=100, save=5)
    >>> [plan.next_event(update) for update in range(10)]
    [3, 3, 3, 4, 5, 6, 8, 8, 9, 10]
    """

    total: int
    batches: int
    accumulate: int
    log: int
    evaluate: int
    save: int
    profile: tuple = ()

    @classmethod
    def of(cls, recipe, batches, most=None):
        """Makes the plan of a recipe, for an epoch of so many batches.

        Args:
            recipe: the `Recipe`.
            batches: of an epoch.
            most: no more updates than that, if it is given.

        Raises:
            UserError: if a schedule that ends with the training would not come to its highest rate.
        """
        accumulate = recipe.batches.accumulate
        total = recipe.training.steps
        if total is None:
            total = -(-recipe.training.epochs * batches // accumulate)
            _require_more_than_warmup(recipe.training, total)
        return cls(
            total=total if most is None else min(total, most),
            batches=batches,
            accumulate=accumulate,
            log=recipe.tensorboard.every,
            evaluate=recipe.evaluation.every,
            save=recipe.checkpoints.every,
            profile=_around(recipe.tensorboard.profile),
        )

    def epoch(self, update):
        """How many epochs have gone by after an update, with a fraction."""
        return update * self.accumulate / self.batches

    def ends_epoch(self, update):
        """Whether an epoch has ended with this update."""
        return int(self.epoch(update)) > int(self.epoch(update - 1))

    def is_due(self, what, update):
        """Whether "log", "evaluate", "save" or "profile" is due after an update."""
        if what == "profile":
            return update in self.profile
        is_last = update == self.total and what != "log"
        return update % getattr(self, what) == 0 or is_last

    def next_event(self, update):
        """The first update after this one with which anything is due."""
        ends = [(update // every + 1) * every for every in (self.log, self.evaluate, self.save)]
        ends += [end for end in self.profile if end > update]
        epoch = int(self.epoch(update)) + 1
        return min(*ends, -(-epoch * self.batches // self.accumulate), self.total)


def _around(profile):
    """The updates after which a profile of the updates from a first to a last starts and stops."""
    return () if profile is None else (profile[0] - 1, profile[1])


def _require_more_than_warmup(training, updates):
    """Raises a `UserError` if the epochs of a recipe end before its rate would fall."""
    if training.schedule in FINITE_SCHEDULES and updates <= training.warmup_steps:
        raise UserError(
            f"`training.epochs` must be more than `training.warmup_steps`, which they include; got "
            f"{training.epochs:,}, which are {updates:,} updates here, and "
            f"{training.warmup_steps:,}. Give more epochs, or a shorter warm-up."
        )


#: Updates of a dry run, and whatever else it makes few of.
DRY_UPDATES = 2
