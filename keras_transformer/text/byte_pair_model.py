"""Byte-level BPE vocabularies as SentencePiece models, for the fast operation of SentencePiece.

A vocabulary has tokens of bytes and merges of two tokens in the order in which they apply. The
operation of SentencePiece merges the two neighbors whose joined piece has the highest score, on
characters. So byte n is written as the character U+00n (Latin-1), and the score of a piece is the
number of its merge, negated.

Unlike the original algorithm, the operation merges any two neighbors that join to a piece, also
those that the vocabulary does not list. This makes no difference if each listed merge is reached:
if `l` and `r` are neighbors when the merges before that of `lr` are done, then these merges alone
split the bytes of `lr` into `l` and `r`, so that the vocabulary's merge of `lr` joins just them.
Tokens that are not reached are left out of the search, and the claim is checked on many strings.
"""

import itertools
import random
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from keras_transformer._utils.errors import UserError
from keras_transformer.text.sentencepiece_pieces import CONTROL, ONLY_JOINED

# Pairs of tokens on which a model is compared with the original algorithm.
_COMPARED = 2000
_LONGEST_TOKEN = 500


def _characters_of_bytes() -> list[str]:
    """Returns the printable character by which GPT-2's vocabularies write each byte."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = itertools.count(0x100)
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


#: The printable character of each byte in vocabularies: "Ġ" is a space, "Ċ" a line break.
BYTE_CHARACTERS: tuple[str, ...] = tuple(_characters_of_bytes())
_BYTES = {character: byte for byte, character in enumerate(BYTE_CHARACTERS)}


def token_bytes(token: str) -> bytes | None:
    """Returns the bytes of a token of a vocabulary, or None if a character is not of the alphabet.

    >>> token_bytes("Ġthe")
    b' the'
    """
    numbers = [_BYTES.get(character) for character in token]
    return None if None in numbers else bytes(n for n in numbers if n is not None)


def byte_pair_model(
    tokens: Sequence[str],
    merges: Sequence[tuple[str, str]],
    without_text: Collection[int],
    only_joined: Collection[int] = (),
) -> bytes:
    """Returns the SentencePiece model of a vocabulary, whose piece n is `tokens[n]`.

    Args:
        tokens: Token of each id, in GPT-2's alphabet of bytes.
        merges: Pairs of tokens, the first to be merged first.
        without_text: Ids without a text, such as those of special tokens.
        only_joined: Ids with a text that tokenization never produces. Default: none.
    """
    from sentencepiece import sentencepiece_model_pb2

    apart = {*without_text, *only_joined}
    contents = [None if n in apart else token_bytes(token) for n, token in enumerate(tokens)]
    numbers = {content: n for n, content in enumerate(contents) if content}
    if len(numbers) != sum(bool(content) for content in contents):
        raise UserError("two tokens of the vocabulary have the same bytes.")
    missing = next((byte for byte in range(0x20, 0x7F) if bytes([byte]) not in numbers), None)
    if missing is not None:
        raise UserError(f"the vocabulary has no token for the byte 0x{missing:02X}.")
    if max(map(len, numbers)) > _LONGEST_TOKEN:
        raise UserError(f"a token has more than {_LONGEST_TOKEN} bytes.")
    ranks = _ranks(merges, frozenset(numbers))
    scores = merge_scores(ranks)
    model: Any = sentencepiece_model_pb2.ModelProto()
    for number, (token, content) in enumerate(zip(tokens, contents, strict=True)):
        score = 0.0 if content is None or len(content) == 1 else scores.get(content)
        if score is not None and content and merged(content, ranks) == [content]:
            model.pieces.add(piece=content.decode("latin-1"), score=score)
        else:
            name = (CONTROL if number in without_text else ONLY_JOINED) + token
            model.pieces.add(piece=name, type=model.SentencePiece.CONTROL)
    model.pieces.add(piece=f"{CONTROL}unknown", type=model.SentencePiece.UNKNOWN)
    model.trainer_spec.model_type = model.trainer_spec.BPE
    for key in ("add_dummy_prefix", "remove_extra_whitespaces", "escape_whitespaces"):
        setattr(model.normalizer_spec, key, False)
    model.normalizer_spec.name = "identity"
    content = model.SerializeToString(deterministic=True)
    check_merges(content, list(numbers), ranks)
    return content


# Bytes of a byte-level vocabulary, or characters of another one.
_Token = TypeVar("_Token", bytes, str)
_Ranks: TypeAlias = Mapping[tuple[_Token, _Token], int]


def _ranks(merges: Sequence[tuple[str, str]], numbers: frozenset[bytes]) -> _Ranks[bytes]:
    ranks: dict[tuple[bytes, bytes], int] = {}
    for rank, (left, right) in enumerate(merges):
        pair = token_bytes(left), token_bytes(right)
        if not pair[0] or not pair[1] or not {*pair, pair[0] + pair[1]} <= numbers:
            problem = f"the merge of {left!r} and {right!r} uses an unknown token."
            raise UserError(problem)
        ranks.setdefault((pair[0], pair[1]), rank)
    return ranks


def merge_scores(ranks: _Ranks[_Token]) -> dict[_Token, float]:
    """Returns the score of each token that a merge makes: higher for earlier merges.

    Args:
        ranks: Number of each merge, by its pair of tokens.
    """
    first: dict[_Token, int] = {}
    for (left, right), rank in ranks.items():
        joined = left + right
        first[joined] = min(rank, first.get(joined, rank))
    return {token: -float(rank + 1) for token, rank in first.items()}


def merged(content: _Token, ranks: _Ranks[_Token]) -> list[_Token]:
    """Returns the tokens of a text by the original algorithm: the first merge, repeatedly.

    Args:
        content: The text.
        ranks: Number of each merge, by its pair of tokens.
    """
    parts = [content[n : n + 1] for n in range(len(content))]
    while len(parts) > 1:
        pairs = enumerate(itertools.pairwise(parts))
        found = [(ranks[pair], n) for n, pair in pairs if pair in ranks]
        if not found:
            break
        _, place = min(found)
        parts[place : place + 2] = [parts[place] + parts[place + 1]]
    return parts


def check_merges(model: bytes, tokens: Sequence[_Token], ranks: _Ranks[_Token]) -> None:
    """Raises a `UserError` unless a model splits many texts as the original algorithm does.

    Args:
        model: The SentencePiece model, which changes no character.
        tokens: Tokens of which the texts are made: bytes, which the model writes in Latin-1, or
            characters.
        ranks: Number of each merge, by its pair of tokens.
    """
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    draws = random.Random(1)
    for _ in range(_COMPARED):
        first, second = draws.choices(tokens, k=2)
        text = (first + second)[:60]
        wanted = merged(text, ranks)
        if isinstance(text, bytes):
            found: Any = processor.encode(text.decode("latin-1"), out_type=str)
            found = [piece.encode("latin-1") for piece in found]
        else:
            found = processor.encode(text, out_type=str)
        if found != wanted:
            problem = f"the order of the merges is unusual: {text!r} would be split wrongly."
            raise UserError(problem, fix="Report the tokenizer; it is not supported.")
