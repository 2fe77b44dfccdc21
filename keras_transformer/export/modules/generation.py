"""Base of the text modules that write text: their signatures, and search in sub-batches."""

import abc
import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import keras
import tensorflow as tf

from keras_transformer._utils.errors import UserError
from keras_transformer.decoding import Hypotheses, SamplingSearch, Search, SearchSettings
from keras_transformer.export.modules.base import TextLimits, TextModule
from keras_transformer.export.signatures import ANSWERS, TEXTS, TensorContract, signature

if TYPE_CHECKING:
    from keras_transformer.export.trained_model import TrainedModel
    from keras_transformer.text import Tokenizer

#: XLA compiles for each shape: lengths are padded to a multiple of this, rows to a power of 2.
LENGTH_MULTIPLE = 16

_TEXT_AND_SCORE = {"text": TensorContract("string", "B"), "score": TensorContract("float32", "B")}
_SOURCE_AND_TARGET = {"source": TEXTS, "target": ANSWERS}


class GenerationModule(TextModule, abc.ABC):
    """Base of the text modules whose model writes text: translation and continuation.

    A subclass reads strings (`read`), gives the model what it has read (`model_inputs`) and turns
    hypotheses into strings (`answers`).

    Args:
        trained: a `TrainedModel`.
        search: search of `serving_default` and `n_best`: a deterministic `Search` such as
            `BeamSearch`, or `SearchSettings`. Default: that of the recipe. `sample` has the same
            length limits and constraints, and the `top_k` and `top_p` of `SearchSettings`.
        limits: a `TextLimits`. Default: what the model is made for.
        xla: whether XLA compiles the searches. Default False.
        stored_dtype: see `TextModule`.

    Attributes:
        searches: the search of `serving_default`, `n_best` and `sample`, by the signature's name.
    """

    searches: dict[str, Search]
    #: Name of the search's argument for the ids of the texts.
    input_name: ClassVar[Literal["source", "prefix"]]

    def __init__(
        self,
        trained: "TrainedModel",
        search: Search | SearchSettings | None = None,
        limits: TextLimits | None = None,
        xla: bool = False,
        stored_dtype: str | None = None,
    ) -> None:
        model = trained.model
        if search is None:
            search = trained.search_settings()
        if isinstance(search, SearchSettings):
            defaults = {
                "longest": self.default_length(model),
                "has_source": self.input_name == "source",
                "special_ids": trained.tokenizers.special_ids,
            }
            sampling = search.make_sampling(**defaults)
            search = _require_deterministic(search.make(**defaults))
        else:
            search = _require_deterministic(search)
            shared = {each.name: getattr(search, each.name) for each in dataclasses.fields(Search)}
            sampling = SamplingSearch(**shared)
        self.check_search(model, search)
        self.xla = xla
        # Texts that are scored may be as long as the model is made for.
        self.scored_tokens: int = model.config.max_length
        if model.position_limit is not None:
            self.scored_tokens = min(self.scored_tokens, model.position_limit)
        searches = {
            "serving_default": search.with_n_best(1),
            "n_best": search.with_n_best(search.num_hypotheses),
            "sample": sampling,
        }
        # Not tracked: searches hold no variables.
        object.__setattr__(self, "searches", searches)
        super().__init__(trained, self.choose_limits(model, search, limits), stored_dtype)

    # Choices that depend on the model.

    @staticmethod
    @abc.abstractmethod
    def default_length(model: keras.Model) -> int:
        """Returns the default maximum number of tokens that a search adds."""

    @staticmethod
    @abc.abstractmethod
    def choose_limits(model: keras.Model, search: Search, limits: TextLimits | None) -> TextLimits:
        """Returns the limits of texts: those given, if they fit the model, or the default."""

    @staticmethod
    def check_search(model: keras.Model, search: Search) -> None:
        """Raises a `UserError` if the model cannot be searched like that."""

    # Signatures.

    @signature(inputs={"text": TEXTS}, outputs=_TEXT_AND_SCORE)
    def serving_default(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the best text for each text, and its score."""
        return _first(self._generate("serving_default", text))

    @signature(
        inputs={"text": TEXTS},
        outputs={"text": TensorContract("string", "BN"), "score": TensorContract("float32", "BN")},
    )
    def n_best(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the N best texts for each text, best first, and their scores."""
        return self._generate("n_best", text)

    @signature(
        inputs={
            "text": TEXTS,
            "temperature": TensorContract("float32", "", example=1.0),
            "seed": TensorContract("int32", "", example=1),
        },
        outputs=_TEXT_AND_SCORE,
    )
    def sample(
        self, text: tf.Tensor, temperature: tf.Tensor, seed: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Returns a text drawn at random for each text, and its score."""
        is_right = tf.math.is_finite(temperature) & (temperature >= 0)
        message = "`temperature` must be a finite number of at least 0."
        with tf.control_dependencies([tf.debugging.assert_equal(is_right, True, message)]):
            temperature = tf.identity(temperature)
        return _first(self._generate("sample", text, temperature=temperature, seed=seed))

    @signature(
        inputs=_SOURCE_AND_TARGET,
        outputs={
            "log_probability": TensorContract("float32", "B"),
            "tokens": TensorContract("int32", "B"),
        },
    )
    @abc.abstractmethod
    def score(self, source: tf.Tensor, target: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the log-probability of each target, and its number of tokens."""

    @signature(
        inputs=_SOURCE_AND_TARGET,
        outputs={
            "source_tokens": TensorContract("string", "BS"),
            "target_tokens": TensorContract("string", "BT"),
            "weights": TensorContract("float32", "BTS"),
        },
    )
    @abc.abstractmethod
    def attention(self, source: tf.Tensor, target: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the attention of each target token to the source tokens, and the tokens."""

    @signature(inputs={"text": TEXTS}, outputs={"embedding": TensorContract("float32", "BM")})
    @abc.abstractmethod
    def encode(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns a vector for each text."""

    # From strings to strings.

    @abc.abstractmethod
    def read(self, texts: tf.Tensor) -> dict[str, Any]:
        """Returns columns of B rows by name, among them the ragged ids as `input_name`."""

    def lengths(self, columns: dict[str, Any]) -> tf.Tensor:
        """Returns the number of tokens that each row of `read`'s columns occupies, `[B]`."""
        return columns[self.input_name].row_lengths()

    def model_inputs(self, part: dict[str, Any]) -> dict[str, tf.Tensor]:
        """Returns the model's padded inputs `[b, ·]` for a sub-batch of `read`'s columns."""
        return {self.input_name: self.padded(part[self.input_name])}

    def answers(self, found: Hypotheses, part: dict[str, Any]) -> dict[str, tf.Tensor]:
        """Returns texts and scores `[b, N]` of the hypotheses for a sub-batch."""
        by_row = tf.reshape(found.ids, [-1, tf.shape(found.ids)[2]])
        texts = tf.reshape(self.target_tokenizer.detokenize(by_row), tf.shape(found.score))
        return {"text": texts, "score": found.score}

    def _generate(self, name: str, texts: tf.Tensor, **sampling: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns texts and scores `[B, N]`, found by the search of the signature `name`."""
        search = self.searches[name]
        find = self._find_compiled if self.xla else self._find
        columns = {**self.read(texts), "row": tf.range(tf.shape(texts)[0])}

        def write(part: dict[str, Any]) -> dict[str, tf.Tensor]:
            found = find(search, self.model_inputs(part), part["row"], **sampling)
            return self.answers(found, part)

        empty = {
            "text": tf.zeros([0, search.n_best], tf.string),
            "score": tf.zeros([0, search.n_best]),
        }
        return self.in_sub_batches(write, columns, self.lengths(columns), empty)

    def _find(
        self, search: Any, inputs: dict[str, tf.Tensor], rows: tf.Tensor, **sampling: tf.Tensor
    ) -> Hypotheses:
        """Searches for a sub-batch, whose rows have the numbers `rows` in the batch."""
        given = {self.input_name: inputs if len(inputs) > 1 else inputs[self.input_name]}
        if sampling:
            search = dataclasses.replace(search, temperature=sampling["temperature"])
            given |= {"seed": sampling["seed"], "rows": rows}
        return search(self.model, **given)

    def _find_compiled(
        self, search: Any, inputs: dict[str, tf.Tensor], rows: tf.Tensor, **sampling: tf.Tensor
    ) -> Hypotheses:
        """Searches as `_find` does, compiled by XLA; inputs are padded to a few shapes."""

        def find(
            inputs: dict[str, tf.Tensor], rows: tf.Tensor, **sampling: tf.Tensor
        ) -> Hypotheses:
            with self.weights(as_constants=True):
                return self._find(search, inputs, rows, **sampling)

        count = tf.shape(rows)[0]
        padded = padded_rows(count)
        inputs = {
            name: tf.gather(self._padded_input(name, value), padded)
            for name, value in inputs.items()
        }
        compiled = tf.function(find, jit_compile=True, autograph=False)
        found = compiled(inputs, tf.gather(rows, padded), **sampling)
        parts = found._asdict().items()
        return Hypotheses(**{name: value[:count] for name, value in parts if value is not None})

    def _padded_input(self, name: str, value: tf.Tensor) -> tf.Tensor:
        """Returns an input `[b, ·]` padded to a multiple of `LENGTH_MULTIPLE`.

        It is never padded beyond the limit of tokens: the model's positions may end there.
        """
        length: Any = tf.shape(value)[1]
        room: Any = tf.clip_by_value(self.limits.tokens - length, 0, -length % LENGTH_MULTIPLE)
        return tf.pad(value, [[0, 0], [0, room]], constant_values=self.padding_of(name))

    def padding_of(self, name: str) -> int:
        """Returns what fills the rows of one of the model's inputs."""
        return self.special_ids.padding if name == self.input_name else 0

    # Parts of the signatures `score` and `attention`.

    def tokens(self, tokenizer: "Tokenizer", ids: tf.RaggedTensor) -> tf.Tensor:
        """Returns the tokens of ragged ids as a person reads them, padded with ""."""
        return tokenizer.tokens(ids).to_tensor("")

    def no_attention(self, rows: tf.Tensor, columns: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the result of `attention` for no texts, whose other axes only the graph knows."""
        return {
            "source_tokens": tf.reshape(tf.zeros([0], tf.string), tf.stack([0, columns])),
            "target_tokens": tf.reshape(tf.zeros([0], tf.string), tf.stack([0, rows])),
            "weights": tf.reshape(tf.zeros([0]), tf.stack([0, rows, columns])),
        }


def no_scores() -> dict[str, tf.Tensor]:
    """Returns the result of `score` for no texts."""
    return {"log_probability": tf.zeros([0]), "tokens": tf.zeros([0], tf.int32)}


def summed_scores(of_tokens: tf.Tensor, is_scored: tf.Tensor) -> dict[str, tf.Tensor]:
    """Returns the result of `score` from log-probabilities `[b, T]` and a mask `[b, T]`."""
    return {
        "log_probability": tf.reduce_sum(tf.where(is_scored, of_tokens, 0.0), axis=1),
        "tokens": tf.reduce_sum(tf.cast(is_scored, tf.int32), axis=1),
    }


def longest_of(ids: tf.RaggedTensor) -> tf.Tensor:
    """Returns the length of the longest row, 0 if there is none."""
    return tf.maximum(tf.cast(tf.reduce_max(ids.row_lengths()), tf.int32), 0)


def padded_rows(count: tf.Tensor) -> tf.Tensor:
    """Returns the numbers of `count` rows, the last repeated until their number is a power of 2.

    >>> padded_rows(tf.constant(5)).numpy()
    array([0, 1, 2, 3, 4, 4, 4, 4], dtype=int32)
    """
    powers = tf.constant([2**exponent for exponent in range(16)])
    size = tf.reduce_min(tf.where(powers >= count, powers, powers[-1]))
    return tf.minimum(tf.range(size), count - 1)


def _first(answers: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    return {name: value[:, 0] for name, value in answers.items()}


def _require_deterministic(search: Any) -> Search:
    if not isinstance(search, Search) or search.call_inputs:
        raise UserError(
            f"An export searches deterministically, such as by BeamSearch or GreedySearch; got "
            f"{search!r}.",
            fix="To sample, call the signature `sample`.",
        )
    return search
