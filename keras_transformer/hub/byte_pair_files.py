"""Byte-level BPE vocabularies of checkpoints."""

from collections.abc import Sequence
from typing import Any

from keras_transformer._utils.errors import UserError
from keras_transformer.hub.tokenizer_files import SETTINGS, TOKENIZER, TokenizerFiles, is_markup
from keras_transformer.hub.tokenizer_json import JsonParts
from keras_transformer.text.byte_pair_model import byte_pair_model
from keras_transformer.text.byte_pair_tokenizer import BytePairTokenizer
from keras_transformer.text.special_ids import SpecialIds
from keras_transformer.text.template import Template

BYTE_PAIR_FILES = ("vocab.json", "merges.txt")
_MAX_MERGES = 1 << 20

_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|NUMBER| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# Patterns that split texts into words, by their names in `BytePairTokenizer`.
_PATTERNS = {
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+": "gpt2",
    _LLAMA3.replace("NUMBER", r"\p{N}{1,3}"): "llama3",
    _LLAMA3.replace("NUMBER", r"\p{N}"): "qwen2",
}
# Kinds whose `vocab.json` and `merges.txt` are read without a `tokenizer.json`.
_OPTIONS: dict[str, dict[str, Any]] = {
    "GPT2": {"pattern": "gpt2"},
    "Roberta": {"pattern": "gpt2"},
    "Bart": {"pattern": "gpt2"},
    "Qwen2": {"pattern": "qwen2", "normalizes": True},
}
_WITH_START_AND_END = ("Roberta", "Bart")


def byte_pair_numbers(files: TokenizerFiles) -> dict[str, int]:
    """Returns the vocabulary of a byte-level BPE tokenizer, from tokens to ids."""
    if files.tokenizer is not None:
        return files.vocabulary(JsonParts(files).model.get("vocab"), TOKENIZER)
    return files.vocabulary(files.json("vocab.json"), "vocab.json")


def byte_pair_tokenizer(
    files: TokenizerFiles, tokens: Sequence[str], special_ids: SpecialIds
) -> BytePairTokenizer:
    """Returns the tokenizer of a byte-level BPE vocabulary.

    Args:
        files: The files.
        tokens: Token of each id.
        special_ids: Special ids.
    """
    kind = files.kind.removesuffix("Tokenizer")
    template = None
    if files.tokenizer is not None:
        parts = JsonParts(files)
        options, template = _options_of_json(parts), parts.template(tokens)
        merges, where = read_merges(parts.model.get("merges")), TOKENIZER
    elif kind in _OPTIONS:
        options, where = dict(_OPTIONS[kind]), "merges.txt"
        lines = files.bytes(where).decode("utf-8", "replace").split("\n")
        merges = read_merges([line for line in lines if line and not line.startswith("#version")])
    else:
        known = ", ".join(f"{name}Tokenizer" for name in _OPTIONS)
        problem = f"has byte pairs for {files.kind!r}; without a tokenizer.json, known are {known}."
        raise files.refuse(problem, SETTINGS)
    if merges is None:
        raise files.refuse("has merges that are not pairs of tokens.", where)
    if files.setting("add_prefix_space", None, bool | None) not in (
        None,
        options.get("adds_space"),
    ):
        if files.tokenizer is not None:
            raise files.refuse("has a different 'add_prefix_space' than tokenizer.json.", SETTINGS)
        options["adds_space"] = files.setting("add_prefix_space")
    if template is None and kind in _WITH_START_AND_END:
        cls, sep = (
            files.token(f"{role}_token") or token
            for role, token in (("cls", "<s>"), ("sep", "</s>"))
        )
        template = Template((list(tokens).index(cls),), (list(tokens).index(sep),))
    if template is None or not template.suffix:
        template = Template()  # a language model, whose texts begin with the start id
    for key in ("add_bos_token", "add_eos_token"):
        files.setting(key)
    controls = {*special_ids.ids, *template.ids}
    controls |= {number for number, added in files.added.items() if added.is_special}
    special = {
        *files.more_special_tokens,
        "<|endoftext|>",
        "<s>",
        "<pad>",
        "</s>",
        "<unk>",
        "<mask>",
    }
    controls |= {number for number, token in enumerate(tokens) if token in special}
    controls |= {n for n, token in enumerate(tokens) if token.startswith("<unused ")}
    # Added tokens such as "<tool_call>" are markup, which tokenization never produces.
    only_joined = {n for n, added in files.added.items() if not added.is_special} - controls
    for number in only_joined:
        text = tokens[number]
        if not is_markup(text):
            problem = f"adds the token {text!r} to ordinary text, which is not supported."
            raise files.refuse(problem, SETTINGS)
    try:
        model = byte_pair_model(tokens, merges, controls, only_joined)
    except UserError as error:
        raise error.at(files.directory / where) from error
    clean_up = files.flag("clean_up_tokenization_spaces", False)
    return BytePairTokenizer(
        model, len(tokens), special_ids, template, clean_up=clean_up, **options
    )


def read_merges(merges: Any) -> list[tuple[str, str]] | None:
    """Returns merges, each given as "left right" or as two tokens; None if one is neither.

    Args:
        merges: The merges, of any type.
    """
    if not isinstance(merges, list) or len(merges) > _MAX_MERGES:
        return None
    pairs = []
    for each in merges:
        parts = each.split(" ") if isinstance(each, str) else each
        if not isinstance(parts, list) or len(parts) != 2:
            return None
        left, right = parts
        if not isinstance(left, str) or not isinstance(right, str):
            return None
        pairs.append((left, right))
    return pairs


def steps_of_pattern(name: str) -> list[dict[str, Any]]:
    """Returns the steps of a `tokenizer.json` that split texts by a pattern, such as "llama3"."""
    last = {"type": "ByteLevel", "add_prefix_space": False}
    if name == "gpt2":
        return [last]
    if name == "gpt2_digits":
        return [{"type": "Digits", "individual_digits": True}, last]
    regex = next(regex for regex, each in _PATTERNS.items() if each == name)
    split = {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated"}
    return [{**split, "invert": False}, {**last, "use_regex": False}]


def is_byte_level(parts: JsonParts) -> bool:
    """Returns whether a `tokenizer.json` splits words into bytes."""
    return any(step["type"] == "ByteLevel" for step in parts.steps("pre_tokenizer"))


def _options_of_json(parts: JsonParts) -> dict[str, Any]:
    parts.require(
        parts.model,
        "'model'",
        dropout=(None,),
        unk_token=(),
        continuing_subword_prefix=(None, ""),
        end_of_word_suffix=(None, ""),
        fuse_unk=(None, True, False),
        byte_fallback=(None, False),
        ignore_merges=(None, True, False),
        vocab=(),
        merges=(),
    )
    normalizers = [step["type"] for step in parts.steps("normalizer")]
    if normalizers not in ([], ["NFC"]):
        raise parts.refuse(f"normalizes texts by {', '.join(normalizers)}, which is not supported.")
    steps = parts.steps("pre_tokenizer")
    *before, last = steps
    parts.require(
        last,
        "'pre_tokenizer'",
        add_prefix_space=(True, False),
        trim_offsets=(),
        use_regex=(None, True, False),
    )
    uses_pattern = last.get("use_regex") is not False
    kinds = [step["type"] for step in steps]
    if kinds == ["ByteLevel"] and uses_pattern:
        pattern = "gpt2"
    elif kinds == ["Digits", "ByteLevel"] and uses_pattern:
        parts.require(before[0], "'pre_tokenizer'", individual_digits=(True,))
        pattern = "gpt2_digits"
    elif kinds == ["Split", "ByteLevel"] and not uses_pattern:
        parts.require(
            before[0], "'pre_tokenizer'", pattern=(), behavior=("Isolated",), invert=(False,)
        )
        given = before[0].get("pattern")
        regex = given.get("Regex") if isinstance(given, dict) else None
        if regex not in _PATTERNS:
            raise parts.refuse(
                f"splits texts by a pattern that is not supported: {str(regex)[:60]!r}."
            )
        pattern = _PATTERNS[regex]
    else:
        raise parts.refuse(f"splits texts by {', '.join(kinds)}, which is not supported.")
    return {
        "pattern": pattern,
        "normalizes": bool(normalizers),
        "adds_space": last["add_prefix_space"],
        "whole_words": parts.model.get("ignore_merges") is True,
    }
