"""What the modules that take strings share: weights, limits, and the way from strings to ids."""

import contextlib
import functools

import tensorflow as tf

from keras_transformer.export.stored_weights import stored_weights
from keras_transformer.export.sub_batches import in_sub_batches
from keras_transformer.text import END_ID

STRINGS = tf.TensorSpec([None], tf.string)


class TextModule(tf.Module):
    """A model with its tokenizers, as graph functions from strings to strings.

    The base of one class for each kind of model. `functions` are the SavedModel's signatures by
    name, and can be called as they are.

    Args:
        trained: a `TrainedModel`.
        limits: a `TextLimits`.
        stored_dtype: the type in which the weights are stored by an export, with variables of this
            module's own; None runs on the model's.
    """

    def __init__(self, trained, limits, stored_dtype=None):
        super().__init__()
        # Not tracked: a SavedModel that tracks Keras' own objects loads in Python and nowhere else.
        object.__setattr__(self, "model", trained.model)
        self.source_tokenizer = trained.tokenizers.source
        self.target_tokenizer = trained.tokenizers.target
        self.limits = limits
        self.stored = None
        if stored_dtype is not None:
            self.stored = [
                tf.Variable(tf.cast(weight.value, stored_dtype), trainable=False)
                for weight in trained.model.weights
            ]
        functions = {
            name: GraphFunction(self, method, inputs)
            for name, (method, inputs) in self.offers().items()
        }
        object.__setattr__(self, "functions", functions)  # saved as signatures alone

    def offers(self):
        """The signatures by name: a method and its inputs' `tf.TensorSpec`s by name, each."""
        raise NotImplementedError

    def weights(self, as_constants=False):
        """A context in which the model's layers read the stored weights, see `stored_weights`."""
        if self.stored is None:
            return contextlib.nullcontext()
        return stored_weights(self.model, self.stored, as_constants)

    def ids(self, tokenizer, texts, limit):
        """The ids of texts, `limit` at most in each row, without END: a ragged `[B, None]`."""
        return tokenizer.tokenize(self.limits.cut(texts))[:, :limit]

    def by_length(self, function, columns, lengths, empty):
        """See `in_sub_batches`."""
        return in_sub_batches(function, columns, lengths, empty, self.limits)


class GraphFunction:
    """A graph function of named tensors, traced when it is first needed.

    Args:
        module: the `TextModule` whose weights it uses.
        method: of the module: from named tensors to a dictionary of tensors.
        inputs: the `tf.TensorSpec` of each, by name.
    """

    def __init__(self, module, method, inputs):
        self.module = module
        self.method = method
        self.inputs = inputs

    @functools.cached_property
    def concrete(self):
        """The function as TensorFlow saves it."""

        def call(**tensors):
            with self.module.weights():
                return self.method(**tensors)

        specs = {name: tf.TensorSpec(s.shape, s.dtype, name) for name, s in self.inputs.items()}
        return tf.function(call, autograph=False).get_concrete_function(**specs)

    def __call__(self, **tensors):
        return self.concrete(**tensors)


def is_blank(texts):
    """Whether each text holds nothing but white space, boolean `[B]`."""
    return tf.strings.regex_full_match(texts, r"[\s\pZ\x0b\x1c-\x1f\x{85}]*")


def with_end(ids):
    """Ragged ids with END after each row."""
    ends = tf.fill([ids.nrows(), 1], tf.constant(END_ID, ids.dtype))
    return tf.concat([ids, ends], axis=1)


def token_log_probabilities(logits, labels):
    """The log-probability of each of `labels` `[B, T]`, of logits `[B, T, V]`."""
    logits = tf.cast(logits, tf.float32)
    chosen = tf.gather(logits, labels, axis=2, batch_dims=2)
    return chosen - tf.reduce_logsumexp(logits, axis=2)


def mean_over(states, mask):
    """The mean `[B, M]` of states `[B, T, M]` where `mask` `[B, T]` is True."""
    weights = tf.cast(mask, tf.float32)[..., None]
    total = tf.reduce_sum(tf.cast(states, tf.float32) * weights, axis=1)
    return total / tf.maximum(tf.reduce_sum(weights, axis=1), 1.0)


def padded_to(values, rows, columns=None):
    """`[B, t]` or `[B, t, s]` padded with zeros or "" to `rows` and `columns` after the batch."""
    paddings = [[0, 0], [0, rows - tf.shape(values)[1]]]
    if columns is not None:
        paddings.append([0, columns - tf.shape(values)[2]])
    return tf.pad(values, paddings, constant_values="" if values.dtype == tf.string else 0)
