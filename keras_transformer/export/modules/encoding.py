"""Text module of encoders, which turn texts into vectors and classes."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from keras_transformer._utils.errors import UserError
from keras_transformer.export.modules.base import TextLimits, TextModule, source_limits
from keras_transformer.export.signatures import TEXTS, TensorContract, signature

if TYPE_CHECKING:
    from keras_transformer.export.trained_model import TrainedModel


def _has_classes(model: Any) -> bool:
    return model.config.num_classes is not None


class EncodingModule(TextModule):
    """Turns strings into vectors with a `TextEncoder`; into classes too if it has a head.

    Args:
        trained: a `TrainedModel`.
        limits: a `TextLimits`. Default: the length that the model is made for.
        stored_dtype: see `TextModule`.
    """

    def __init__(
        self,
        trained: "TrainedModel",
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
        super().__init__(trained, source_limits(trained.model, limits), stored_dtype)

    @signature(
        "serving_default",
        "encode",
        inputs={"text": TEXTS},
        outputs={"embedding": TensorContract("float32", "BM")},
    )
    def encode(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns a vector for each text."""

        def encode(ids: tf.Tensor) -> dict[str, tf.Tensor]:
            return {"embedding": tf.cast(self.model.vectors(ids), tf.float32)}

        empty = {"embedding": tf.zeros([0, self.model.config.hidden_dim])}
        return self._for_ids(encode, text, empty)

    @signature(
        inputs={"text": TEXTS},
        outputs={
            "label": TensorContract("string", "B"),
            "probabilities": TensorContract("float32", "BC"),
        },
        requires=_has_classes,
    )
    def classify(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the most probable class of each text, and the probabilities of all classes."""

        def classify(ids: tf.Tensor) -> dict[str, tf.Tensor]:
            logits = self.model({"source": ids}, training=False)
            return {"probabilities": tf.nn.softmax(tf.cast(logits, tf.float32))}

        empty = {"probabilities": tf.zeros([0, self.model.config.num_classes])}
        found = self._for_ids(classify, text, empty)
        label = tf.gather(self.labels, tf.argmax(found["probabilities"], axis=1))
        return {"label": label, **found}

    def _for_ids(
        self,
        function: Callable[[tf.Tensor], dict[str, tf.Tensor]],
        text: tf.Tensor,
        empty: dict[str, tf.Tensor],
    ) -> dict[str, tf.Tensor]:
        """Applies a function of padded ids to the texts, in sub-batches."""
        ids = self.with_end(self.ids(self.source_tokenizer, text, self.limits.tokens - 1))
        return self.in_sub_batches(
            lambda part: function(self.padded(part["ids"])), {"ids": ids}, ids.row_lengths(), empty
        )
