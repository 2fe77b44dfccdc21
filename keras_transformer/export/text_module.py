"""What the modules that write text share: searching, sampling, and rows in and out."""

import contextlib
import dataclasses
import functools
import types

import keras
import tensorflow as tf

from keras_transformer._utils.checks import require_positive_integer
from keras_transformer.decoding import BeamSearch, Hypotheses, SamplingSearch
from keras_transformer.text import END_ID, PADDING_ID

#: No piece is longer than that: SentencePiece's have 16 characters at most.
BYTES_OF_A_TOKEN = 64


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextLimits:
    """Bounds that keep time and memory of a request bounded, whatever the strings.

    Attributes:
        tokens: tokens of a text at most; what comes after them is not seen. (Nor is what comes
            after 64 times as many bytes, so that a huge string is not even tokenized.)
        tokens_at_once: a batch is sorted by length and cut into sub-batches of so many tokens,
            padding included.
        rows_at_once: and of so many rows.
    """

    tokens: int
    tokens_at_once: int = 4096
    rows_at_once: int = 128

    def __post_init__(self):
        for field in dataclasses.fields(self):
            require_positive_integer(field.name, getattr(self, field.name))

    def cut(self, texts, keep="start", bytes_of_a_token=BYTES_OF_A_TOKEN):
        """Texts `[B]` of which only what can be seen is left, at the "start" or the "end".

        Args:
            texts: strings `[B]`.
            keep: which end of them is seen.
            bytes_of_a_token: no token can stand for more of them.
        """
        size = self.tokens * bytes_of_a_token
        first = tf.zeros_like(texts, tf.int32)
        if keep == "end":
            first = tf.maximum(tf.strings.length(texts) - size, 0)
        return tf.strings.substr(texts, first, tf.fill(tf.shape(first), size))


def in_sub_batches(function, columns, lengths, empty, limits):
    """Applies `function` to parts of a batch, rows of like length together; a graph op.

    However large the batch, memory is bounded by the largest part; and since rows are sorted by
    length first, there is little padding.

    Args:
        function: takes a dictionary like `columns` of the rows of one part, and returns a
            dictionary like `empty` with as many rows.
        columns: dictionary of tensors or ragged tensors with B rows.
        lengths: int `[B]`, the tokens of each row.
        empty: what `function` gives for no rows: a dictionary of tensors with 0 rows.
        limits: a `TextLimits`.

    Returns:
        a dictionary like `empty`, with the rows in the order of the batch.
    """
    lengths = tf.cast(lengths, tf.int32)
    order = tf.argsort(lengths, direction="DESCENDING", stable=True)
    batch_size = tf.shape(order)[0]

    def goes_on(start, results):
        return start < batch_size

    def advance(start, results):
        longest = tf.maximum(lengths[order[start]], 1)
        count = tf.clip_by_value(limits.tokens_at_once // longest, 1, limits.rows_at_once)
        rows = order[start : start + count]
        part = function({name: tf.gather(column, rows) for name, column in columns.items()})
        grown = {name: tf.concat([results[name], part[name]], axis=0) for name in results}
        return start + count, grown

    shapes = {name: tf.TensorShape([None, *value.shape[1:]]) for name, value in empty.items()}
    _, results = tf.while_loop(
        goes_on,
        advance,
        (tf.constant(0), empty),
        shape_invariants=(tf.TensorShape([]), shapes),
        parallel_iterations=1,
    )
    places = tf.math.invert_permutation(order)
    return {name: tf.gather(value, places) for name, value in results.items()}


#: Weights of so many bytes at most can be constants. All but the table of a narrow model are; of a
#: wide one its biases are, so that a graph, and every shape that XLA compiles it for, stays small.
LARGEST_CONSTANT = 2**18


def stored_weights(model, stored, as_constants=False):
    """A context in which the layers of a model read other variables than their own.

    Args:
        model: a Keras model.
        stored: a `tf.Variable` for each of `model.weights`, of any floating-point type.
        as_constants: whether small weights are constants of the graph that is traced. XLA looks at
            every variable before each call, which takes longer than a short sentence's encoder.
    """
    weights = zip(model.weights, stored, strict=True)
    return keras.StatelessScope(
        state_mapping=[
            (weight, tf.cast(_constant(value) if as_constants else value, weight.dtype))
            for weight, value in weights
        ]
    )


def _constant(variable):
    """The present value of a variable if it is small, else the variable."""
    if variable.dtype.size * variable.shape.num_elements() > LARGEST_CONSTANT:
        return variable
    with tf.init_scope():  # out of the graph, where there is a value
        value = variable.numpy()
    return tf.constant(value)


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


#: For XLA, which compiles for each shape: lengths are padded to a multiple, rows to a power of 2.
LENGTH_MULTIPLE = 16


class TextGenerator(TextModule):
    """Base of the modules whose model goes on writing: translation and continuation.

    Args:
        trained, limits, stored_dtype: see `TextModule`.
        search: how `serving_default` and `n_best` search; `sample` takes over its limits and
            controls.
        xla: whether the searches are compiled by XLA.
    """

    #: What the search calls the ids of the texts: "source" or "prefix".
    input_name = None
    #: What fills up the model's inputs where that is not 0, by name.
    paddings = types.MappingProxyType({})

    def __init__(self, trained, search, limits, xla=False, stored_dtype=None):
        self.xla = xla
        #: Tokens of a text that is scored, at most: those that the model has been made for.
        self.scored_tokens = trained.model.config.max_length
        if trained.model.position_limit is not None:
            self.scored_tokens = min(self.scored_tokens, trained.model.position_limit)
        self.best = search
        self.several = search
        if isinstance(search, BeamSearch):
            self.best = dataclasses.replace(search, n_best=1)
            self.several = dataclasses.replace(search, n_best=search.beams)
        shared = ("length_penalty", "lengths", "controls", "with_alignment")
        self.sampling = SamplingSearch(**{name: getattr(search, name) for name in shared})
        super().__init__(trained, limits, stored_dtype)

    def offers(self):
        pairs = {"source": STRINGS, "target": STRINGS}
        scalar = {
            "temperature": tf.TensorSpec([], tf.float32),
            "seed": tf.TensorSpec([], tf.int32),
        }
        return {
            "serving_default": (self.generate, {"text": STRINGS}),
            "n_best": (self.generate_several, {"text": STRINGS}),
            "sample": (self.draw, {"text": STRINGS, **scalar}),
            "score": (self.score, pairs),
            "attention": (self.attention, pairs),
            "encode": (self.encode, {"text": STRINGS}),
        }

    def generate(self, text):
        """The best text for each of `text` `[B]`, and its score."""
        found = self._generate(text, self._finder(self.best), width=1)
        return {name: value[:, 0] for name, value in found.items()}

    def generate_several(self, text):
        """The N best texts for each of `text` `[B]`, and their scores."""
        width = self.several.n_best if isinstance(self.several, BeamSearch) else 1
        return self._generate(text, self._finder(self.several), width)

    def draw(self, text, temperature, seed):
        """A text drawn at random for each of `text` `[B]`, and its score."""
        is_right = tf.math.is_finite(temperature) & (temperature >= 0)
        message = "`temperature` must be a finite number and must not be negative."
        with tf.control_dependencies([tf.debugging.assert_equal(is_right, True, message)]):
            temperature = tf.identity(temperature)
        finder = self._finder(self.sampling, temperature=temperature, seed=seed)
        found = self._generate(text, finder, width=1)
        return {name: value[:, 0] for name, value in found.items()}

    def score(self, source, target):
        """The log-probability of each of `target` `[B]`, and how many tokens it has."""
        raise NotImplementedError

    def attention(self, source, target):
        """What each token attends to: tokens `[B, S]` and `[B, T]`, weights `[B, T, S]`."""
        raise NotImplementedError

    def encode(self, text):
        """A vector `[B, M]` for each of `text` `[B]`."""
        raise NotImplementedError

    def read(self, texts):
        """What a sub-batch needs to know of its rows, by name; the ids as `input_name`."""
        raise NotImplementedError

    def lengths(self, columns):
        """How much room each row of what `read` gave takes up in a sub-batch, `[B]`."""
        return columns[self.input_name].row_lengths()

    def model_inputs(self, part):
        """What the model reads of a part of what `read` gave: padded tensors `[b, ·]` by name."""
        return {self.input_name: part[self.input_name].to_tensor()}

    def texts_of(self, found, part):
        """The texts `[b, N]` of hypotheses, for the part of the batch that they were found for."""
        by_row = tf.reshape(found.ids, [-1, tf.shape(found.ids)[2]])
        return tf.reshape(self.target_tokenizer.detokenize(by_row), tf.shape(found.score))

    def tokens(self, tokenizer, ids):
        """What a person reads for padded ids `[b, T]`; nothing for padding."""
        return tf.where(ids == PADDING_ID, "", tokenizer.tokens(ids))

    def no_attention(self, rows, columns):
        """What `attention` gives for no texts, of a width that the graph does not know."""
        return {
            "source_tokens": tf.reshape(tf.zeros([0], tf.string), tf.stack([0, columns])),
            "target_tokens": tf.reshape(tf.zeros([0], tf.string), tf.stack([0, rows])),
            "weights": tf.reshape(tf.zeros([0]), tf.stack([0, rows, columns])),
        }

    def answers(self, found, part):
        """Texts and scores `[b, N]` of hypotheses."""
        return {"text": self.texts_of(found, part), "score": found.score}

    def _generate(self, texts, find, width):
        columns = {**self.read(texts), "number": tf.range(tf.shape(texts)[0])}

        def write(part):
            return self.answers(find(self.model_inputs(part), part["number"]), part)

        empty = {"text": tf.zeros([0, width], tf.string), "score": tf.zeros([0, width])}
        return self.by_length(write, columns, self.lengths(columns), empty)

    def _finder(self, search, **drawing):
        """A function from `model_inputs` and the numbers of their rows to `Hypotheses`."""

        def find(inputs, numbers, **drawing):
            given = {self.input_name: inputs if len(inputs) > 1 else inputs[self.input_name]}
            if not drawing:
                return search(self.model, **given)
            drawn = dataclasses.replace(search, temperature=drawing["temperature"])
            return drawn(self.model, **given, seed=drawing["seed"], rows=numbers)

        if not self.xla:
            return lambda inputs, numbers: find(inputs, numbers, **drawing)

        def find_compiled(inputs, numbers, **drawing):
            with self.weights(as_constants=True):
                return find(inputs, numbers, **drawing)

        compiled = tf.function(find_compiled, jit_compile=True, autograph=False)

        def find_padded(inputs, numbers):
            count = tf.shape(numbers)[0]
            rows = padded_rows(count)
            inputs = {name: self._padded_input(name, value) for name, value in inputs.items()}
            inputs = {name: tf.gather(value, rows) for name, value in inputs.items()}
            found = compiled(inputs, tf.gather(numbers, rows), **drawing)
            real = {
                name: value[:count] for name, value in found._asdict().items() if value is not None
            }
            return Hypotheses(**real)

        return find_padded

    def _padded_input(self, name, value):
        """An input `[b, ·]` of the model, as wide as XLA compiles it for.

        That is never more than the model may get: there may be an end to what it can read.
        """
        width = tf.shape(value)[1]
        room = tf.clip_by_value(self.limits.tokens - width, 0, -width % LENGTH_MULTIPLE)
        return tf.pad(value, [[0, 0], [0, room]], constant_values=self.paddings.get(name, 0))


def padded_rows(count):
    """The numbers of `count` rows, the last repeated until there is a power of 2 of them.

    >>> padded_rows(tf.constant(5)).numpy()
    array([0, 1, 2, 3, 4, 4, 4, 4], dtype=int32)
    """
    powers = tf.constant([2**exponent for exponent in range(16)])
    size = tf.reduce_min(tf.where(powers >= count, powers, powers[-1]))
    return tf.minimum(tf.range(size), count - 1)
