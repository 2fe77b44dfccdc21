"""Text module of encoders, which turn texts into vectors and classes."""

from collections.abc import Callable

import tensorflow as tf

from keras_transformer._utils.errors import UserError
from keras_transformer.export.modules.base import Tensors, TextLimits, TextModule, source_limits
from keras_transformer.export.signatures import TEXTS, TensorContract, signature
from keras_transformer.export.trained_model import TrainedModel


class EncodingModule(TextModule):
    """Turns strings into vectors with a `TextEncoder`; into classes too if it has a head.

    Args:
        trained: a `TrainedModel`.
        limits: a `TextLimits`. Default: the length that the model is made for.
        stored_dtype: see `TextModule`.
    """

    def __init__(
        self,
        trained: TrainedModel,
        limits: TextLimits | None = None,
        stored_dtype: str | None = None,
    ) -> None:
        config = trained.model.config
        if config.pooling == "none":
            raise UserError("A TextEncoder with pooling='none' has no vector for a text to export.")
        if config.num_classes is not None:
            count = config.num_classes
            if trained.labels and len(trained.labels) != count:
                raise UserError(
                    f"The model has {count} classes, but there are {len(trained.labels)} labels."
                )
            self.labels: tf.Tensor = tf.constant(trained.labels or tuple(map(str, range(count))))
        super().__init__(trained, stored_dtype)
        self.limits: TextLimits = source_limits(trained.model, limits)

    @signature(
        "serving_default",
        "encode",
        inputs={"text": TEXTS},
        outputs={"embedding": TensorContract("float32", "BM")},
    )
    def encode(self, text: tf.Tensor) -> Tensors:
        """Returns a vector for each text."""
        return {"embedding": self._floats(text, self.model.vectors, self.model.config.hidden_dim)}

    @signature(
        inputs={"text": TEXTS},
        outputs={
            "label": TensorContract("string", "B"),
            "probabilities": TensorContract("float32", "BC"),
        },
        requires=lambda model: model.config.num_classes is not None,
    )
    def classify(self, text: tf.Tensor) -> Tensors:
        """Returns the most probable class of each text, and the probabilities of all classes."""

        def classify(ids: tf.Tensor) -> tf.Tensor:
            logits = self.model({"source": ids}, training=False)
            return tf.nn.softmax(tf.cast(logits, tf.float32))

        probabilities = self._floats(text, classify, self.model.config.num_classes)
        label = tf.gather(self.labels, tf.argmax(probabilities, axis=1))
        return {"label": label, "probabilities": probabilities}

    def _floats(
        self, text: tf.Tensor, function: Callable[[tf.Tensor], tf.Tensor], size: int
    ) -> tf.Tensor:
        """Returns what a function of padded ids `[b, T]` gives the texts, float32 `[B, size]`."""
        ids = self.source_ids(self.limits.cut(text))
        found = self.in_sub_batches(
            lambda part: {"floats": tf.cast(function(self.padded(part["ids"])), tf.float32)},
            {"ids": ids},
            ids.row_lengths(),
            {"floats": tf.zeros([0, size])},
        )
        return found["floats"]
