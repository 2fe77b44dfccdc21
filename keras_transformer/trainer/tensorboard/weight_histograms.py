"""How the numbers in each weight are spread."""

import tensorflow as tf

from keras_transformer.trainer.tensorboard.event_callback import TRAIN, EventCallback


class WeightHistograms(EventCallback):
    """Writes a histogram of each trainable weight at each evaluation.

    To see a layer that does not learn, or one that grows without end. On request only: it reads all
    weights each time, and a large model has hundreds of them.

    Args:
        log_dir: the directory that is given to TensorBoard.
    """

    def on_test_end(self, logs=None):
        with self.writing(TRAIN):
            for weight in self.model.trainable_variables:
                tf.summary.histogram(f"weights/{weight.path}", tf.cast(weight.value, tf.float32))
