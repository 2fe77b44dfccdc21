"""Vocabularies of BERT and the models that share its tokenizer."""

from typing import Any

from keras_transformer.hub.tokenizer_files import SETTINGS, TokenizerFiles
from keras_transformer.hub.tokenizer_json import JsonParts

VOCABULARY = "vocab.txt"
# Settings of `tokenizer_config.json`, and their names in `BertTokenizer`.
_SETTINGS = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "splits_chinese",
}


def wordpiece_numbers(files: TokenizerFiles) -> dict[str, int]:
    """Returns the vocabulary of a WordPiece tokenizer, from tokens to ids."""
    if files.tokenizer is not None:
        return files.vocabulary(JsonParts(files).model.get("vocab"), "tokenizer.json")
    try:
        lines = files.bytes(VOCABULARY).decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise files.refuse("not UTF-8.", VOCABULARY) from error
    lines = [line.removesuffix("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]
    numbers = {token: number for number, token in enumerate(lines)}
    if len(numbers) != len(lines):
        twice = next(token for number, token in enumerate(lines) if numbers[token] != number)
        raise files.refuse(f"has the token {twice!r} twice.", VOCABULARY)
    return numbers


def bert_options(files: TokenizerFiles) -> dict[str, Any]:
    """Returns the arguments of `BertTokenizer` that a checkpoint has."""
    options: dict[str, Any] = {"lowercase": True, "strip_accents": None, "splits_chinese": True}
    if files.tokenizer is not None:
        options = _options_of_json(JsonParts(files))
    for key, name in _SETTINGS.items():
        value = files.setting(key, None, bool | None)
        if value is None:
            continue
        if files.tokenizer is not None and value != options[name] and options[name] is not None:
            problem = f"has {value} for {key!r}, but tokenizer.json has {options[name]}."
            raise files.refuse(problem, SETTINGS)
        options[name] = value
    return options


def _options_of_json(parts: JsonParts) -> dict[str, Any]:
    model = parts.model
    parts.require(
        model,
        "'model'",
        unk_token=(),
        continuing_subword_prefix=("##",),
        max_input_chars_per_word=(),
        vocab=(),
    )
    options: dict[str, Any] = {"max_characters": model.get("max_input_chars_per_word", 100)}
    normalizers, splitters = parts.steps("normalizer"), parts.steps("pre_tokenizer")
    if [each["type"] for each in normalizers + splitters] != ["BertNormalizer", "BertPreTokenizer"]:
        kinds = ", ".join(each["type"] for each in normalizers + splitters)
        raise parts.refuse(f"splits words by {kinds or 'nothing'}; supported are BERT's rules.")
    parts.require(
        normalizers[0],
        "'normalizer'",
        clean_text=(True,),
        handle_chinese_chars=(True, False),
        strip_accents=(True, False, None),
        lowercase=(True, False),
    )
    options["splits_chinese"] = normalizers[0]["handle_chinese_chars"]
    options["strip_accents"] = normalizers[0].get("strip_accents")
    options["lowercase"] = normalizers[0]["lowercase"]
    return options
