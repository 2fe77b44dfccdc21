"""SentencePiece: pieces of any text, learned from raw lines."""

import functools
import itertools
import re

import numpy as np
import tensorflow as tf

from keras_transformer.checks import require_choice
from keras_transformer.errors import UserError
from keras_transformer.text.sentencepiece_learning import CONTROL_PIECES, MODELS, learn_model
from keras_transformer.text.sentencepiece_ops import SentencePieceOps
from keras_transformer.text.sentencepiece_sampler import SentencePieceSampler
from keras_transformer.text.special_ids import FIRST_PIECE_ID
from keras_transformer.text.tokenizer import Tokenizer, as_strings


class SentencePieceTokenizer(Tokenizer, registered_name="sentencepiece"):
    """Cuts text into the pieces of a SentencePiece model (unigram or BPE), with tensorflow-text.

    Every string of valid Unicode comes back exactly, spaces at both ends, line breaks, control
    characters and U+2581 "▁" included: nothing is normalised, and what the vocabulary cannot spell
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
