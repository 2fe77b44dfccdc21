"""When a training does what: logs, evaluations, checkpoints, ends of epochs."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class TrainingPlan:
    """What is due after each update. It depends on nothing but the update's number.

    Attributes:
        total: the number of updates.
        batches: of an epoch.
        accumulate: batches of an update.
        log, evaluate, save: each is due after so many updates; the last two also after the last.

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

    @classmethod
    def of(cls, recipe, batches, most=None):
        """Makes the plan of a recipe, for an epoch of so many batches.

        Args:
            recipe: the `Recipe`.
            batches: of an epoch.
            most: no more updates than that, if it is given.
        """
        accumulate = recipe.batches.accumulate
        total = recipe.training.steps
        if total is None:
            total = -(-recipe.training.epochs * batches // accumulate)
        return cls(
            total=total if most is None else min(total, most),
            batches=batches,
            accumulate=accumulate,
            log=recipe.tensorboard.every,
            evaluate=recipe.evaluation.every,
            save=recipe.checkpoints.every,
        )

    def epoch(self, update):
        """How many epochs have gone by after an update, with a fraction."""
        return update * self.accumulate / self.batches

    def ends_epoch(self, update):
        """Whether an epoch has ended with this update."""
        return int(self.epoch(update)) > int(self.epoch(update - 1))

    def is_due(self, what, update):
        """Whether "log", "evaluate" or "save" is due after an update."""
        is_last = update == self.total and what != "log"
        return update % getattr(self, what) == 0 or is_last

    def next_event(self, update):
        """The first update after this one with which anything is due."""
        ends = [(update // every + 1) * every for every in (self.log, self.evaluate, self.save)]
        epoch = int(self.epoch(update)) + 1
        return min(*ends, -(-epoch * self.batches // self.accumulate), self.total)
