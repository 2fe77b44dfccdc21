"""What the batches of a corpus look like: counts, shapes, and the share of padding."""

import dataclasses

from keras_transformer.data.batching.buckets import Bucket


@dataclasses.dataclass(frozen=True)
class BucketReport:
    """One bucket in an epoch.

    Attributes:
        bucket: the `Bucket`.
        batches: how many batches have its shape.
        examples: how many examples are in them.
        tokens: how many tokens are in them, START or END of each included, padding not.
    """

    bucket: Bucket
    batches: int
    examples: int
    tokens: int

    @property
    def slots(self):
        """The places for tokens in all its batches."""
        return self.batches * self.bucket.slots

    @property
    def efficiency(self):
        """The share of the slots that hold tokens; 0 where there is no batch."""
        return self.tokens / self.slots if self.slots else 0.0


@dataclasses.dataclass(frozen=True)
class BatchReport:
    """An epoch of batches. `str()` of it is a table to print.

    Attributes:
        buckets: a `BucketReport` for each bucket, of epoch 0. Which of the left-over examples go to
            a larger bucket differs from epoch to epoch; the sums over all buckets do not.
        skipped: how many examples are left out because they are too long.
        truncated: how many examples are cut because they are too long.
    """

    buckets: tuple[BucketReport, ...]
    skipped: int = 0
    truncated: int = 0

    @property
    def batches(self):
        return sum(bucket.batches for bucket in self.buckets)

    @property
    def examples(self):
        return sum(bucket.examples for bucket in self.buckets)

    @property
    def tokens(self):
        return sum(bucket.tokens for bucket in self.buckets)

    @property
    def efficiency(self):
        """The share of all slots, those of rows that only fill up included, that hold tokens."""
        return self.tokens / sum(bucket.slots for bucket in self.buckets)

    def __str__(self):
        lines = [
            f"{self.examples:,} examples with {self.tokens:,} tokens in {self.batches:,} batches; "
            f"too long: {self.skipped:,} skipped, {self.truncated:,} truncated.",
            f"{'rows':>6} {'widths':>12} {'batches':>8} {'examples':>10} {'efficiency':>10}",
        ]
        for part in self.buckets:
            widths = " × ".join(map(str, part.bucket.widths))
            lines.append(
                f"{part.bucket.rows:>6} {widths:>12} {part.batches:>8,} {part.examples:>10,} "
                f"{part.efficiency:>10.1%}"
            )
        lines.append(
            f"{'all':>6} {'':>12} {self.batches:>8,} {self.examples:>10,} {self.efficiency:>10.1%}"
        )
        return "\n".join(lines)
