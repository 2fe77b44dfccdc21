"""Which devices, of which machines, train together."""

import contextlib
import json
import os
import signal
import threading

import tensorflow as tf

from keras_transformer._utils.errors import UserError
from keras_transformer._utils.process import available_cores
from keras_transformer.trainer.signals import TrainingFailed

# What collective operations raise when a process that takes part in them is gone.
_LOST = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
)


class Distribution:
    """The `tf.distribute` strategy of a run, and this process' place in it.

    Args:
        kind: "none": one device. "mirrored": all GPUs of this machine (or, for trying it out, all
            logical CPUs). "multi_worker": all workers that the environment variable `TF_CONFIG`
            names, as Kubernetes' TFJob, Vertex AI and others set it. "auto": what is there.

    Attributes:
        strategy: the strategy; None for one device.
        worker, workers: the number of this process, and how many there are.
    """

    def __init__(self, kind):
        cluster = _cluster()
        if kind == "auto":
            # Listing the logical ones would start TensorFlow, and workers must be set up before.
            gpus = len(tf.config.list_physical_devices("GPU"))
            kind = "multi_worker" if len(cluster) > 1 else "mirrored" if gpus > 1 else "none"
        if kind == "multi_worker" and not cluster:
            raise UserError(
                "`training.distribution` is multi_worker, but the environment variable TF_CONFIG "
                "names no workers. Set it on each, or choose another distribution."
            )
        self.kind = kind
        self.strategy = None
        self.worker, self.workers = 0, 1
        if kind == "mirrored":
            devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
            self.strategy = tf.distribute.MirroredStrategy([device.name for device in devices])
        elif kind == "multi_worker":
            self.worker = _number_of_this(cluster)
            self.workers = len(cluster)
            self.strategy = _join_workers()

    @property
    def is_chief(self):
        """Whether this process writes the run's directory and talks to people."""
        return self.worker == 0

    def scope(self):
        """The context in which model and loops are made and run."""
        return self.strategy.scope() if self.strategy else contextlib.nullcontext()

    @contextlib.contextmanager
    def lost_workers_told(self):
        """What TensorFlow raises inside when another worker is gone becomes a `TrainingFailed`."""
        try:
            yield
        except _LOST as error:
            if self.workers == 1:
                raise
            raise TrainingFailed(
                f"Worker {self.worker} of {self.workers} cannot reach the others: one of them has "
                f"ended ({type(error).__name__}). See what it said, then start all of them again "
                "with the same command: the training goes on from the last checkpoint."
            ) from error

    @contextlib.contextmanager
    def chief_first(self):
        """The block is run by the first worker, and when that is through with it by the others."""
        if not self.is_chief:
            self.sum_over_workers(0)
        yield
        if self.is_chief:
            self.sum_over_workers(0)

    def sum_over_workers(self, value):
        """Returns the sum of a number that each worker has; all of them must call it."""
        if self.workers == 1:
            return value

        def add_up(number):
            context = tf.distribute.get_replica_context()
            # A function's argument is on no device; the sum goes to where its summand is.
            return context.all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(number))

        # Of each worker, one replica has the number.
        local = self.strategy.num_replicas_in_sync // self.workers
        numbers = self.strategy.experimental_distribute_values_from_function(
            lambda context: tf.constant(
                value if context.replica_id_in_sync_group % local == 0 else 0.0, tf.float32
            )
        )
        if not hasattr(self, "_add_up"):
            self._add_up = tf.function(
                lambda number: self.strategy.run(add_up, (number,)), autograph=False
            )
        return float(self.strategy.experimental_local_results(self._add_up(numbers))[0])

    def describe(self):
        """What a person reads: "CPU", "2 GPUs", "2 workers with 8 GPUs"."""
        gpus = len(tf.config.list_logical_devices("GPU"))
        if self.strategy is None:
            cores = len(available_cores())
            return "GPU" if gpus else f"CPU with {cores} core{'s' if cores > 1 else ''}"
        replicas = self.strategy.num_replicas_in_sync
        devices = f"{replicas} {'GPU' if gpus else 'CPU'}{'s' if replicas > 1 else ''}"
        return devices if self.workers == 1 else f"{self.workers} workers with {devices}"


def _join_workers():
    try:
        with _own_signals():
            return tf.distribute.MultiWorkerMirroredStrategy()
    except RuntimeError as error:
        if "at program startup" not in str(error):
            raise
        raise UserError(
            "TensorFlow has computed something in this process already, and can no longer join "
            "other workers. Train before anything else, or in a process of its own."
        ) from error


@contextlib.contextmanager
def _own_signals():
    """Puts back what SIGTERM did before: TensorFlow's workers take it, and then do nothing."""
    handler = signal.getsignal(signal.SIGTERM)
    yield
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)


def _cluster():
    """The numbers of all workers as `TF_CONFIG` names them: tuples of type and index."""
    try:
        config = json.loads(os.environ.get("TF_CONFIG") or "{}")
        cluster = config.get("cluster", {})
        return [
            (kind, index)
            for kind in ("chief", "worker")
            for index in range(len(cluster.get(kind, ())))
        ]
    except (ValueError, AttributeError, TypeError) as error:
        raise UserError(
            f"The environment variable TF_CONFIG is no description of a cluster ({error}). Set it "
            "as TensorFlow's guide to training with several workers says, or unset it."
        ) from error


def _number_of_this(cluster):
    task = json.loads(os.environ["TF_CONFIG"]).get("task")
    for number, (kind, index) in enumerate(cluster):
        if isinstance(task, dict) and (task.get("type"), str(task.get("index"))) == (
            kind,
            str(index),
        ):
            return number
    raise UserError(
        f"The environment variable TF_CONFIG must have a 'task' that is a worker of its 'cluster', "
        f'such as {{"type": "worker", "index": 0}}; got {task!r}.'
    )
