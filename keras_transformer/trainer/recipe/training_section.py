"""The recipe's `training`: how long, and how each update is made."""

import dataclasses

from keras_transformer.checks import (
    require_boolean,
    require_choice,
    require_integer,
    require_not_negative,
    require_positive,
    require_positive_integer,
    require_rate,
)
from keras_transformer.trainer.recipe.section import Section, or_null, setting

#: Schedules that end at a known update, with `final_rate`.
FINITE_SCHEDULES = ("cosine", "linear")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingSection(Section):
    """How long, and how each update is made. Defaults: Vaswani et al. 2017, §5.3 and §5.4.

    Attributes:
        steps: updates in all; or
        epochs: passes over the corpus. One of the two must be given.
        optimizer: "adam", or "adamw" for a `weight_decay` apart from the gradient (Loshchilov and
            Hutter 2019).
        beta_1, beta_2, epsilon: of Adam.
        weight_decay: of AdamW.
        clip_norm: gradients whose global norm is larger are scaled down to it; null for never.
        schedule: of the learning rate after warm-up: "inverse_square_root", "cosine" or "linear"
            down to `final_rate`; or "constant", which has no warm-up.
        learning_rate: the highest rate. Null is the paper's, (width · warmup_steps)^-0.5, and only
            for "inverse_square_root".
        warmup_steps: updates in which the rate rises to it, unless it is constant.
        final_rate: the rate at the end of "cosine" and "linear".
        label_smoothing: the share of probability that is spread over all tokens.
        consistency: α of R-Drop (Liang et al. 2021, "R-Drop: Regularized Dropout for Neural
            Networks"; the paper's is 5), for small corpora: each batch is predicted twice, with
            other units dropped, and the loss grows with how far the two are apart. It takes more
            than twice the time; 0 is without.
        precision: "float32", "mixed_bfloat16", or "mixed_float16" with loss scaling.
        xla: whether XLA compiles the update. It gains on GPUs; each shape of batches costs some
            seconds of compilation.
        ema: momentum of a moving average of the weights; 0 keeps none.
        deterministic: whether the same recipe gives the same weights, bit for bit; on a GPU it
            costs some speed.
        distribution: "none", "mirrored" (all GPUs of this machine), "multi_worker" (TF_CONFIG names
            the workers), or "auto": whichever of them fits what is there.
    """

    key = "training"

    steps: int | None = setting(None, or_null(require_positive_integer))
    epochs: int | None = setting(None, or_null(require_positive_integer))
    optimizer: str = setting("adam", require_choice, choices=("adam", "adamw"))
    beta_1: float = setting(0.9, require_rate)
    beta_2: float = setting(0.98, require_rate)
    epsilon: float = setting(1e-9, require_positive)
    weight_decay: float = setting(0.0, require_not_negative)
    clip_norm: float | None = setting(None, or_null(require_positive))
    schedule: str = setting(
        "inverse_square_root",
        require_choice,
        choices=("inverse_square_root", "constant", *FINITE_SCHEDULES),
    )
    learning_rate: float | None = setting(None, or_null(require_positive))
    warmup_steps: int = setting(4000, require_integer, minimum=0)
    final_rate: float = setting(0.0, require_not_negative)
    label_smoothing: float = setting(0.1, require_rate)
    consistency: float = setting(0.0, require_not_negative)
    precision: str = setting(
        "float32", require_choice, choices=("float32", "mixed_bfloat16", "mixed_float16")
    )
    xla: bool = setting(False, require_boolean)
    ema: float = setting(0.0, require_rate)
    deterministic: bool = setting(True, require_boolean)
    distribution: str = setting(
        "auto", require_choice, choices=("auto", "none", "mirrored", "multi_worker")
    )

    def disagreements(self):
        if (self.steps is None) == (self.epochs is None):
            got = "neither"
            if self.steps is not None:
                got = f"{self.steps} and {self.epochs}. Set one of them to null"
            yield f"One of `training.steps` and `training.epochs` must be given; got {got}."
        if self.weight_decay and self.optimizer != "adamw":
            yield (
                f"`training.weight_decay` must be 0 for {self.optimizer!r}; got "
                f"{self.weight_decay}. Set `training.optimizer` to adamw."
            )
        yield from self._disagreements_of_schedule()

    def _disagreements_of_schedule(self):
        if self.schedule == "inverse_square_root":
            if self.warmup_steps == 0:
                yield (
                    "`training.warmup_steps` must be at least 1 for 'inverse_square_root', whose "
                    "fall is measured in warm-ups; got 0."
                )
        elif self.learning_rate is None:
            yield (
                f"`training.learning_rate` is missing: {self.schedule!r} needs one, such as 1e-3. "
                "Only 'inverse_square_root' has one by itself."
            )
        if self.schedule in FINITE_SCHEDULES:
            if self.steps is not None and self.steps <= self.warmup_steps:
                yield (
                    "`training.steps` must be more than `training.warmup_steps`, which it "
                    f"includes; got {self.steps} and {self.warmup_steps}."
                )
            if self.learning_rate is not None and self.final_rate > self.learning_rate:
                yield (
                    "`training.final_rate` must not be above `training.learning_rate`; got "
                    f"{self.final_rate} and {self.learning_rate}."
                )
        elif self.final_rate:
            yield (
                f"`training.final_rate` must be 0 for {self.schedule!r}, which has no end; got "
                f"{self.final_rate}. Set `training.schedule` to cosine or linear."
            )
