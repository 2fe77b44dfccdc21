"""Base of the text modules that write text: their signatures, and search in sub-batches."""

import abc
import dataclasses
from typing import Any, ClassVar, Literal

import tensorflow as tf

from keras_transformer._utils.errors import UserError
from keras_transformer.decoding import Hypotheses, SamplingSearch, Search, SearchSettings
from keras_transformer.decoding.search_settings import SAMPLING_FIX
from keras_transformer.export.modules.base import Tensors, TextLimits, TextModule
from keras_transformer.export.modules.streaming import write_tokens
from keras_transformer.export.signatures import ANSWERS, TEXTS, TensorContract, signature
from keras_transformer.export.trained_model import TrainedModel

#: XLA compiles for each shape: lengths are padded to a multiple of this, rows to a power of 2.
LENGTH_MULTIPLE = 16

_TEXT_AND_SCORE = {"text": TensorContract("string", "B"), "score": TensorContract("float32", "B")}
_SOURCE_AND_TARGET = {"source": TEXTS, "target": ANSWERS}


class GenerationModule(TextModule, abc.ABC):
    """Base of the text modules whose model writes text: translation and continuation.

    A subclass reads strings (`read`, `pairs`), gives the model what it has read (`model_inputs`)
    and turns hypotheses into strings (`answers`).

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
        trained: TrainedModel,
        search: Search | SearchSettings | None = None,
        limits: TextLimits | None = None,
        xla: bool = False,
        stored_dtype: str | None = None,
    ) -> None:
        super().__init__(trained, stored_dtype)
        has_source = self.input_name == "source"
        if search is None:
            search = trained.search_settings()
        if isinstance(search, SearchSettings):
            defaults = {
                "longest": self.default_length(),
                "has_source": has_source,
                "special_ids": self.special_ids,
            }
            search, sampling = search.make_both(**defaults)
        else:
            search = _require_deterministic(search)
            shared = {each.name: getattr(search, each.name) for each in dataclasses.fields(Search)}
            sampling = SamplingSearch(**shared)
        if search.needs_attention and not has_source:
            raise UserError(
                f"A {type(trained.model).__name__} has no source, so there is no coverage of one.",
                fix="Leave out the `coverage_penalty`.",
            )
        self.limits: TextLimits = self.choose_limits(search, limits)
        self.xla = xla
        # Texts that are scored may be as long as the model is made for.
        longest, positions = trained.model.config.max_length, trained.model.position_limit
        self.scored_tokens: int = longest if positions is None else min(longest, positions)
        searches = {
            "serving_default": search.with_n_best(1),
            "n_best": search.with_n_best(search.num_hypotheses),
            "sample": sampling,
        }
        # Words of the source replace unknown ones.
        self.copies_unknowns: bool = has_source and self.target_tokenizer.has_unknowns
        if self.copies_unknowns:
            searches = {
                name: dataclasses.replace(each, with_alignment=True)
                for name, each in searches.items()
            }
        # Not tracked: searches hold no variables.
        object.__setattr__(self, "searches", searches)

    @abc.abstractmethod
    def default_length(self) -> int:
        """Returns the default maximum number of tokens that a search adds."""

    @abc.abstractmethod
    def choose_limits(self, search: Search, limits: TextLimits | None) -> TextLimits:
        """Returns the limits of texts: those given, if they fit the model, or the default."""

    @signature(inputs={"text": TEXTS}, outputs=_TEXT_AND_SCORE)
    def serving_default(self, text: tf.Tensor) -> Tensors:
        """Returns the best text for each text, and its score."""
        return _first(self._generate("serving_default", text))

    @signature(
        inputs={"text": TEXTS},
        outputs={"text": TensorContract("string", "BN"), "score": TensorContract("float32", "BN")},
    )
    def n_best(self, text: tf.Tensor) -> Tensors:
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
    def sample(self, text: tf.Tensor, temperature: tf.Tensor, seed: tf.Tensor) -> Tensors:
        """Returns a text drawn at random for each text, and its score."""
        temperature = _checked_temperature(temperature)
        return _first(self._generate("sample", text, temperature=temperature, seed=seed))

    @signature(
        inputs={
            "text": TEXTS,
            "state": TensorContract("string", "L", example="nothing"),
            "temperature": TensorContract("float32", "", example=0.0),
            "seed": TensorContract("int32", "", example=1),
            "steps": TensorContract("int32", "", example=3),
        },
        outputs={
            "text": TensorContract("string", "B"),
            "done": TensorContract("bool", "B"),
            "state": TensorContract("string", "L", is_opaque=True),
        },
        is_optional=True,
    )
    def next_tokens(
        self,
        text: tf.Tensor,
        state: tf.Tensor,
        temperature: tf.Tensor,
        seed: tf.Tensor,
        steps: tf.Tensor,
    ) -> Tensors:
        """Returns the texts after further tokens, and the state for the next call, for streaming.

        With an empty state it begins with `text`; otherwise it ignores `text` and continues.
        Temperature 0 takes the most likely token each time.
        """
        temperature = _checked_temperature(temperature)
        search = dataclasses.replace(self.searches["sample"], temperature=temperature)
        return write_tokens(self, search, text, state, seed, steps)

    @signature(
        inputs=_SOURCE_AND_TARGET,
        outputs={
            "log_probability": TensorContract("float32", "B"),
            "tokens": TensorContract("int32", "B"),
        },
    )
    def score(self, source: tf.Tensor, target: tf.Tensor) -> Tensors:
        """Returns the log-probability of each target, and its number of tokens."""
        pairs = self.pairs(source, target)

        def score(part: dict[str, Any]) -> Tensors:
            labels = self.padded(part["labels"])
            logits = tf.cast(self.model(self.pair_inputs(part), training=False), tf.float32)
            chosen = tf.gather(logits, labels, axis=2, batch_dims=2)
            of_tokens = chosen - tf.reduce_logsumexp(logits, axis=2)
            is_scored = part["is_scored"].to_tensor(False)
            return {
                "log_probability": tf.reduce_sum(tf.where(is_scored, of_tokens, 0.0), axis=1),
                "tokens": tf.reduce_sum(tf.cast(is_scored, tf.int32), axis=1),
            }

        empty = {"log_probability": tf.zeros([0]), "tokens": tf.zeros([0], tf.int32)}
        return self.in_sub_batches(score, pairs, self.pair_lengths(pairs), empty)

    @signature(
        inputs=_SOURCE_AND_TARGET,
        outputs={
            "source_tokens": TensorContract("string", "BS"),
            "target_tokens": TensorContract("string", "BT"),
            "weights": TensorContract("float32", "BTS"),
        },
    )
    def attention(self, source: tf.Tensor, target: tf.Tensor) -> Tensors:
        """Returns the attention of each target token to the source tokens, and the tokens."""
        pairs = self.pairs(source, target)
        attended = "source" if "source" in pairs else "target"
        rows, columns = longest_of(pairs["labels"]), longest_of(pairs[attended])

        def attend(part: dict[str, Any]) -> Tensors:
            weights = self.model.alignment(**self.pair_inputs(part))
            is_token = tf.sequence_mask(part["labels"].row_lengths())
            weights *= tf.expand_dims(tf.cast(is_token, tf.float32), -1)
            source_tokens = self.source_tokenizer.tokens(part[attended]).to_tensor("")
            target_tokens = self.target_tokenizer.tokens(part["labels"]).to_tensor("")
            return {
                "source_tokens": padded_to(source_tokens, columns),
                "target_tokens": padded_to(target_tokens, rows),
                "weights": padded_to(weights, rows, columns),
            }

        # Only the graph knows the other axes.
        empty = {
            "source_tokens": tf.fill(tf.stack([0, columns]), ""),
            "target_tokens": tf.fill(tf.stack([0, rows]), ""),
            "weights": tf.zeros(tf.stack([0, rows, columns])),
        }
        return self.in_sub_batches(attend, pairs, self.pair_lengths(pairs), empty)

    @signature(inputs={"text": TEXTS}, outputs={"embedding": TensorContract("float32", "BM")})
    @abc.abstractmethod
    def encode(self, text: tf.Tensor) -> Tensors:
        """Returns a vector for each text."""

    @abc.abstractmethod
    def read(self, texts: tf.Tensor) -> dict[str, Any]:
        """Returns columns of B rows by name, among them the ragged ids as `input_name`."""

    @abc.abstractmethod
    def pairs(self, source: tf.Tensor, target: tf.Tensor) -> dict[str, Any]:
        """Returns columns of B rows by name; for a model with a source, also those of `read`.

        They are ragged: the decoder's inputs "target", the ids "labels" that it predicts, and
        whether each of these counts for the score, "is_scored".
        """

    def lengths(self, columns: dict[str, Any]) -> tf.Tensor:
        """Returns the number of tokens that each row of `read`'s columns occupies, `[B]`."""
        return columns[self.input_name].row_lengths()

    def pair_lengths(self, pairs: dict[str, Any]) -> tf.Tensor:
        """Returns the number of tokens of the longer side of each row of `pairs`, `[B]`."""
        lengths = pairs["labels"].row_lengths()
        return tf.maximum(self.lengths(pairs), lengths) if "source" in pairs else lengths

    def model_inputs(self, part: dict[str, Any]) -> Tensors:
        """Returns the model's padded inputs `[b, ·]` for a sub-batch of `read`'s columns."""
        return {self.input_name: self.padded(part[self.input_name])}

    def pair_inputs(self, part: dict[str, Any]) -> Tensors:
        """Returns the model's padded inputs for a sub-batch of `pairs`."""
        of_source = self.model_inputs(part) if "source" in part else {}
        return {**of_source, "target": self.padded(part["target"])}

    def answers(
        self, found: Hypotheses, part: dict[str, Any], unknown: tf.Tensor | None = None
    ) -> Tensors:
        """Returns texts and scores `[b, N]` of the hypotheses for a sub-batch.

        The strings `unknown` `[b, N, T]` replace unknown tokens, which are left out by default.
        """
        shape = [-1, tf.shape(found.ids)[2]]
        unknown = None if unknown is None else tf.reshape(unknown, shape)
        texts = self.target_tokenizer.detokenize(tf.reshape(found.ids, shape), unknown)
        return {"text": tf.reshape(texts, tf.shape(found.score)), "score": found.score}

    def _generate(self, name: str, texts: tf.Tensor, **sampling: tf.Tensor) -> Tensors:
        """Returns texts and scores `[B, N]`, found by the search of the signature `name`."""
        search = self.searches[name]
        find = self._find_compiled if self.xla else self._find
        columns = {**self.read(texts), "row": tf.range(tf.shape(texts)[0])}

        def write(part: dict[str, Any]) -> Tensors:
            found = find(search, self.model_inputs(part), part["row"], **sampling)
            return self.answers(found, part)

        empty = {
            "text": tf.zeros([0, search.n_best], tf.string),
            "score": tf.zeros([0, search.n_best]),
        }
        return self.in_sub_batches(write, columns, self.lengths(columns), empty)

    def _find(
        self, search: Any, inputs: Tensors, rows: tf.Tensor, **sampling: tf.Tensor
    ) -> Hypotheses:
        """Searches for a sub-batch, whose rows have the numbers `rows` in the batch."""
        given = {self.input_name: inputs if len(inputs) > 1 else inputs[self.input_name]}
        if sampling:
            search = dataclasses.replace(search, temperature=sampling["temperature"])
            given |= {"seed": sampling["seed"], "rows": rows}
        return search(self.model, **given)

    def _find_compiled(
        self, search: Any, inputs: Tensors, rows: tf.Tensor, **sampling: tf.Tensor
    ) -> Hypotheses:
        """Searches as `_find` does, compiled by XLA; inputs are padded to a few shapes."""

        def find(inputs: Tensors, rows: tf.Tensor, **sampling: tf.Tensor) -> Hypotheses:
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


def longest_of(ids: tf.RaggedTensor) -> tf.Tensor:
    """Returns the length of the longest row, 0 if there is none."""
    return tf.maximum(tf.cast(tf.reduce_max(ids.row_lengths()), tf.int32), 0)


def padded_to(values: tf.Tensor, *sizes: tf.Tensor) -> tf.Tensor:
    """Returns `[B, …]` padded with 0 or "" to `[B, *sizes]`."""
    axes = enumerate(sizes, 1)
    paddings = [[0, 0], *([0, size - tf.shape(values)[axis]] for axis, size in axes)]
    return tf.pad(values, paddings, constant_values="" if values.dtype == tf.string else 0)


def mean_over(states: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Returns the mean `[B, M]` of states `[B, T, M]` where `mask` `[B, T]` is True."""
    weights = tf.expand_dims(tf.cast(mask, tf.float32), -1)
    total = tf.reduce_sum(tf.cast(states, tf.float32) * weights, axis=1)
    return total / tf.maximum(tf.reduce_sum(weights, axis=1), 1.0)


def padded_rows(count: tf.Tensor) -> tf.Tensor:
    """Returns the numbers of `count` rows, the last repeated until their number is a power of 2.

    >>> padded_rows(tf.constant(5)).numpy()
    array([0, 1, 2, 3, 4, 4, 4, 4], dtype=int32)
    """
    powers = tf.constant([2**exponent for exponent in range(16)])
    size = tf.reduce_min(tf.where(powers >= count, powers, powers[-1]))
    return tf.minimum(tf.range(size), count - 1)


def _checked_temperature(temperature: tf.Tensor) -> tf.Tensor:
    """Returns a temperature; the graph reports one that is negative or not finite."""
    is_right = tf.math.is_finite(temperature) & (temperature >= 0)
    message = "`temperature` must be a finite number of at least 0."
    with tf.control_dependencies([tf.debugging.assert_equal(is_right, True, message)]):
        return tf.identity(temperature)


def _first(answers: Tensors) -> Tensors:
    return {name: value[:, 0] for name, value in answers.items()}


def _require_deterministic(search: Any) -> Search:
    if not isinstance(search, Search) or search.call_inputs:
        raise UserError(
            f"An export searches deterministically, such as by BeamSearch or GreedySearch; got "
            f"{search!r}.",
            fix=SAMPLING_FIX,
        )
    return search
