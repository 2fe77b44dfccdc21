"""What all callbacks that write events share."""

import pathlib

import keras

from keras_transformer.trainer.tensorboard.true_step import true_step
from keras_transformer.trainer.tensorboard.writers import event_writer, flush_all

#: The directories inside a log directory, each a run with a colour of its own in TensorBoard.
TRAIN, VALIDATION = "train", "validation"


class EventCallback(keras.callbacks.Callback):
    """Base of the callbacks that write events by true step.

    Args:
        log_dir: the directory that is given to TensorBoard.
    """

    def __init__(self, log_dir):
        super().__init__()
        self.log_dir = pathlib.Path(log_dir)

    @property
    def step(self):
        """The number of updates made."""
        return true_step(self.model)

    def writing(self, part):
        """A context in which `tf.summary` writes at this step into a directory of `log_dir`."""
        return event_writer(self.log_dir / part).as_default(self.step)

    def on_train_end(self, logs=None):
        flush_all()
