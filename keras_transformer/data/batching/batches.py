"""Base of all batches, and reports on them."""

import abc
import dataclasses
import functools
import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_transformer._utils import checks
from keras_transformer._utils.errors import ArgumentError, UserError
from keras_transformer.data.batching.buckets import Bucket
from keras_transformer.data.token_cache import TokenCache
from keras_transformer.text import SpecialIds


def shuffled(count: int, *key: int | str) -> np.ndarray:
    """Returns the numbers 0 to `count - 1` in an order that depends on `key` alone.

    The numbers are sorted by as many draws of the generator Philox4x64-10 (Salmon et al. 2011,
    "Parallel random numbers: as easy as 1, 2, 3"). NumPy guarantees that the raw draws of a bit
    generator never change; it does not guarantee that for `Generator.permutation`. Different keys
    (seed, purpose, epoch and so on) give independent orders.
    """
    digest = hashlib.sha256(json.dumps(key).encode()).digest()
    generator = np.random.Philox(key=int.from_bytes(digest[:16], "little"))
    return np.argsort(generator.random_raw(count), kind="stable")


@dataclasses.dataclass(frozen=True)
class BucketReport:
    """Contents of one bucket in an epoch.

    Attributes:
        bucket: The `Bucket`.
        batches: Number of batches with its shape.
        examples: Number of examples in these batches.
        tokens: Number of their tokens, with a start or end token each, without padding.
    """

    bucket: Bucket
    batches: int
    examples: int
    tokens: int

    @property
    def slots(self) -> int:
        """Number of tokens in all its batches, padding included."""
        return self.batches * self.bucket.slots

    @property
    def efficiency(self) -> float:
        """Share of the slots that contain tokens; 0 if there is no batch."""
        return self.tokens / self.slots if self.slots else 0.0


@dataclasses.dataclass(frozen=True)
class BatchReport:
    """Contents of an epoch. `str(report)` is a table.

    Attributes:
        buckets: A `BucketReport` of each bucket, for epoch 0. Other epochs may move other left-over
            examples to a larger bucket; the sums over all buckets stay the same.
        skipped: Number of examples that are left out because they are too long.
        truncated: Number of examples that are cut because they are too long.
    """

    buckets: tuple[BucketReport, ...]
    skipped: int = 0
    truncated: int = 0

    @property
    def batches(self) -> int:
        """Number of batches."""
        return sum(bucket.batches for bucket in self.buckets)

    @property
    def examples(self) -> int:
        """Number of examples."""
        return sum(bucket.examples for bucket in self.buckets)

    @property
    def tokens(self) -> int:
        """Number of tokens, without padding."""
        return sum(bucket.tokens for bucket in self.buckets)

    @property
    def efficiency(self) -> float:
        """Share of all slots that contain tokens; rows that consist of padding count as slots."""
        return self.tokens / sum(bucket.slots for bucket in self.buckets)

    def __str__(self) -> str:
        def line(rows: object, lengths: tuple[int, ...], part: "BatchReport | BucketReport") -> str:
            shape = f"{rows:>6} {' × '.join(map(str, lengths)):>12}"
            return f"{shape} {part.batches:>8,} {part.examples:>10,} {part.efficiency:>10.1%}"

        return "\n".join(
            [
                f"{self.examples:,} examples with {self.tokens:,} tokens in {self.batches:,} "
                f"batches; too long: {self.skipped:,} skipped, {self.truncated:,} truncated.",
                f"{'rows':>6} {'lengths':>12} {'batches':>8} {'examples':>10} {'efficiency':>10}",
                *(line(part.bucket.rows, part.bucket.lengths, part) for part in self.buckets),
                line("all", (), self),
            ]
        )


@dataclasses.dataclass(frozen=True)
class Plan:
    """Contents of the batches of one epoch: `plan[n]` is for batch n."""

    batches: int
    describe: Callable[[int], Any]
    #: For bucketed batches, the examples of each bucket in the order of the batches.
    pools: Sequence[np.ndarray] = ()

    def __len__(self) -> int:
        return self.batches

    def __getitem__(self, number: int) -> Any:
        if not 0 <= number < len(self):
            raise IndexError(f"The batch must be from 0 to {len(self) - 1}; got {number}.")
        return self.describe(number)


#: A matrix of ids in a batch.
IDS = tf.TensorSpec([None, None], tf.int32)

# Number of batches that are prepared while a model is busy with another.
_PREFETCHED = 4


class Batches(abc.ABC):
    """Base of the batches of a corpus.

    Each batch is a pure function of corpus, settings, seed, epoch and number. There is no state to
    save: a run that stopped at (epoch, number) resumes with `dataset(start=(epoch, number))`. All
    epochs have the same number of batches, `len(batches)`, and every example that is not too long
    occurs exactly once in each epoch.

    A batch has the form that `model.fit` takes: a dictionary of inputs, labels, and for labeled
    texts weights. Padding, start and end ids are those of the cache. Rows of padding fill the last
    batches of an epoch, so that there are no other shapes; a loss that ignores the padding id as a
    label is not affected.

    ```python
    model.fit(batches.dataset(), steps_per_epoch=len(batches), epochs=10, shuffle=False)
    ```

    Args:
        cache: A `TokenCache` with the columns that the subclass names in `columns`.
        seed: Seed of the order, from 0 to 2**64 - 1.
    """

    #: Columns of the cache that the batches need.
    columns: tuple[str, ...] = ()
    #: The structure of a batch: nested `tf.TensorSpec`s.
    element_spec: Any

    def __init__(self, cache: TokenCache, seed: int) -> None:
        if tuple(cache.columns) != self.columns:
            raise UserError(
                f"{type(self).__name__} need a cache with the columns {self.columns}; got "
                f"{tuple(cache.columns)}."
            )
        self.cache: TokenCache = cache
        self.special_ids: SpecialIds = cache.special_ids
        self.seed: int = checks.require_seed("seed", seed)
        # A dataset prefetches beyond the end of an epoch: then two plans are in use.
        self._plans = functools.lru_cache(maxsize=2)(self._make_plan)

    @property
    def padding_values(self) -> Any:
        """Values of rows that only fill a batch: by default padding for matrices, 0 for vectors."""
        padding = self.special_ids.padding
        return tf.nest.map_structure(
            lambda spec: padding if spec.shape.rank == 2 else 0, self.element_spec
        )

    @abc.abstractmethod
    def __len__(self) -> int:
        """Returns the number of batches in an epoch."""

    @abc.abstractmethod
    def batch(self, epoch: int, number: int) -> Any:
        """Returns batch `number` of `epoch`, NumPy arrays in the structure of `element_spec`."""

    @abc.abstractmethod
    def report(self) -> BatchReport:
        """Returns a `BatchReport`: numbers of examples, batches and tokens, and the padding."""

    @abc.abstractmethod
    def settings(self) -> dict[str, Any]:
        """Returns, for JSON, what the batches depend on besides cache and seed."""

    @abc.abstractmethod
    def _make_plan(self, epoch: int) -> Plan:
        """Returns the contents of the batches of an epoch."""

    def plan(self, epoch: int) -> Plan:
        """Returns the contents of the batches of an epoch; `plan(epoch)[n]` is for batch n."""
        return self._plans(checks.require_integer("epoch", epoch, minimum=0))

    def fingerprint(self) -> str:
        """Returns a hash of everything that the batches depend on, to store with checkpoints."""
        parts = [type(self).__name__, self.cache.key, self.seed, self.settings()]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def part(self, epoch: int, number: int, worker: int, workers: int) -> Any:
        """Returns a worker's part of a batch: every `workers`-th row, starting at row `worker`.

        All parts of a batch have the same shape; the last row may be padding. A part may even
        consist of padding alone: divide a sum of losses by the number of labels in the whole batch.
        """
        self._require_worker(worker, workers)

        def select(array: np.ndarray, padding: float) -> np.ndarray:
            rows = -(-len(array) // workers)
            selected = array[worker::workers]
            if len(selected) == rows:
                return selected
            filler = [(0, rows - len(selected))] + [(0, 0)] * (array.ndim - 1)
            return np.pad(selected, filler, constant_values=padding)

        return tf.nest.map_structure(select, self.batch(epoch, number), self.padding_values)

    def _require_worker(self, worker: int, workers: int) -> None:
        checks.require_positive_integer("workers", workers)
        if checks.require_integer("worker", worker, minimum=0) >= workers:
            raise UserError(f"`worker` must be below `workers`={workers}; got {worker}.")

    def dataset(
        self,
        start: Sequence[int] = (0, 0),
        epochs: int | None = None,
        worker: int = 0,
        workers: int = 1,
        replicas: int = 1,
    ) -> "tf.data.Dataset[Any]":
        """Returns a `tf.data.Dataset` of batches, for `model.fit` or a custom loop.

        Args:
            start: Epoch and number of the first batch.
            epochs: Number of epochs, including the rest of the epoch of `start`. Default: no end;
                then give `fit` the argument `steps_per_epoch=len(batches)`.
            worker: Number of this worker, from 0.
            workers: Number of workers that share each batch, as in `part`.
            replicas: Number of devices of each worker. Each batch is yielded in as many parts, one
                after the other, as `tf.distribute` expects them.
        """
        if not isinstance(start, tuple | list) or len(start) != 2:
            raise ArgumentError("start", "an epoch and a number, such as (0, 0)", start)
        epoch = checks.require_integer("epoch of start", start[0], minimum=0)
        number = checks.require_integer("number of start", start[1], minimum=0)
        self._require_worker(worker, workers)
        checks.require_positive_integer("replicas", replicas)
        if number >= len(self):
            raise UserError(f"`start` must be in an epoch of {len(self)} batches; got {start}.")
        first = (epoch * len(self) + number) * replicas
        if epochs is None:
            steps = tf.data.Dataset.counter(first)
        else:
            checks.require_positive_integer("epochs", epochs)
            steps = tf.data.Dataset.range(first, (epoch + epochs) * len(self) * replicas)
        specs = tf.nest.flatten(self.element_spec)

        def load(step: np.ndarray) -> list[np.ndarray]:
            batch, replica = divmod(int(step), replicas)
            device = worker * replicas + replica
            part = self.part(*divmod(batch, len(self)), device, workers * replicas)
            return tf.nest.flatten(part)

        def load_in_graph(step: tf.Tensor) -> Any:
            tensors = tf.numpy_function(load, [step], [spec.dtype for spec in specs])
            for tensor, spec in zip(tensors, specs, strict=True):
                tensor.set_shape(spec.shape)
            return tf.nest.pack_sequence_as(self.element_spec, tensors)

        dataset = steps.map(load_in_graph).prefetch(_PREFETCHED)
        options = tf.data.Options()
        # There is nothing to tune, and closing an iterator would wait for the tuner.
        options.autotune.enabled = False
        # The dataset has only this worker's parts: TensorFlow must not shard it again.
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
        return dataset.with_options(options)
