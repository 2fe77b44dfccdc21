"""SentencePiece tokenizer: its graph operations, random segmentation, and learning of models."""

import functools
import hashlib
import io
import itertools
import pathlib
import re
import tempfile
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ClassVar, Self

import numpy as np
import tensorflow as tf

from keras_transformer._utils.checks import (
    require_choice,
    require_integer,
    require_positive,
    require_rate,
)
from keras_transformer._utils.errors import ArgumentError, UserError
from keras_transformer.text.sentencepiece_model import find_model_problem
from keras_transformer.text.special_ids import SPECIAL_NAMES, SpecialIds
from keras_transformer.text.tokenizer import Report, Strings, Tokenizer, as_strings

#: Algorithms of `learn_tokenizer("sentencepiece", …)`.
MODELS = ("unigram", "bpe")

# Names of the special ids in the model. They contain a space, but in the text, where the library
# looks for names, all spaces have become "▁". So no text contains one of these names.
CONTROL_PIECES = tuple(name.replace(">", " >") for name in SPECIAL_NAMES)

# SentencePiece writes a space as "▁" and would read a "▁" of the text as a space. Therefore the
# model itself replaces "▁" by U+0010 (the control character "data link escape") and "_", and U+0010
# by itself and "P", and `detokenize` reverses both. Code points in hex, as the library reads them.
_ESCAPES = "2581\t10 5F\n10\t10 50\n"
_UNESCAPES = "10 5F\t2581\n10 50\t10\n"

# The number of threads determines the last digits of unigram's sums of probabilities, and with them
# the pieces. This is the library's default, used on every machine.
_THREADS = 16

_FIX_MODEL = "Learn one with `learn_tokenizer`, or give its `special_ids`."

# The sentencepiece library has one seed for the whole process.
_SEEDING = threading.Lock()


class SentencePieceTokenizer(Tokenizer, registered_name="sentencepiece"):
    """Tokenizer with the pieces of a SentencePiece model (unigram or BPE).

    Every string of valid Unicode is restored exactly, including spaces at both ends, line breaks,
    control characters and U+2581 "▁": nothing is normalized, and text that the vocabulary cannot
    spell is spelled in bytes, so there are no unknown tokens. Bytes that are not UTF-8 are replaced
    by U+FFFD, as by `bytes.decode("utf-8", "replace")`.

    A space belongs to the piece that follows it and is shown there as "▁". `tokenize` adds a space
    before each string, so that a word has the same pieces at the start and in the middle;
    `detokenize` removes it.

    Learn one with `learn_tokenizer("sentencepiece", lines, vocabulary_size)`. Its option is
    `model`: `"unigram"` (the default, whose random segmentations have probabilities) or `"bpe"`
    (learned about ten times faster).

    >>> from keras_transformer.text import learn_tokenizer
    >>> lines = ["ein Haus am See", "ein Boot am Haus", "am See ein Boot"] * 10
    >>> tokenizer = learn_tokenizer("sentencepiece", lines, 276, progress=lambda *_: None)
    >>> ids = tokenizer.tokenize(["ein See"])
    >>> tokenizer.tokens(ids)[0].numpy()[-1].decode()
    '▁See'
    >>> tokenizer.detokenize(ids).numpy()
    array([b'ein See'], dtype=object)

    References: Kudo and Richardson 2018, "SentencePiece: a simple and language independent subword
    tokenizer"; Kudo 2018, "Subword regularization" (unigram); Sennrich et al. 2016, "Neural machine
    translation of rare words with subword units" (BPE).

    Args:
        model: Bytes of a model that `learn_tokenizer` made.
        special_ids: Defaults to those of the model. Required if ids have several roles, because a
            model stores one role for each id.
    """

    file_name: ClassVar[str | None] = "sentencepiece.model"

    def __init__(self, model: bytes, special_ids: SpecialIds | None = None) -> None:
        self._model = bytes(model)
        if problem := find_model_problem(self._model):
            problem = f"These bytes are not a SentencePiece model of this package: {problem}."
            raise UserError(problem, fix=_FIX_MODEL)
        with tf.init_scope():
            try:
                self._ops = SentencePieceOps(self._model)
                names = [piece.decode() for piece in self._ops.pieces().numpy()]
            except (tf.errors.OpError, UnicodeDecodeError) as error:
                problem = "These bytes are not a SentencePiece model."
                raise UserError(problem, fix=_FIX_MODEL) from error
        special_ids = _check_special_ids(names, special_ids)
        super().__init__(np.delete(np.array(names, object), special_ids.ids), special_ids)

    def normalize(self, strings: Strings) -> tf.Tensor:
        return tf.strings.unicode_transcode(strings, "UTF-8", "UTF-8", errors="replace")

    def sample(self, strings: Strings, seed: int, alpha: float | None = None) -> tf.RaggedTensor:
        """Returns the ids of a random segmentation, for training only.

        The result depends on the arguments alone. It runs in Python, not in the graph, one call at
        a time. References: Kudo 2018, section 3.3; Provilkov et al. 2020, "BPE-dropout".

        Args:
            strings: Strings `[B]`.
            seed: Not negative.
            alpha: For a unigram model the power to which the probability of a segmentation is
                raised: smaller is more random; defaults to 0.2. For a BPE model the rate of merges
                that are dropped: larger is more random; defaults to 0.1, as in the paper.
        """
        import sentencepiece

        texts = self._add_space(as_strings(strings)).numpy()
        # 32 bits of a seed of any size. All ones would mean "seed from the clock".
        entropy = np.random.SeedSequence(require_integer("seed", seed, minimum=0))
        seed = int(entropy.generate_state(1)[0]) % (2**32 - 1)
        if self._is_bpe:
            alpha = require_rate("alpha", 0.1 if alpha is None else alpha)
        else:
            alpha = require_positive("alpha", 0.2 if alpha is None else alpha)
        options = {"enable_sampling": True, "nbest_size": -1, "alpha": alpha}

        def draw() -> list[list[int]]:
            sentencepiece.set_random_generator_seed(seed)
            return [self._processor.encode(text, **options) for text in texts]

        # The library seeds a thread's generator when the thread first uses it, and never again, so
        # each call has a thread of its own.
        with _SEEDING, ThreadPoolExecutor(max_workers=1) as new_thread:
            rows = new_thread.submit(draw).result()
        values = np.fromiter(itertools.chain.from_iterable(rows), np.int32)
        lengths = np.fromiter(map(len, rows), np.int64)
        return tf.RaggedTensor.from_row_lengths(values, lengths)

    def spellings(self, strings: Strings) -> tf.RaggedTensor:
        return tf.strings.regex_replace(super().spellings(strings), "\u2581", " ")

    def word_sizes(self, words: tf.RaggedTensor) -> tf.RaggedTensor:
        """Returns the bytes of each word with a space before it, and "▁" and U+0010 escaped."""
        texts = self.normalize(words.values)
        escaped = tf.strings.regex_replace(texts, "[\x10▁]", "10")
        return words.with_values(tf.strings.length(escaped) + 1)

    def _sizes_of_pieces(self) -> Iterable[int]:
        vocabulary = self.vocabulary()
        for piece in (vocabulary[number] for number in self.piece_ids):
            is_byte = re.fullmatch(r"<0x[0-9A-F]{2}>", piece)
            yield 1 if is_byte else len(piece.replace("▁", " ").encode())

    @functools.cached_property
    def _processor(self) -> Any:
        import sentencepiece

        return sentencepiece.SentencePieceProcessor(model_proto=self._model)

    @functools.cached_property
    def _is_bpe(self) -> bool:
        trainer = _parse(self._model).trainer_spec
        return trainer.model_type == trainer.BPE

    def _add_space(self, strings: tf.Tensor) -> tf.Tensor:
        strings = self.normalize(strings)
        is_empty = tf.equal(strings, "")
        return tf.where(is_empty, strings, tf.strings.join([" ", strings]))

    def _split(self, strings: tf.Tensor) -> tf.RaggedTensor:
        return self._ops.split(self._add_space(strings))

    def _join(self, ids: tf.RaggedTensor) -> tf.Tensor:
        return tf.strings.regex_replace(self._ops.join(ids), r"\A ", "")

    def to_bytes(self) -> bytes:
        return self._model

    @classmethod
    def from_bytes(cls, content: bytes, settings: dict[str, Any], special_ids: SpecialIds) -> Self:
        return cls(content, special_ids)

    @classmethod
    def check_learning(cls, size: int, special_ids: SpecialIds, model: str = "unigram") -> None:
        require_choice("model", model, MODELS)
        if max(special_ids.ids) >= size:
            expected = f"below `vocabulary_size`, {size}"
            raise ArgumentError("special_ids", expected, special_ids, related=("vocabulary_size",))

    @classmethod
    def learn(
        cls,
        passages: list[str],
        size: int,
        special_ids: SpecialIds,
        report: Report,
        model: str = "unigram",
    ) -> Self:
        report("Learning pieces", 0, None)
        return cls(learn_model(passages, size, model, special_ids), special_ids)


def _check_special_ids(names: list[str], special_ids: SpecialIds | None) -> SpecialIds:
    """Returns the special ids of a model, which must agree with `special_ids` if they are given."""
    found = {number: name for number, name in enumerate(names) if name in CONTROL_PIECES}
    roles = {name: number for number, name in found.items()}
    if special_ids is None and len(roles) == len(CONTROL_PIECES):
        return SpecialIds(*(roles[name] for name in CONTROL_PIECES))
    wanted = CONTROL_PIECES if special_ids is None else _control_names(special_ids)
    if special_ids is None or found != wanted:
        problem = f"The model has special pieces {found} and must have {wanted}."
        raise UserError(problem, fix=_FIX_MODEL)
    return special_ids


def _control_names(special_ids: SpecialIds) -> dict[int, str]:
    """Returns the name of each special id inside a model."""
    control_piece: dict[str, str] = dict(zip(SPECIAL_NAMES, CONTROL_PIECES, strict=True))
    return {number: control_piece[name] for number, name in sorted(special_ids.names.items())}


# Options of the operations that would change the ids.
_UNCHANGED = {"add_bos": False, "add_eos": False, "reverse": False}


class SentencePieceOps(tf.saved_model.experimental.TrackableResource):
    """SentencePiece model as graph operations, which loading a SavedModel creates again.

    In `tensorflow_text.SentencepieceTokenizer` the model belongs to a kernel of the eager runtime,
    which `tf.random.set_seed` discards: then every tokenizer fails with "Resource … does not
    exist". Here the model is a named resource.
    """

    def __init__(self, model: bytes) -> None:
        super().__init__()
        self._bytes = model
        # Equal models may share a resource; different ones must not.
        self._shared_name = f"sentencepiece_{hashlib.sha256(model).hexdigest()}"
        # Created immediately, so that the constructor rejects bytes that are no model.
        _ = self.resource_handle

    def _create_resource(self) -> tf.Tensor:
        return _raw_ops().sentencepiece_op(model=self._bytes, shared_name=self._shared_name)

    def pieces(self) -> tf.Tensor:
        """Returns the pieces in the order of their ids, strings `[V]`."""
        ids = tf.range(_raw_ops().sentencepiece_vocab_size_op(self.resource_handle))
        return _raw_ops().sentencepiece_id_to_string_op(self.resource_handle, ids)

    def split(self, strings: tf.Tensor, dtype: tf.DType = tf.int32) -> tf.RaggedTensor:
        """Returns the ids `[B, None]` of strings `[B]`, or the pieces if `dtype` is string."""
        options = {"nbest_size": 0, "alpha": 1.0, "out_type": dtype, **_UNCHANGED}
        tokenize = _raw_ops().sentencepiece_tokenize_op
        values, row_splits = tokenize(self.resource_handle, strings, **options)
        return tf.RaggedTensor.from_row_splits(values, row_splits, validate=False)

    def join(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Returns the strings `[B]` of int32 ids `[B, None]`."""
        join = _raw_ops().sentencepiece_detokenize_op
        return join(self.resource_handle, ids.values, ids.row_splits, **_UNCHANGED)


def _raw_ops() -> Any:
    from tensorflow_text.python.ops import sentencepiece_tokenizer

    return sentencepiece_tokenizer.gen_sentencepiece_tokenizer


def learn_model(passages: Iterable[str], size: int, model: str, special_ids: SpecialIds) -> bytes:
    """Returns the bytes of a model; the same passages give the same bytes."""
    import sentencepiece

    with tempfile.TemporaryDirectory() as directory:
        escapes = pathlib.Path(directory, "escapes.tsv")
        escapes.write_text(_ESCAPES, encoding="ascii")
        unescapes = pathlib.Path(directory, "unescapes.tsv")
        unescapes.write_text(_UNESCAPES, encoding="ascii")
        content = io.BytesIO()
        train = functools.partial(
            sentencepiece.SentencePieceTrainer.train,
            # The tokenizer adds the same space, so that a word at the start is the same word.
            sentence_iterator=(" " + passage for passage in passages),
            model_writer=content,
            model_type=model,
            vocab_size=size,
            hard_vocab_limit=False,
            byte_fallback=True,
            add_dummy_prefix=False,
            remove_extra_whitespaces=False,
            normalization_rule_tsv=str(escapes),
            denormalization_rule_tsv=str(unescapes),
            num_threads=_THREADS,
            # 2: log errors only, which are raised as well.
            minloglevel=2,
            **_control_arguments(special_ids),
        )
        try:
            _run_in_thread(train)
        except RuntimeError as error:
            too_small = re.search(r"smaller than required_chars\. \d+ vs (\d+)", str(error))
            if not too_small:
                raise
            parts = f"{len(special_ids.ids)} special ids, 256 bytes, and its characters"
            expected = f"at least {too_small[1]} for this text ({parts})"
            raise ArgumentError("vocabulary_size", expected, size) from error
    # Without the names of the temporary files, which differ each time.
    proto = _parse(content.getvalue())
    proto.normalizer_spec.ClearField("normalization_rule_tsv")
    proto.denormalizer_spec.ClearField("normalization_rule_tsv")
    return proto.SerializeToString(deterministic=True)


def _run_in_thread(function: Callable[[], object]) -> None:
    """Runs a long call of C++ in a thread, so that Ctrl-C interrupts it immediately."""
    done: Future[object] = Future()

    def run() -> None:
        try:
            done.set_result(function())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    done.result()


def _control_arguments(special_ids: SpecialIds) -> dict[str, int | str]:
    """Returns the trainer's arguments for the special ids; -1 for a role whose id has another."""
    id_of = {name: number for number, name in _control_names(special_ids).items()}
    arguments: dict[str, int | str] = {}
    for key, piece in zip(("pad", "unk", "bos", "eos"), CONTROL_PIECES, strict=True):
        arguments[f"{key}_id"] = id_of.get(piece, -1)
        arguments[f"{key}_piece"] = piece
    return arguments


def _parse(model: bytes) -> Any:
    """Returns a model as a protocol buffer."""
    from sentencepiece import sentencepiece_model_pb2

    return sentencepiece_model_pb2.ModelProto.FromString(model)
