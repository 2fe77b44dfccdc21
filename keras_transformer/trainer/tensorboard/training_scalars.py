"""Curves: what was measured in training and in evaluations."""

import numpy as np
import tensorflow as tf

from keras_transformer.checks import require_positive_integer
from keras_transformer.trainer.tensorboard.event_callback import TRAIN, VALIDATION, EventCallback
from keras_transformer.trainer.tensorboard.true_step import training_optimizer


class TrainingScalars(EventCallback):
    """Writes each number in the logs, and the learning rate, by true step.

    Training and evaluation write the same tags into two directories, `train` and `validation`, so
    that their curves share a chart. What callbacks before this one add to the logs of an
    evaluation, as `TranslationQuality` does, is written with them. Without a "learning_rate" in the
    logs, it is the optimizer's: that of the update to come.

    Args:
        log_dir: the directory that is given to TensorBoard.
        every: how many updates lie between two points of a training curve. With None, each call is
            a point: whoever calls has chosen.

    Example:

    >>> import keras, tempfile
    >>> model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    >>> model.compile("adam", "mse")
    >>> scalars = TrainingScalars(tempfile.mkdtemp(), every=2)
    >>> history = model.fit(np.ones((8, 1)), np.ones((8, 1)), 1, callbacks=[scalars], verbose=0)
    >>> sorted(path.name for path in scalars.log_dir.iterdir())
    ['train']
    """

    def __init__(self, log_dir, every=50):
        super().__init__(log_dir)
        self.every = None if every is None else require_positive_integer("every", every)
        self._last_step = 0

    def on_train_begin(self, logs=None):
        self._last_step = self.step

    def on_train_batch_end(self, batch, logs=None):
        # One call may stand for several updates, or, where gradients are accumulated, for none.
        step = self.step
        is_due = self.every is None or step // self.every > self._last_step // self.every
        self._last_step = step
        if is_due:
            logs = dict(logs or {})
            if "learning_rate" not in logs:
                logs["learning_rate"] = float(training_optimizer(self.model).learning_rate)
            self._write(TRAIN, logs)

    def on_test_end(self, logs=None):
        self._write(VALIDATION, logs or {})

    def _write(self, part, logs):
        # TensorBoard has numbers of 32 bits: one beyond them, such as a perplexity that has
        # exploded, is infinite there.
        with self.writing(part), np.errstate(over="ignore"):
            for name, value in logs.items():
                if np.ndim(value) == 0:
                    tf.summary.scalar(name, np.float32(value))
