"""Check of SentencePiece models of any maker, and their pieces in the order of other ids."""

import io
import struct

import numpy as np
import pytest
import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from keras_transformer._utils.errors import UserError
from keras_transformer.text.sentencepiece_pieces import (
    arrange_pieces,
    find_unsafe_part,
    parse_model,
)

LINES = ["ein Haus am See", "ein Boot am Haus", "am See ein Boot", "Ⅷ ﬁn"] * 10


@pytest.fixture(scope="module")
def content():
    """Returns a model with the library's usual table of replacements."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES),
        model_writer=model,
        vocab_size=40,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return model.getvalue()


def changed(content, change):
    model = sentencepiece_model_pb2.ModelProto.FromString(content)
    change(model)
    return model.SerializeToString()


def test_model_of_the_library_is_safe(content):
    assert find_unsafe_part(content) is None


def set_offset(table, node, offset):
    """Lets the children of a node lie elsewhere."""
    units = np.frombuffer(table[4 : 4 + struct.unpack_from("<I", table)[0]], np.uint32).copy()
    units[node] = (int(units[node]) & 0x3FF) | (offset << 10)
    return table[:4] + units.tobytes() + table[4 + units.nbytes :]


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table[:3],
        lambda table: table[:1000],
        lambda table: table[:-1] + b"x",
        lambda table: struct.pack("<I", 1 << 31) + table[4:],
        lambda table: struct.pack("<I", 0) + table[4:],
        lambda table: set_offset(table, 0, (1 << 22) - 1),
        lambda table: set_offset(table, 0, (len(table) >> 2) | 255),
        lambda table: table[: 4 + struct.unpack_from("<I", table)[0]] + b"\0",
    ],
    ids=["short", "cut", "open", "huge", "empty", "root-outside", "at-the-end", "no-texts"],
)
def test_damaged_table_of_replacements_is_unsafe(content, change):
    def damage(model):
        normalizer = model.normalizer_spec
        normalizer.precompiled_charsmap = change(normalizer.precompiled_charsmap)

    assert "replacements" in str(find_unsafe_part(changed(content, damage)))


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        (lambda model: setattr(model.trainer_spec, "model_type", 4), "neither unigram nor BPE"),
        (lambda model: setattr(model.trainer_spec, "byte_fallback", True), "byte fallback"),
        (lambda model: setattr(model.pieces[5], "score", float("nan")), "not finite"),
        (lambda model: setattr(model.pieces[5], "piece", ""), "piece does not have 1"),
        (lambda model: setattr(model.pieces[5], "piece", "x" * 1001), "piece does not have 1"),
        (lambda model: setattr(model.pieces[5], "piece", "a\0b"), "U\\+0000"),
        (lambda model: setattr(model.pieces[5], "piece", model.pieces[6].piece), "twice"),
        (lambda model: setattr(model.pieces[5], "type", 2), "one unknown"),
        (lambda model: model.ClearField("pieces"), "0 pieces"),
    ],
)
def test_unsafe_model_is_refused_with_the_reason(content, change, facts):
    with pytest.raises(UserError, match=facts):
        parse_model(changed(content, change))


@pytest.mark.parametrize("junk", [b"\xff" * 50, b"\x0a\x05ab"])
def test_junk_is_refused(junk):
    with pytest.raises(UserError, match="SentencePiece"):
        parse_model(junk)


def test_piece_that_is_not_utf8_is_refused(content):
    with pytest.raises(UserError, match="UTF-8"):
        parse_model(content.replace("▁See".encode(), b"\xff" * 6, 1))


def test_arranged_pieces_have_the_ids_of_the_tokens(content):
    model = parse_model(content)
    pieces = [each.piece for each in model.pieces]
    tokens = ["<pad>", "<unk>", *reversed(pieces[3:]), "only in the vocabulary", "<x>"]
    arranged = arrange_pieces(model, tokens, unknown=1, controls={0, len(tokens) - 1})
    assert find_unsafe_part(arranged) is None
    before = sentencepiece.SentencePieceProcessor(model_proto=content)
    after = sentencepiece.SentencePieceProcessor(model_proto=arranged)
    for line in [*LINES[:4], "Ⅷ ö"]:
        found = before.encode(line, out_type=str)
        wanted = [tokens.index(piece) if piece in tokens else 1 for piece in found]
        assert after.encode(line) == wanted


def test_pieces_that_are_no_tokens_keep_their_part_in_the_search(content):
    model = parse_model(content)
    pieces = [each.piece for each in model.pieces]
    arranged = arrange_pieces(model, ["<unk>", *pieces[3:8]], unknown=0, controls=())
    before = sentencepiece.SentencePieceProcessor(model_proto=content)
    after = sentencepiece.SentencePieceProcessor(model_proto=arranged)
    for line in LINES[:4]:
        assert after.encode(line, out_type=str) == before.encode(line, out_type=str)
