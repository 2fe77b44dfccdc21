"""SentencePiece models of checkpoints as tokenizers with the ids of the checkpoint."""

from collections.abc import Sequence
from typing import Any

from keras_transformer._utils.errors import UserError
from keras_transformer.hub.tokenizer_files import MAX_IDS, TokenizerFiles, is_markup
from keras_transformer.text.pretrained_sentencepiece_tokenizer import (
    PretrainedSentencePieceTokenizer,
)
from keras_transformer.text.sentencepiece_pieces import arrange_pieces, parse_model
from keras_transformer.text.special_ids import SpecialIds
from keras_transformer.text.template import Template

MARIAN_FILES = ("source.spm", "target.spm", "vocab.json")
M2M_FILES = ("sentencepiece.bpe.model", "vocab.json")
#: Names of files with a model whose ids follow from the kind of tokenizer.
MODEL_FILES = ("sentencepiece.bpe.model", "spiece.model", "tokenizer.model", "spm.model")

# Kinds whose first ids are those of fairseq, followed by the pieces of the model from number 3.
_FAIRSEQ = ("Nllb", "MBart", "MBart50", "XLMRoberta")
_FAIRSEQ_TOKENS = ("<s>", "<pad>", "</s>", "<unk>")
# Kinds whose ids are the numbers of the pieces.
_PLAIN = ("T5", "MT5", "Llama", "CodeLlama", "Gemma", "Mistral", "")


def read_model(files: TokenizerFiles, name: str) -> Any:
    """Returns the SentencePiece model in a file, if it is safe."""
    try:
        return parse_model(files.bytes(name))
    except UserError as error:
        raise error.at(files.directory / name) from error


def tokens_of_vocabulary(files: TokenizerFiles) -> list[str]:
    """Returns the token of each id for a checkpoint with a `vocab.json`."""
    numbers = files.vocabulary(files.json("vocab.json"), "vocab.json")
    if files.kind == "M2M100Tokenizer" or files.model_type == "m2m_100":
        numbers = {**numbers}
        codes = [code for code in files.more_special_tokens if code not in numbers]
        for code in codes or _added_after(files, len(numbers)):
            numbers[code] = len(numbers)
    return with_added(files, numbers)


def _added_after(files: TokenizerFiles, size: int) -> list[str]:
    return [files.added[number].content for number in sorted(files.added) if number >= size]


def with_added(files: TokenizerFiles, numbers: dict[str, int]) -> list[str]:
    """Returns the token of each id, with added tokens, and names for ids without a token."""
    tokens = {number: token for token, number in numbers.items()}
    for number, added in files.added.items():
        if tokens.setdefault(number, added.content) != added.content:
            problem = f"gives the id {number} to {tokens[number]!r} and to {added.content!r}."
            raise files.refuse(problem, "tokenizer_config.json")
    size = files.config.get("vocab_size", 0)
    if type(size) is not int or not 0 <= size < MAX_IDS:
        raise files.refuse(f"has the vocabulary size {size!r}.", "config.json")
    if size and max(tokens) >= size:
        problem = (
            f"has the vocabulary size {size}, but {tokens[max(tokens)]!r} has the id {max(tokens)}."
        )
        raise files.refuse(problem, "config.json")
    return [tokens.get(n, f"<unused {n}>") for n in range(max(size, max(tokens) + 1))]


def tokens_of_model(files: TokenizerFiles, model: Any) -> list[str]:
    """Returns the token of each id for a checkpoint with a model and no vocabulary file."""
    kind = files.kind.removesuffix("Tokenizer")
    pieces = [each.piece for each in model.pieces]
    if kind in _FAIRSEQ:
        tokens = [*_FAIRSEQ_TOKENS, *pieces[3:]]
        if kind != "XLMRoberta":
            tokens += [each for each in files.more_special_tokens if each not in _FAIRSEQ_TOKENS]
        if "<mask>" not in tokens:
            tokens.append("<mask>")
    elif kind == "Pegasus":
        offset = files.setting("offset", 103, int)
        if not 4 <= offset <= 1000:
            raise files.refuse(f"has the value {offset} for 'offset'.", "tokenizer_config.json")
        first = ["<pad>", "</s>", "<mask_1>", "<mask_2>"]
        tokens = [*first, *(f"<unk_{n}>" for n in range(2, offset)), *pieces[2:]]
    elif kind in _PLAIN:
        tokens = pieces
        if kind in ("T5", "MT5"):
            count = files.setting("extra_ids", 100, int)
            if not 0 <= count <= 1000:
                raise files.refuse(
                    f"has the value {count} for 'extra_ids'.", "tokenizer_config.json"
                )
            tokens = [*tokens, *(f"<extra_id_{n}>" for n in reversed(range(count)))]
    else:
        known = ", ".join(f"{name}Tokenizer" for name in (*_FAIRSEQ, "Pegasus", *_PLAIN) if name)
        problem = f"has a SentencePiece model for {files.kind!r}; supported are {known}."
        raise files.refuse(problem, "tokenizer_config.json")
    return with_added(files, {token: number for number, token in enumerate(tokens)})


def sentencepiece_tokenizer(
    files: TokenizerFiles,
    model: Any,
    tokens: Sequence[str],
    special_ids: SpecialIds,
    template: Template,
    **options: Any,
) -> PretrainedSentencePieceTokenizer:
    """Returns the tokenizer of a model with the ids of `tokens`.

    Args:
        files: The files, whose added tokens without a text are found.
        model: The model, from `read_model`.
        tokens: Token of each id.
        special_ids: Special ids.
        template: Ids around each text.
        **options: Further arguments of `PretrainedSentencePieceTokenizer`.
    """
    in_model = {each.piece: each.type for each in model.pieces}
    controls = {n for n, token in enumerate(tokens) if in_model.get(token) in (2, 3)}
    controls |= {*special_ids.ids, *template.ids}
    for number, added in files.added.items():
        if added.is_special:
            controls.add(number)
        elif in_model.get(added.content) == 4 or is_markup(added.content):
            continue
        elif number not in controls:
            problem = f"adds the token {added.content!r}, which the model does not have."
            fix = "Tokens that were added to the text's vocabulary are not supported."
            raise files.refuse(problem, "tokenizer_config.json", fix)
    controls |= {n for n, token in enumerate(tokens) if token in set(files.more_special_tokens)}
    controls |= {
        n for n, token in enumerate(tokens) if token.startswith(("<unused ", "<extra_id_"))
    }
    arranged = arrange_pieces(model, tokens, special_ids.unknown, controls)
    return PretrainedSentencePieceTokenizer(arranged, len(tokens), special_ids, template, **options)
