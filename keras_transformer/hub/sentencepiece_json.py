"""Unigram and BPE models with "▁" for spaces in a `tokenizer.json`, as SentencePiece models."""

import base64
import binascii
import math
from typing import Any

from keras_transformer._utils.errors import UserError
from keras_transformer.hub.byte_pair_files import read_merges
from keras_transformer.hub.tokenizer_files import TOKENIZER
from keras_transformer.hub.tokenizer_json import JsonParts
from keras_transformer.text.byte_pair_model import check_merges, merge_scores, merged
from keras_transformer.text.sentencepiece_pieces import parse_model

SPACE = "▁"
# White space that SentencePiece's default normalization keeps, and all white space.
_NEXT_LINE = "\x85"
_WHITE_SPACE = "\t\n\x0b\x0c\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
_COLLAPSED = ({"Regex": " {2,}"}, (" ", SPACE))


def json_numbers(parts: JsonParts) -> dict[str, int]:
    """Returns the vocabulary of a Unigram or BPE model, from tokens to ids."""
    vocabulary = parts.model.get("vocab")
    if parts.model.get("type") == "Unigram":
        pieces = _unigram_pieces(parts)
        vocabulary = {piece: number for number, (piece, _) in enumerate(pieces)}
        if len(vocabulary) != len(pieces):
            raise parts.refuse("has a piece twice.")
    return parts.files.vocabulary(vocabulary, TOKENIZER)


def model_of_json(parts: JsonParts) -> tuple[Any, dict[str, Any]]:
    """Returns the SentencePiece model, and arguments of `PretrainedSentencePieceTokenizer`.

    Args:
        parts: The parts of the `tokenizer.json`.
    """
    from sentencepiece import sentencepiece_model_pb2

    model: Any = sentencepiece_model_pb2.ModelProto()
    is_unigram = parts.model.get("type") == "Unigram"
    model.trainer_spec.model_type = (
        model.trainer_spec.UNIGRAM if is_unigram else model.trainer_spec.BPE
    )
    model.trainer_spec.byte_fallback = parts.model.get("byte_fallback") is True
    options, splits = _set_normalizer(parts, model.normalizer_spec)
    scores = _unigram_scores(parts) if is_unigram else _byte_pair_scores(parts)
    special = {each.content for each in parts.files.added.values() if each.is_special}
    unknown = _unknown_token(parts)
    for piece, score in scores.items():
        if piece in special or piece == unknown or (splits and SPACE in piece[1:]):
            continue
        is_byte = model.trainer_spec.byte_fallback and piece.startswith("<0x") and len(piece) == 6
        kind = model.SentencePiece.BYTE if is_byte else model.SentencePiece.NORMAL
        model.pieces.add(piece=piece, score=score, type=kind)
    model.pieces.add(piece=unknown or "<no unknown>", type=model.SentencePiece.UNKNOWN)
    try:
        return parse_model(model.SerializeToString()), options
    except UserError as error:
        raise error.at(parts.files.directory / TOKENIZER) from error


def _unknown_token(parts: JsonParts) -> str | None:
    if parts.model.get("type") != "Unigram":
        token = parts.model.get("unk_token")
        if token is not None and not isinstance(token, str):
            raise parts.refuse("has an 'unk_token' that is not a string.")
        return token
    number, pieces = parts.model.get("unk_id"), _unigram_pieces(parts)
    if number is None:
        return None
    if type(number) is not int or not 0 <= number < len(pieces):
        raise parts.refuse("has an 'unk_id' outside of the vocabulary.")
    return pieces[number][0]


def _unigram_pieces(parts: JsonParts) -> list[tuple[str, float]]:
    vocabulary = parts.model.get("vocab")
    pieces: list[tuple[str, float]] = []
    for each in vocabulary if isinstance(vocabulary, list) else [None]:
        piece, score = each if isinstance(each, list) and len(each) == 2 else (None, None)
        is_number = type(score) in (int, float) and math.isfinite(score or 0)
        if not isinstance(piece, str) or score is None or not is_number:
            raise parts.refuse("has a vocabulary that is not a list of pieces and scores.")
        pieces.append((piece, float(score)))
    return pieces


def _unigram_scores(parts: JsonParts) -> dict[str, float]:
    parts.require(parts.model, "'model'", unk_id=(), vocab=(), byte_fallback=(None, True, False))
    return dict(_unigram_pieces(parts))


def _byte_pair_scores(parts: JsonParts) -> dict[str, float]:
    """Returns the scores of the tokens that the merges reach; see `byte_pair_model`."""
    parts.require(
        parts.model,
        "'model'",
        dropout=(None,),
        unk_token=(),
        continuing_subword_prefix=(None, ""),
        end_of_word_suffix=(None, ""),
        fuse_unk=(True, False) if parts.model.get("byte_fallback") else (True,),
        byte_fallback=(None, True, False),
        ignore_merges=(None, False),
        vocab=(),
        merges=(),
    )
    numbers, merges = json_numbers(parts), read_merges(parts.model.get("merges"))
    if merges is None:
        raise parts.refuse("has merges that are not pairs of tokens.")
    ranks: dict[tuple[str, str], int] = {}
    for rank, (left, right) in enumerate(merges):
        if not {left, right, left + right} <= numbers.keys():
            raise parts.refuse(f"has a merge of {left!r} and {right!r} with an unknown token.")
        ranks.setdefault((left, right), rank)
    scores = merge_scores(ranks)
    fallback = {f"<0x{byte:02X}>" for byte in range(256)}
    reached = {
        token: 0.0 if len(token) == 1 or token in fallback else scores[token]
        for token in numbers
        if token in fallback or len(token) == 1 or token in scores
        if token in fallback or merged(token, ranks) == [token]
    }
    _check(parts, reached, ranks, fallback)
    return reached


def _check(
    parts: JsonParts,
    scores: dict[str, float],
    ranks: dict[tuple[str, str], int],
    fallback: set[str],
) -> None:
    from sentencepiece import sentencepiece_model_pb2

    plain: Any = sentencepiece_model_pb2.ModelProto()
    plain.trainer_spec.model_type = plain.trainer_spec.BPE
    for key in ("add_dummy_prefix", "remove_extra_whitespaces", "escape_whitespaces"):
        setattr(plain.normalizer_spec, key, False)
    for piece, score in scores.items():
        if piece not in fallback:
            plain.pieces.add(piece=piece, score=score)
    plain.pieces.add(piece="<no unknown>", type=plain.SentencePiece.UNKNOWN)
    try:
        check_merges(
            plain.SerializeToString(), [each for each in scores if each not in fallback], ranks
        )
    except UserError as error:
        raise error.at(parts.files.directory / TOKENIZER) from error


def _set_normalizer(parts: JsonParts, spec: Any) -> tuple[dict[str, Any], bool]:
    """Sets how a model normalizes texts; returns options, and whether words are split first."""
    table, collapses, begins, writes = b"", False, False, False
    for step in parts.steps("normalizer"):
        kind = step["type"]
        pattern, content = step.get("pattern"), step.get("content")
        if kind == "Precompiled":
            table = _table(parts, step)
        elif kind == "Strip":
            parts.require(step, "'normalizer'", strip_left=(True, False), strip_right=(True,))
            collapses = True
        elif kind == "Replace" and pattern == _COLLAPSED[0] and content in _COLLAPSED[1]:
            collapses = True
        elif kind == "Replace" and pattern == {"String": " "} and content == SPACE:
            writes = True
        elif kind == "Prepend":
            parts.require(step, "'normalizer'", prepend=(SPACE,))
            begins = True
        else:
            raise parts.refuse(f"normalizes texts by {kind!r}, which is not supported.")
    options: dict[str, Any] = {}
    splits = False
    for step in parts.steps("pre_tokenizer"):
        if step["type"] == "WhitespaceSplit":
            collapses = True
            options["white_space"] = _NEXT_LINE if table else _WHITE_SPACE
        elif step["type"] == "Metaspace":
            parts.require(
                step,
                "'pre_tokenizer'",
                replacement=(SPACE,),
                prepend_scheme=(None, "always", "first", "never"),
                add_prefix_space=(None, True, False),
                split=(None, True, False),
                str_rep=(None, SPACE),
            )
            scheme, adds = step.get("prepend_scheme"), step.get("add_prefix_space")
            has_prefix = scheme != "never" if scheme is not None else adds is not False
            writes, splits = True, step.get("split") is not False
            if collapses:
                begins = begins or has_prefix
            elif has_prefix:
                options["adds_space"] = True
        elif step["type"] == "Split":
            parts.require(
                step,
                "'pre_tokenizer'",
                pattern=({"String": " "},),
                behavior=("MergedWithPrevious",),
                invert=(False,),
            )
        else:
            raise parts.refuse(f"splits texts by {step['type']!r}, which is not supported.")
    if not writes:
        raise parts.refuse(f"does not write spaces as {SPACE!r}, so it is not SentencePiece's.")
    spec.precompiled_charsmap = table
    spec.add_dummy_prefix = begins
    spec.remove_extra_whitespaces = collapses
    return options, splits


def _table(parts: JsonParts, step: dict[str, Any]) -> bytes:
    content = step.get("precompiled_charsmap")
    if content is None:
        return b""
    try:
        return base64.b64decode(content, validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise parts.refuse("has a table of replacements that is not in base 64.") from error
