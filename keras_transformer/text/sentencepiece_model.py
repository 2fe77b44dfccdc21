"""Check of a SentencePiece model before C++ code reads it. Imports no TensorFlow.

The library and the operations of tensorflow-text trust a model: its normalization table is a trie
in an array, and an index outside of the array reads other memory and ends the process. All models
of `learn_tokenizer` have the same tables, so that they can be compared.
"""

import hashlib
import math
from typing import Any

#: Largest size of a model in bytes. A vocabulary of 250,000 pieces takes about 5 MB.
MAX_BYTES = 64 << 20
#: Largest number of pieces.
MAX_PIECES = 1 << 20
#: Largest number of characters of a piece.
MAX_PIECE_CHARACTERS = 1000

# sha256 of the tables that the library compiles from the escapes of `sentencepiece_tokenizer`.
_TABLES = {
    "normalizer_spec": "2fd8ae00fae83e15e51b2803efac779ab629acf22f7a65dd8d19a94f6962fba9",
    "denormalizer_spec": "3d1136c01bfe89c3e6a4ae7d762e3b59bf9bc81a3f02e552e1e45ada1ad59324",
}
_PARTS = {"pieces", "trainer_spec", *_TABLES}


def find_model_problem(content: bytes) -> str | None:
    """Returns why `SentencePieceTokenizer` cannot have learned a model, or None if it can.

    Args:
        content: Bytes of the model, a protocol buffer.
    """
    from google.protobuf.message import DecodeError
    from sentencepiece import sentencepiece_model_pb2

    if len(content) > MAX_BYTES:
        return f"{len(content):,} bytes, but at most {MAX_BYTES:,} are read"
    try:
        model = sentencepiece_model_pb2.ModelProto.FromString(content)
        return _find_wrong_part(model) or _find_wrong_piece(model)
    except DecodeError:
        return "no complete protocol buffer"
    except UnicodeDecodeError:
        return "a text in it is not UTF-8"


def _find_wrong_part(model: Any) -> str | None:
    if others := {field.name for field, _ in model.ListFields()} - _PARTS:
        return f"it has the unexpected part {min(others)}"
    size = model.ByteSize()
    model.DiscardUnknownFields()
    if model.ByteSize() != size:
        return "it has unknown fields"
    trainer = model.trainer_spec
    if trainer.model_type not in (trainer.UNIGRAM, trainer.BPE):
        return "it is neither unigram nor BPE"
    if not trainer.byte_fallback:
        return "it does not spell unknown characters in bytes"
    for name, sha256 in _TABLES.items():
        rules = getattr(model, name)
        if rules.add_dummy_prefix or rules.remove_extra_whitespaces:
            return "it changes spaces"
        if hashlib.sha256(rules.precompiled_charsmap).hexdigest() != sha256:
            return f"the table of its {name} is another one"
    return None


def _find_wrong_piece(model: Any) -> str | None:
    pieces = model.pieces
    if not 0 < len(pieces) <= MAX_PIECES:
        return f"{len(pieces):,} pieces, but it must have 1 to {MAX_PIECES:,}"
    names = {each.piece for each in pieces}
    if len(names) != len(pieces):
        return "a piece occurs twice"
    if "" in names or max(map(len, names)) > MAX_PIECE_CHARACTERS:
        return f"a piece that has not 1 to {MAX_PIECE_CHARACTERS:,} characters"
    if not all(math.isfinite(each.score) for each in pieces):
        return "a score that is not finite"
    spelled = {each.piece for each in pieces if each.type == each.BYTE}
    if spelled != {f"<0x{byte:02X}>" for byte in range(256)}:
        return "it must have a piece for each byte"
    if sum(each.type == each.UNKNOWN for each in pieces) != 1:
        return "it must have one unknown piece"
    return None
