"""Conversion of the tokenizer of a GGUF file to Hugging Face's `tokenizer.json`."""

import json
import pathlib
from collections.abc import Mapping
from typing import Any

from keras_transformer._utils.errors import UserError
from keras_transformer.hub.byte_pair_files import steps_of_pattern
from keras_transformer.hub.tokenizer_files import SETTINGS, TOKENIZER

# Kinds of splitting by the value of "tokenizer.ggml.pre": our pattern, and whether texts are
# normalized and whole words are looked up before they are split.
_PRE: dict[str, tuple[str, bool, bool]] = {
    "default": ("gpt2", False, False),
    "gpt-2": ("gpt2", False, False),
    "smollm": ("gpt2_digits", False, False),
    "llama-bpe": ("llama3", False, True),
    "llama3": ("llama3", False, True),
    "qwen2": ("qwen2", True, False),
}
# Types of tokens.
_CONTROL, _USER_DEFINED = 3, 4


def write_tokenizer(metadata: Mapping[str, Any], directory: pathlib.Path, where: Any) -> None:
    """Writes the tokenizer of a GGUF file as `tokenizer.json` and `tokenizer_config.json`.

    Args:
        metadata: Metadata of the file.
        directory: Directory to write to.
        where: Path of the GGUF file, for messages.
    """
    prefix = "tokenizer.ggml."
    kind, pre = metadata.get(f"{prefix}model"), metadata.get(f"{prefix}pre", "default")
    if kind != "gpt2" or pre not in _PRE:
        is_known = kind == "gpt2"
        known = ", ".join(_PRE) if is_known else "gpt2"
        raise UserError(
            f"the tokenizer {pre if is_known else kind!r} is not supported; supported: {known}.",
            where=where,
            argument=f"{prefix}{'pre' if is_known else 'model'}",
            fix="Import the directory of the model as Hugging Face stores it.",
        )
    keys = ("tokens", "token_type", "merges")
    tokens, types, merges = (metadata.get(prefix + key) for key in keys)
    if not isinstance(tokens, list) or not isinstance(merges, list) or not tokens:
        raise UserError("the tokenizer has no tokens or no merges.", where=where)
    if not isinstance(types, list) or len(types) != len(tokens):
        types = [1] * len(tokens)
    added = [
        {"id": number, "content": token, "special": kind == _CONTROL}
        for number, (token, kind) in enumerate(zip(tokens, types, strict=True))
        if kind in (_CONTROL, _USER_DEFINED)
    ]
    pattern, normalizes, whole_words = _PRE[pre]
    content = {
        "added_tokens": added,
        "normalizer": {"type": "NFC"} if normalizes else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps_of_pattern(pattern)},
        "model": {
            "type": "BPE",
            "ignore_merges": whole_words,
            "vocab": {token: number for number, token in enumerate(tokens)},
            "merges": merges,
        },
    }
    if len(content["model"]["vocab"]) != len(tokens):
        raise UserError("the tokenizer has a token twice.", where=where)
    (directory / TOKENIZER).write_text(json.dumps(content), encoding="utf-8")
    (directory / SETTINGS).write_text(json.dumps({"tokenizer_class": "GPT2Tokenizer"}))
