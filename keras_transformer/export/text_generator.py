"""What the modules that write text share: searching, sampling, and rows in and out."""

import dataclasses
import types

import tensorflow as tf

from keras_transformer.decoding import BeamSearch, Hypotheses, SamplingSearch
from keras_transformer.export.text_module import STRINGS, TextModule
from keras_transformer.text import PADDING_ID

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
