"""SentencePiece models of any origin: safety checks, and reordering of pieces by other ids.

A model is arranged once, when a checkpoint is imported: afterwards its piece n has the id n of the
checkpoint, and no table from pieces to ids is needed.
"""

import math
import struct
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from keras_transformer._utils.errors import UserError
from keras_transformer.text.sentencepiece_model import (
    MAX_BYTES,
    MAX_PIECE_CHARACTERS,
    MAX_PIECES,
)

#: Prefixes of the names of ids that tokenization never produces: without a text, and with one.
#: They contain a space, so that no text matches them: pieces write a space as "▁".
CONTROL, ONLY_JOINED = "control ", "joined "

_PARTS = {"pieces", "trainer_spec", "normalizer_spec"}
# Values of `trainer_spec` that determine the ids; the others describe how a model was learned.
_TRAINER_KEYS = ("model_type", "byte_fallback")
_NORMALIZER_KEYS = (
    *("name", "precompiled_charsmap", "add_dummy_prefix", "remove_extra_whitespaces"),
    "escape_whitespaces",
)
# Nodes of a table of replacements: at most, and checked at once.
_MAX_NODES, _NODES_AT_ONCE = 1 << 20, 4096


def parse_model(content: bytes) -> Any:
    """Returns a model as a protocol buffer, if it is safe and has no settings of rare kinds.

    Args:
        content: Bytes of a file such as `source.spm` or `tokenizer.model`.
    """
    problem, model = find_unsafe_part(content), _pb2().ModelProto()
    if problem is None:
        model = model.FromString(content)
        if model.trainer_spec.treat_whitespace_as_suffix:
            problem = "it writes spaces after words"
        elif model.denormalizer_spec.precompiled_charsmap:
            problem = "it has a table for the output text"
    if problem is not None:
        fix = "Give a file that the SentencePiece library wrote."
        raise UserError(f"not a SentencePiece model that can be used: {problem}.", fix=fix)
    return model


def find_unsafe_part(content: bytes) -> str | None:
    """Returns why C++ code cannot safely read a model of any origin, or None if it can."""
    from google.protobuf.message import DecodeError

    if len(content) > MAX_BYTES:
        return f"{len(content):,} bytes, but at most {MAX_BYTES:,} are read"
    try:
        model = _pb2().ModelProto.FromString(content)
    except DecodeError:
        return "not a complete protocol buffer"
    except UnicodeDecodeError:
        return "a text in it is not UTF-8"
    trainer = model.trainer_spec
    if trainer.model_type not in (trainer.UNIGRAM, trainer.BPE):
        return "it is neither unigram nor BPE"
    if model.denormalizer_spec.precompiled_charsmap:
        return "it has a table for the output text"
    return _find_wrong_piece(model) or _find_wrong_table(model.normalizer_spec.precompiled_charsmap)


def _find_wrong_piece(model: Any) -> str | None:
    pieces, fallback = model.pieces, model.trainer_spec.byte_fallback
    if not 0 < len(pieces) <= MAX_PIECES:
        return f"{len(pieces):,} pieces, but it must have 1 to {MAX_PIECES:,}"
    names = {each.piece for each in pieces}
    if not all(isinstance(name, str) for name in names):  # bytes that are not UTF-8
        return "a text in it is not UTF-8"
    if len(names) != len(pieces):
        return "a piece occurs twice"
    if "" in names or max(map(len, names)) > MAX_PIECE_CHARACTERS:
        return f"a piece does not have 1 to {MAX_PIECE_CHARACTERS:,} characters"
    is_unigram = model.trainer_spec.model_type == model.trainer_spec.UNIGRAM
    if is_unigram and any("\0" in name for name in names):
        return "a piece with U+0000"
    if not all(math.isfinite(each.score) for each in pieces):
        return "a score that is not finite"
    if sum(each.type == each.UNKNOWN for each in pieces) != 1:
        return "it must have one unknown piece"
    in_bytes = {each.piece for each in pieces if each.type == each.BYTE}
    if in_bytes != ({f"<0x{byte:02X}>" for byte in range(256)} if fallback else set()):
        return "its pieces for bytes are not those of byte fallback"
    return None


def _find_wrong_table(table: bytes) -> str | None:
    """Returns what is wrong with a table of replacements, or None.

    It is a double-array trie whose leaves are offsets of texts that end with a zero byte. A search
    never leaves the array if each node that it reaches has all its 256 possible children inside.
    """
    if not table:
        return None
    wrong = "its table of replacements is damaged"
    size = struct.unpack_from("<I", table)[0] if len(table) >= 4 else 0
    texts = table[4 + size :]
    if not size or size % 1024 or not texts or texts[-1]:
        return wrong
    units = np.frombuffer(table, np.uint32, size // 4, offset=4)
    characters = np.arange(256, dtype=np.uint32)
    waiting, seen = np.zeros(1, np.uint32), 0
    while waiting.size:
        nodes, waiting = waiting[:_NODES_AT_ONCE], waiting[_NODES_AT_ONCE:]
        seen += nodes.size
        if seen > _MAX_NODES:
            return "its table of replacements is too large"
        found = units[nodes]
        bases = nodes ^ ((found >> 10) << ((found & 512) >> 6))
        if (bases | 255).max() >= units.size:
            return wrong
        leaves = units[bases[(found & 256) > 0]] & 0x7FFFFFFF
        if leaves.size and leaves.max() >= len(texts):
            return wrong
        children = bases[:, None] ^ characters
        is_child = (units[children] & 0x800000FF) == characters
        waiting = np.concatenate([children[is_child], waiting])
    return None


def arrange_pieces(
    model: Any, tokens: Sequence[str], unknown: int, controls: Collection[int]
) -> bytes:
    """Returns a model whose piece n is `tokens[n]`, and which finds the same pieces in a text.

    Other pieces follow after the tokens, because they take part in the search.

    Args:
        model: The model, from `parse_model`.
        tokens: Token of each id, distinct.
        unknown: The unknown id.
        controls: Ids without text, such as the codes of languages.
    """
    pieces = {each.piece: each for each in model.pieces if each.type not in (2, 3)}
    arranged = _pb2().ModelProto()
    for number, token in enumerate(tokens):
        if number == unknown:
            arranged.pieces.add(piece=f"{CONTROL}{token}", type=arranged.SentencePiece.UNKNOWN)
        elif number not in controls and token in pieces:
            arranged.pieces.append(pieces.pop(token))
        else:
            name = (CONTROL if number in controls else ONLY_JOINED) + token
            arranged.pieces.add(piece=name, type=arranged.SentencePiece.CONTROL)
    arranged.pieces.extend(pieces.values())
    for part, keys in (("trainer_spec", _TRAINER_KEYS), ("normalizer_spec", _NORMALIZER_KEYS)):
        for key in keys:
            setattr(getattr(arranged, part), key, getattr(getattr(model, part), key))
    return arranged.SerializeToString(deterministic=True)


def _pb2() -> Any:
    from sentencepiece import sentencepiece_model_pb2

    return sentencepiece_model_pb2
