"""What all batches have in common: a number goes in, a batch comes out."""

import abc
import dataclasses
import functools
import hashlib
import json

import numpy as np
import tensorflow as tf

from keras_transformer._utils import checks
from keras_transformer.data.batching.buckets import Bucket


def shuffled(count, *key):
    """Returns the numbers 0 to `count - 1` in an order that depends on `key` alone.

    The numbers are sorted by as many draws of the counter-based generator Philox4x64-10 (Salmon et
    al. 2011, "Parallel random numbers: as easy as 1, 2, 3"). NumPy promises that the raw draws of a
    bit generator never change; it does not promise that of `Generator.permutation`.

    Args:
        count: how many numbers.
        *key: integers and strings that say what is shuffled: seed, purpose, epoch and so on. Orders
            of different keys have nothing to do with each other.

    Example:

    >>> sorted(shuffled(5, 2026, "example")) == [0, 1, 2, 3, 4]
    True
    """
    digest = hashlib.sha256(json.dumps(key).encode()).digest()
    generator = np.random.Philox(key=int.from_bytes(digest[:16], "little"))
    return np.argsort(generator.random_raw(count), kind="stable")


def concatenated_ranges(begins, counts):
    """Returns `begins[i], begins[i] + 1, …` (`counts[i]` of them) for all i, one after the other.

    Example:

    >>> concatenated_ranges([10, 50], [3, 2])
    array([10, 11, 12, 50, 51])
    """
    counts = np.asarray(counts, np.int64)
    ends = np.cumsum(counts)
    shifts = np.asarray(begins, np.int64) - (ends - counts)
    return np.repeat(shifts, counts) + np.arange(counts.sum())


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


# How many batches are made ready while a model is busy with another.
_AHEAD = 4


class Batches(abc.ABC):
    """Batches of a corpus, each a pure function of corpus, settings, seed, epoch and number.

    So there is no state to save and nothing to replay: a run that stopped at (epoch, number) goes
    on with `dataset(start=(epoch, number))`. All epochs have the same number of batches,
    `len(batches)`, and in each of them every example that is not too long occurs exactly once.

    A batch is what `model.fit` takes: a dictionary of inputs, labels, and for labeled texts
    weights. 0 is padding. Where the examples do not fill the last batches of an epoch, rows of
    nothing but padding do, so that no batch has a shape of its own; a loss that ignores label 0
    does not see them.

    ```python
    model.fit(batches.dataset(), steps_per_epoch=len(batches), epochs=10, shuffle=False)
    ```

    Args:
        cache: the `TokenCache`.
        seed: of the order, from 0 to 2**64 - 1.
    """

    def __init__(self, cache, seed):
        self.cache = cache
        self.seed = checks.require_seed("seed", seed)
        # A dataset reads ahead over the end of an epoch: then two plans are in use.
        self._plans = functools.lru_cache(maxsize=2)(self._make_plan)

    @property
    @abc.abstractmethod
    def element_spec(self):
        """The structure of a batch: nested `tf.TensorSpec`s."""

    @abc.abstractmethod
    def __len__(self):
        """The number of batches in an epoch."""

    @abc.abstractmethod
    def batch(self, epoch, number):
        """Returns batch `number` of `epoch`, NumPy arrays in the structure of `element_spec`."""

    @abc.abstractmethod
    def report(self):
        """Returns a `BatchReport`: how many examples, batches and tokens, how much padding."""

    @abc.abstractmethod
    def settings(self):
        """Returns, for JSON, what else than cache and seed the batches depend on."""

    @abc.abstractmethod
    def _make_plan(self, epoch):
        """Returns what is in the batches of an epoch."""

    def plan(self, epoch):
        """Returns what is in the batches of an epoch; `plan(epoch)[n]` is for batch n."""
        return self._plans(checks.require_integer("epoch", epoch, minimum=0))

    def fingerprint(self):
        """Returns a hash of all that the batches depend on.

        Keep it with a checkpoint: a run that is resumed with another one gets other batches.
        """
        parts = [type(self).__name__, self.cache.key, self.seed, self.settings()]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def part(self, epoch, number, worker, workers):
        """Returns a worker's part of a batch: every `workers`-th row, from row `worker` on.

        All parts of a batch have one shape (the last row may be padding), so that workers that
        train together stay together. The parts together have exactly the rows of the batch. A part
        may be nothing but padding: divide a sum of losses by the number of labels in the whole
        batch, not in the part.
        """
        self._require_worker(worker, workers)

        def share(array):
            rows = -(-len(array) // workers)
            mine = array[worker::workers]
            return np.pad(mine, [(0, rows - len(mine))] + [(0, 0)] * (array.ndim - 1))

        return tf.nest.map_structure(share, self.batch(epoch, number))

    def _require_worker(self, worker, workers):
        checks.require_positive_integer("workers", workers)
        if checks.require_integer("worker", worker, minimum=0) >= workers:
            raise ValueError(f"`worker` must be below `workers`={workers}; got {worker}.")

    def dataset(self, start=(0, 0), epochs=None, worker=0, workers=1, replicas=1):
        """Returns a `tf.data.Dataset` of batches, for `model.fit` or a loop of one's own.

        Args:
            start: the epoch and the number of the first batch.
            epochs: how many epochs to go through, the one of `start` included, of which only the
                rest is given. None: without end, so tell `fit` `steps_per_epoch=len(batches)`.
            worker: the number of this worker, from 0.
            workers: how many workers share the rows of each batch, see `part`.
            replicas: how many devices each worker has. For each batch the dataset then gives as
                many parts, one after the other, as `tf.distribute` wants them.
        """
        if not isinstance(start, tuple | list) or len(start) != 2:
            raise ValueError(
                f"`start` must be an epoch and a number, such as (0, 0); got {start!r}."
            )
        epoch = checks.require_integer("epoch of start", start[0], minimum=0)
        number = checks.require_integer("number of start", start[1], minimum=0)
        self._require_worker(worker, workers)
        checks.require_positive_integer("replicas", replicas)
        if number >= len(self):
            raise ValueError(f"`start` must be in an epoch of {len(self)} batches; got {start}.")
        first = (epoch * len(self) + number) * replicas
        if epochs is None:
            steps = tf.data.Dataset.counter(first)
        else:
            checks.require_positive_integer("epochs", epochs)
            steps = tf.data.Dataset.range(first, (epoch + epochs) * len(self) * replicas)
        specs = tf.nest.flatten(self.element_spec)

        def load(step):
            batch, replica = divmod(int(step), replicas)
            device = worker * replicas + replica
            part = self.part(*divmod(batch, len(self)), device, workers * replicas)
            return tf.nest.flatten(part)

        def load_in_graph(step):
            tensors = tf.numpy_function(load, [step], [spec.dtype for spec in specs])
            for tensor, spec in zip(tensors, specs, strict=True):
                tensor.set_shape(spec.shape)
            return tf.nest.pack_sequence_as(self.element_spec, tensors)

        dataset = steps.map(load_in_graph).prefetch(_AHEAD)
        options = tf.data.Options()
        # There is nothing to tune, and the end of an iterator would wait for the tuner, for half as
        # long as the iterator has lived.
        options.autotune.enabled = False
        # The workers have their parts already: TensorFlow must not take parts of them again.
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
        return dataset.with_options(options)
