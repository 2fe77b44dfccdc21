"""A text encoder, as graph functions over strings."""

import tensorflow as tf

from keras_transformer.errors import UserError
from keras_transformer.export.text_module import STRINGS, TextModule, with_end


class EncodingModule(TextModule):
    """Turns strings into vectors with a `TextEncoder`; with a head, into classes as well.

    Args:
        trained, limits, stored_dtype: see `TextModule`.
    """

    def __init__(self, trained, limits, stored_dtype=None):
        if trained.model.config.pooling == "none":
            raise UserError("A TextEncoder with pooling='none' has no vector for a text to export.")
        count = trained.model.config.num_classes
        if count is not None:
            if trained.labels and len(trained.labels) != count:
                raise UserError(
                    f"The model tells {count} classes apart, but there are {len(trained.labels)} "
                    "labels."
                )
            names = trained.labels or tuple(str(number) for number in range(count))
            self.labels = tf.constant(names)
        super().__init__(trained, limits, stored_dtype)

    def offers(self):
        texts = {"text": STRINGS}
        offered = {"serving_default": (self.encode, texts), "encode": (self.encode, texts)}
        if self.model.config.num_classes is not None:
            offered["classify"] = (self.classify, texts)
        return offered

    def encode(self, text):
        """A vector `[B, M]` for each of `text` `[B]`."""

        def encode(part):
            return {"embedding": tf.cast(self.model.vectors(part["ids"].to_tensor()), tf.float32)}

        return self._by_length(encode, text, {"embedding": tf.zeros([0, self.model.config.width])})

    def classify(self, text):
        """The label `[B]` of each of `text` `[B]`, and the probabilities `[B, C]` of all."""

        def classify(part):
            logits = self.model({"source": part["ids"].to_tensor()}, training=False)
            return {"probabilities": tf.nn.softmax(tf.cast(logits, tf.float32))}

        empty = {"probabilities": tf.zeros([0, self.model.config.num_classes])}
        found = self._by_length(classify, text, empty)
        return {**found, "label": tf.gather(self.labels, tf.argmax(found["probabilities"], axis=1))}

    def _by_length(self, function, text, empty):
        ids = with_end(self.ids(self.source_tokenizer, text, self.limits.tokens - 1))
        return self.by_length(function, {"ids": ids}, ids.row_lengths(), empty)
