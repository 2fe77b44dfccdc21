"""Distribution of training over the devices of one or several machines."""

import contextlib
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator

import tensorflow as tf

from keras_transformer._utils.errors import UserError
from keras_transformer._utils.process import available_cores
from keras_transformer.trainer.signals import TrainingFailed

# Errors of collective operations when another process that takes part in them has ended.
_LOST = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
)


class Distribution:
    """The `tf.distribute` strategy of a run, or None, and the number of this worker, from 0.

    Args:
        kind: String. "none": one device. "mirrored": all GPUs of this machine, or all logical CPUs.
            "multi_worker": all workers named by the environment variable `TF_CONFIG`, which TFJob,
            Vertex AI and others set. "auto": "multi_worker" if it names several workers, "mirrored"
            if there are several GPUs, else "none".
    """

    def __init__(self, kind: str) -> None:
        cluster = _cluster()
        if kind == "auto":
            # Listing logical devices would initialize TensorFlow, before workers can be set up.
            gpus = len(tf.config.list_physical_devices("GPU"))
            kind = "multi_worker" if len(cluster) > 1 else "mirrored" if gpus > 1 else "none"
        if kind == "multi_worker" and not cluster:
            problem = "`training.distribution` is multi_worker, but TF_CONFIG names no workers."
            fix = "Set this environment variable on each worker, or choose another distribution."
            raise UserError(problem, fix=fix)
        self.kind: str = kind
        self.strategy: tf.distribute.Strategy | None = None
        self.worker: int = 0
        self.workers: int = 1
        self._sum: Callable[..., tf.Tensor] | None = None
        if kind == "mirrored":
            devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
            self.strategy = tf.distribute.MirroredStrategy([device.name for device in devices])
        elif kind == "multi_worker":
            self.worker, self.workers = _number_of_this(cluster), len(cluster)
            self.strategy = _join_workers()

    @property
    def is_chief(self) -> bool:
        """True if this process writes the run directory and reports to the user."""
        return self.worker == 0

    def scope(self) -> contextlib.AbstractContextManager[object]:
        """Returns the context in which model and loops are created."""
        return self.strategy.scope() if self.strategy else contextlib.nullcontext()

    @contextlib.contextmanager
    def report_lost_workers(self) -> Iterator[None]:
        """Converts TensorFlow's errors about workers that have ended to `TrainingFailed`."""
        try:
            yield
        except _LOST as error:
            if self.workers == 1:
                raise
            raise TrainingFailed(
                f"Worker {self.worker} of {self.workers} cannot reach the others: one of them has "
                f"ended ({type(error).__name__}). See its messages, then start all workers again "
                "with the same command: training resumes from the last checkpoint."
            ) from error

    @contextlib.contextmanager
    def chief_first(self) -> Iterator[None]:
        """Context that the first worker runs first, and the other workers after it."""
        if not self.is_chief:
            self.sum_over_workers(0)
        yield
        if self.is_chief:
            self.sum_over_workers(0)

    def sum_over_workers(self, value: float) -> float:
        """Returns the sum of a number over all workers, all of which must call this method."""
        strategy = self.strategy
        if self.workers == 1 or strategy is None:
            return value

        def add_up(number: tf.Tensor) -> tf.Tensor:
            context = tf.distribute.get_replica_context()
            # A function's argument has no device; the sum is placed on the device of its summand.
            return context.all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(number))

        # One replica of each worker holds the number.
        local = strategy.num_replicas_in_sync // self.workers
        numbers = strategy.experimental_distribute_values_from_function(
            lambda context: tf.constant(
                value if context.replica_id_in_sync_group % local == 0 else 0.0, tf.float32
            )
        )
        self._sum = add = self._sum or tf.function(
            lambda number: strategy.run(add_up, (number,)), autograph=False
        )
        return float(strategy.experimental_local_results(add(numbers))[0])

    def describe(self) -> str:
        """Returns the devices in words: "GPU", "2 GPUs", "2 workers with 8 GPUs"."""
        gpus = len(tf.config.list_logical_devices("GPU"))
        if self.strategy is None:
            cores = len(available_cores())
            return "GPU" if gpus else f"CPU with {cores} core{'s' if cores > 1 else ''}"
        replicas = self.strategy.num_replicas_in_sync
        devices = f"{replicas} {'GPU' if gpus else 'CPU'}{'s' if replicas > 1 else ''}"
        return devices if self.workers == 1 else f"{self.workers} workers with {devices}"


def _join_workers() -> tf.distribute.Strategy:
    # TensorFlow's workers replace the handler of SIGTERM.
    handler = signal.getsignal(signal.SIGTERM)
    try:
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
    except RuntimeError as error:
        # TensorFlow has no error type of its own for this.
        if "at program startup" not in str(error):
            raise
        problem = "TensorFlow has been used in this process and can no longer join other workers."
        fix = "Train before anything else, or in a process of its own."
        raise UserError(problem, fix=fix) from error
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)
    return strategy


def _cluster() -> list[tuple[str, str]]:
    """Returns type and index of each worker in `TF_CONFIG`."""
    try:
        cluster = json.loads(os.environ.get("TF_CONFIG") or "{}").get("cluster", {})
        counts = {kind: len(cluster.get(kind, ())) for kind in ("chief", "worker")}
        return [(kind, str(index)) for kind, count in counts.items() for index in range(count)]
    except (ValueError, AttributeError, TypeError) as error:
        raise UserError(
            f"The environment variable TF_CONFIG does not describe a cluster ({error}).",
            fix="Set it as TensorFlow's guide to multi-worker training says, or unset it.",
        ) from error


def _number_of_this(cluster: list[tuple[str, str]]) -> int:
    task = json.loads(os.environ["TF_CONFIG"]).get("task")
    if isinstance(task, dict):
        role = (str(task.get("type")), str(task.get("index")))
        if role in cluster:
            return cluster.index(role)
    raise UserError(
        "The environment variable TF_CONFIG must have a 'task' that is a worker of its 'cluster', "
        f'such as {{"type": "worker", "index": 0}}; got {task!r}.'
    )
