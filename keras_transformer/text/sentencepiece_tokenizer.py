"""Learning a SentencePiece model that gives every string back."""

import functools
import hashlib
import io
import itertools
import pathlib
import re
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import tensorflow as tf

from keras_transformer._utils.checks import (
    require_choice,
    require_integer,
    require_positive,
    require_rate,
)
from keras_transformer._utils.errors import UserError
from keras_transformer.text.tokenizer import FIRST_PIECE_ID, Tokenizer, as_strings


class SentencePieceOps(tf.Module):
    """A SentencePiece model in the graph.

    It does what `tensorflow_text.SentencepieceTokenizer` does, with one difference. There the model
    belongs to a kernel of TensorFlow's eager runtime and goes with it: after `tf.random.set_seed`,
    which throws the kernels away, every tokenizer fails with "Resource … does not exist". Here the
    model has a name, by which it stays.

    Args:
        model: The bytes of the model.
    """

    def __init__(self, model):
        super().__init__()
        self._model = _ModelResource(model)

    def pieces(self):
        """Returns the pieces in the order of their ids, a string tensor [V]."""
        handle = self._model.resource_handle
        size = _ops().sentencepiece_vocab_size_op(handle)
        return _ops().sentencepiece_id_to_string_op(handle, tf.range(size))

    def split(self, strings):
        """Returns the ids of strings [B], an int32 RaggedTensor [B, None]."""
        values, row_splits = _ops().sentencepiece_tokenize_op(
            self._model.resource_handle,
            strings,
            nbest_size=0,
            alpha=1.0,
            add_bos=False,
            add_eos=False,
            reverse=False,
            out_type=tf.int32,
        )
        return tf.RaggedTensor.from_row_splits(values, row_splits, validate=False)

    def join(self, ids):
        """Returns the strings [B] of ids, an int32 RaggedTensor [B, None]."""
        return _ops().sentencepiece_detokenize_op(
            self._model.resource_handle,
            ids.values,
            ids.row_splits,
            add_bos=False,
            add_eos=False,
            reverse=False,
        )


class _ModelResource(tf.saved_model.experimental.TrackableResource):
    """The model as TensorFlow holds it, made anew wherever a SavedModel is loaded."""

    def __init__(self, model):
        super().__init__()
        self._bytes = model
        # Equal models may share a place; different ones never do.
        self._shared_name = f"sentencepiece_{hashlib.sha256(model).hexdigest()}"
        # Made at once, so that a model that is none is refused here.
        _ = self.resource_handle

    def _create_resource(self):
        return _ops().sentencepiece_op(model=self._bytes, shared_name=self._shared_name)


def _ops():
    from tensorflow_text.python.ops import sentencepiece_tokenizer

    return sentencepiece_tokenizer.gen_sentencepiece_tokenizer


# The sentencepiece library has one seed for the whole process.
_SEEDING = threading.Lock()


class SentencePieceSampler:
    """Cuts texts at random: subword regularization for a unigram model, BPE-dropout for BPE.

    References: Kudo 2018, "Subword regularization: improving neural network translation models with
    multiple subword candidates", section 3.3; Provilkov et al. 2020, "BPE-dropout: simple and
    effective subword regularization".

    Args:
        model: The bytes of a SentencePiece model.
    """

    def __init__(self, model):
        import sentencepiece
        from sentencepiece import sentencepiece_model_pb2

        trainer = sentencepiece_model_pb2.ModelProto.FromString(model).trainer_spec
        self._is_bpe = trainer.model_type == trainer.BPE
        self._set_seed = sentencepiece.set_random_generator_seed
        self._encode = sentencepiece.SentencePieceProcessor(model_proto=model).encode

    def sample(self, texts, seed, alpha=None):
        """Returns a list of ids for each of `texts`; it depends on the arguments alone."""
        seed = require_integer("seed", seed, minimum=0)
        if self._is_bpe:
            alpha = require_rate("alpha", 0.1 if alpha is None else alpha)
        else:
            alpha = require_positive("alpha", 0.2 if alpha is None else alpha)
        # The library seeds the generator of a thread when that thread first draws from it, and
        # never again: hence a new thread for each call.
        with _SEEDING, ThreadPoolExecutor(max_workers=1) as new_thread:
            return new_thread.submit(self._sample_here, texts, seed, alpha).result()

    def _sample_here(self, texts, seed, alpha):
        # 32 bits of the seed, whatever its size. All ones would mean "seed from the clock".
        self._set_seed(int(np.random.SeedSequence(seed).generate_state(1)[0]) % (2**32 - 1))
        return [
            self._encode(text, enable_sampling=True, nbest_size=-1, alpha=alpha) for text in texts
        ]


class SentencePieceTokenizer(Tokenizer, registered_name="sentencepiece"):
    """Cuts text into the pieces of a SentencePiece model (unigram or BPE), with tensorflow-text.

    Every string of valid Unicode comes back exactly, spaces at both ends, line breaks, control
    characters and U+2581 "▁" included: nothing is normalized, and what the vocabulary cannot spell
    is spelt in bytes, so that nothing is unknown. Bytes that are not UTF-8 are replaced by U+FFFD,
    as `bytes.decode("utf-8", "replace")` does.

    A space belongs to the piece that follows it and is shown there as "▁". One space is put before
    each string, so that a word is cut alike at the start and in the middle, and taken away again by
    `detokenize`.

    Learn one with `learn_tokenizer("sentencepiece", lines, vocabulary_size)`. Its option is
    `model`: `"unigram"` (the default, and the one whose random cuts have probabilities) or `"bpe"`
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
        model: The bytes of a model that `learn_tokenizer` made.
    """

    file_name = "sentencepiece.model"

    def __init__(self, model):
        self._model = bytes(model)
        with tf.init_scope():
            try:
                self._ops = SentencePieceOps(self._model)
                pieces = self._ops.pieces().numpy()
            except tf.errors.OpError as error:
                raise UserError(
                    "These bytes are not a SentencePiece model. Learn one with `learn_tokenizer`."
                ) from error
        names = [piece.decode() for piece in pieces]
        if tuple(names[:FIRST_PIECE_ID]) != CONTROL_PIECES:
            raise UserError(
                f"A SentencePiece model of another making: ids 0 to 3 must be {CONTROL_PIECES}; "
                f"they are {tuple(names[:FIRST_PIECE_ID])}. Learn one with `learn_tokenizer`."
            )
        super().__init__(names[FIRST_PIECE_ID:])

    def normalize(self, strings):
        return tf.strings.unicode_transcode(strings, "UTF-8", "UTF-8", errors="replace")

    def sample(self, strings, seed, alpha=None):
        """Returns ids as `tokenize` does, but each text is cut at random: for training only.

        The result depends on the arguments alone, whatever runs before or beside it. It is no graph
        op: it runs in Python, with the sentencepiece library, one call at a time.

        Args:
            strings: Strings [B]: a list or a tensor.
            seed: A whole number of at least 0.
            alpha: For a unigram model the power to which the probability of a cut is raised, 0.2 by
                default; the smaller, the wilder. For a BPE model the share of merges that are left
                out, 0.1 by default as in the paper; the larger, the wilder.
        """
        texts = self._after_a_space(as_strings(strings)).numpy()
        rows = self._sampler.sample(texts, seed, alpha)
        return tf.RaggedTensor.from_row_lengths(
            np.fromiter(itertools.chain.from_iterable(rows), np.int32),
            row_lengths=np.fromiter(map(len, rows), np.int64),
        )

    def spellings(self, strings):
        return tf.strings.regex_replace(super().spellings(strings), "\u2581", " ")

    def word_sizes(self, words):
        """Bytes, as the model sees them: with a space before each word, "▁" and U+0010 escaped."""
        texts = self.normalize(words.values)
        escaped = tf.strings.regex_replace(tf.strings.regex_replace(texts, "\x10", "10"), "▁", "10")
        return words.with_values(tf.strings.length(escaped) + 1)

    def _sizes_of_pieces(self):
        for piece in self.vocabulary()[FIRST_PIECE_ID:]:
            is_byte = re.fullmatch(r"<0x[0-9A-F]{2}>", piece)
            yield 1 if is_byte else len(piece.replace("▁", " ").encode())

    @functools.cached_property
    def _sampler(self):
        return SentencePieceSampler(self._model)

    def _after_a_space(self, strings):
        strings = self.normalize(strings)
        is_empty = tf.equal(strings, "")
        return tf.where(is_empty, strings, tf.strings.join([" ", strings]))

    def _split(self, strings):
        return self._ops.split(self._after_a_space(strings))

    def _join(self, ids):
        return tf.strings.regex_replace(self._ops.join(ids), r"\A ", "")

    def to_bytes(self):
        return self._model

    @classmethod
    def from_bytes(cls, content, settings, origin):
        try:
            return cls(content)
        except UserError as error:
            raise UserError(f"{origin}: {error}") from error

    @classmethod
    def learn(cls, read_passages, vocabulary_size, report, model="unigram"):
        require_choice("model", model, MODELS)
        passages = read_passages()
        report("Learning pieces", 0, None)
        return cls(learn_model(passages, vocabulary_size, model))


MODELS = ("unigram", "bpe")

# Names of ids 0 to 3 inside the model. They hold a space, and no text does at the place where names
# are looked up: there all spaces have become "▁". So nothing that anybody writes is one of them.
CONTROL_PIECES = ("<padding >", "<unknown >", "<start >", "<end >")

# SentencePiece writes a space as "▁" and would read a "▁" of the text as a space. Therefore the
# model itself rewrites "▁" on the way in as U+0010 (the control character "data link escape") and
# "_", U+0010 as itself and "P", and undoes both on the way out. Code points in hex, as the library
# reads its rules.
ESCAPES = "2581\t10 5F\n10\t10 50\n"
UNESCAPES = "10 5F\t2581\n10 50\t10\n"

# Unigram sums probabilities thread by thread, so the number of threads decides about the last
# digits and with them the pieces. It is the library's default, whatever the machine has.
THREADS = 16


def learn_model(passages, vocabulary_size, model):
    """Returns the bytes of a model; the same passages give the same bytes.

    Args:
        passages: An iterable of non-empty strings.
        vocabulary_size: The most ids the model may have; it has fewer when the text has no more to
            give.
        model: One of `MODELS`.
    """
    import sentencepiece

    with tempfile.TemporaryDirectory() as directory:
        escapes = pathlib.Path(directory, "escapes.tsv")
        escapes.write_text(ESCAPES, encoding="ascii")
        unescapes = pathlib.Path(directory, "unescapes.tsv")
        unescapes.write_text(UNESCAPES, encoding="ascii")
        content = io.BytesIO()
        train = functools.partial(
            sentencepiece.SentencePieceTrainer.train,
            # A word is the same word at the start of a line: the tokenizer puts a space there too.
            sentence_iterator=(" " + passage for passage in passages),
            model_writer=content,
            model_type=model,
            vocab_size=vocabulary_size,
            hard_vocab_limit=False,
            byte_fallback=True,
            add_dummy_prefix=False,
            remove_extra_whitespaces=False,
            normalization_rule_tsv=str(escapes),
            denormalization_rule_tsv=str(unescapes),
            num_threads=THREADS,
            # 2: errors alone, which are raised anyway. The rest is a page of log.
            minloglevel=2,
            **_control_arguments(),
        )
        try:
            _run_interruptibly(train)
        except RuntimeError as error:
            _explain_size(error, vocabulary_size)
            raise
    return _without_paths(content.getvalue())


def _run_interruptibly(function):
    """Runs a long call of C++ in a thread of its own, so that Ctrl-C is answered at once."""
    raised = []

    def run():
        try:
            function()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(timeout=0.1)
    if raised:
        raise raised[0]


def _control_arguments():
    arguments = {}
    for number, (key, piece) in enumerate(
        zip(("pad", "unk", "bos", "eos"), CONTROL_PIECES, strict=True)
    ):
        arguments[f"{key}_id"] = number
        arguments[f"{key}_piece"] = piece
    return arguments


def _explain_size(error, vocabulary_size):
    """Raises a `UserError` if `error` is that the characters alone are more than the size."""
    too_small = re.search(r"smaller than required_chars\. \d+ vs (\d+)", str(error))
    if too_small:
        raise UserError(
            f"`vocabulary_size` must be at least {too_small[1]} for this text (4 special ids, 256 "
            f"bytes, and its characters); got {vocabulary_size}."
        ) from error


def _without_paths(model):
    """The model without the names of the two temporary files, which would be others each time."""
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    proto.normalizer_spec.ClearField("normalization_rule_tsv")
    proto.denormalizer_spec.ClearField("normalization_rule_tsv")
    return proto.SerializeToString(deterministic=True)
