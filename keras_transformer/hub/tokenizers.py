"""Tokenizers of checkpoints, from the files that Hugging Face stores, as graph operations."""

from collections.abc import Mapping, Sequence
from typing import Any

from keras_transformer._utils.errors import UserError
from keras_transformer._utils.types import Path
from keras_transformer.hub.byte_pair_files import (
    BYTE_PAIR_FILES,
    byte_pair_numbers,
    byte_pair_tokenizer,
    is_byte_level,
)
from keras_transformer.hub.sentencepiece_files import (
    M2M_FILES,
    MARIAN_FILES,
    MODEL_FILES,
    read_model,
    sentencepiece_tokenizer,
    tokens_of_model,
    tokens_of_vocabulary,
    with_added,
)
from keras_transformer.hub.sentencepiece_json import json_numbers, model_of_json
from keras_transformer.hub.tokenizer_files import TokenizerFiles
from keras_transformer.hub.tokenizer_json import JsonParts
from keras_transformer.hub.wordpiece_files import VOCABULARY, bert_options, wordpiece_numbers
from keras_transformer.text.bert_tokenizer import BertTokenizer
from keras_transformer.text.special_ids import SpecialIds
from keras_transformer.text.template import Template
from keras_transformer.text.tokenizer_pair import TokenizerPair

# Model types whose decoder starts with the padding id, or with the end id, by default.
_START_WITH_PADDING = ("marian", "t5", "mt5", "umt5", "pegasus")
_START_WITH_END = ("bart", "m2m_100", "mbart")
_TRANSLATION = (*_START_WITH_PADDING, *_START_WITH_END)
# Kinds that spell unknown characters in bytes. Their SentencePiece models are preferred to a
# `tokenizer.json`, which contains less information.
_WITH_BYTES = ("Llama", "CodeLlama", "Gemma", "Mistral")
# How each kind writes the code of a language, and the default of the source.
_LANGUAGES = {
    "Marian": (">>{}<<", None),
    "M2M100": ("__{}__", "en"),
    "Nllb": ("{}", "eng_Latn"),
    "MBart": ("{}", "en_XX"),
    "MBart50": ("{}", "en_XX"),
}


def load_tokenizer(
    directory: Path,
    config: Mapping[str, Any] | None = None,
    source_language: str | None = None,
    target_language: str | None = None,
) -> TokenizerPair:
    """Returns the tokenizers of a checkpoint, with the ids that Hugging Face's tokenizers give.

    Special tokens in a text stay text: "</s>" is not the end of a source. Settings and tokens that
    are not known are refused by name, because they may change the ids.

    Args:
        directory: Directory with the tokenizer's files: `source.spm`, `target.spm` and
            `vocab.json`; a SentencePiece model such as `spiece.model`; or others.
        config: Content of `config.json`. Default: read from the directory, if it is there.
        source_language: Code of the source's language, such as "eng_Latn", for multilingual models.
            Default: that of the files.
        target_language: Code of the target's language. Default: that of the files.

    Example:

    ```python
    tokenizers = keras_transformer.hub.load_tokenizer("opus-mt-en-de")
    ids = tokenizers.source.with_template(tokenizers.source.tokenize(["Hello, world!"]))
    ```
    """
    files = TokenizerFiles(directory, config)
    try:
        pair = _load(files, source_language, target_language)
        files.finish()
    except UserError as error:
        raise error.at(files.directory) from error
    return pair


def _load(files: TokenizerFiles, source: str | None, target: str | None) -> TokenizerPair:
    if files.has(*MARIAN_FILES):
        return _marian(files, source, target)
    if files.has(*M2M_FILES):
        return _from_model(files, M2M_FILES[0], tokens_of_vocabulary(files), source, target)
    parts = JsonParts(files) if files.tokenizer is not None else None
    kind = parts.model.get("type") if parts is not None else None
    model_files = [name for name in MODEL_FILES if files.has(name)]
    if kind == "WordPiece" or (kind is None and files.has(VOCABULARY)):
        return _bert(files)
    if parts is not None and kind == "BPE" and is_byte_level(parts):
        return _byte_pairs(files)
    if parts is None and files.has(*BYTE_PAIR_FILES):
        return _byte_pairs(files)
    if model_files and (parts is None or _kind(files) in _WITH_BYTES):
        return _from_model(files, model_files[0], None, source, target)
    if parts is not None and kind in ("Unigram", "BPE"):
        return _from_json(files, parts, source, target)
    if parts is not None:
        raise parts.refuse(f"has a model of the type {kind!r}, which is not supported.")
    raise UserError(
        "no tokenizer here in a supported format.",
        fix=f"Give a directory with {', '.join(MARIAN_FILES)}; {' and '.join(BYTE_PAIR_FILES)}; or "
        f"one of tokenizer.json, {VOCABULARY}, {', '.join(MODEL_FILES)}.",
    )


def _marian(files: TokenizerFiles, source: str | None, target: str | None) -> TokenizerPair:
    tokens = tokens_of_vocabulary(files)
    special_ids = find_special_ids(files, tokens)
    templates = find_templates(files, tokens, special_ids, "Marian", source, target)
    reads_code = any(token.startswith(">>") and token.endswith("<<") for token in tokens)
    models = [read_model(files, name) for name in MARIAN_FILES[:2]]
    return TokenizerPair(
        *(
            sentencepiece_tokenizer(
                files,
                model,
                tokens,
                special_ids,
                template,
                looks_up=True,
                reads_code=reads_code and side == 0 and not template.prefix,
                clean_up=files.flag("clean_up_tokenization_spaces", False),
            )
            for side, (model, template) in enumerate(zip(models, templates, strict=True))
        )
    )


def _from_json(
    files: TokenizerFiles, parts: JsonParts, source: str | None, target: str | None
) -> TokenizerPair:
    model, options = model_of_json(parts)
    tokens = with_added(files, json_numbers(parts))
    has_unknowns = not model.trainer_spec.byte_fallback
    special_ids = find_special_ids(files, tokens, has_unknowns)
    if special_ids.padding == len(tokens):
        tokens = [*tokens, "<padding>"]
    templates = find_templates(files, tokens, special_ids, _kind(files), source, target)
    if files.model_type not in _TRANSLATION and templates[0] == templates[1]:
        template = parts.template(tokens)
        if template is not None and template.suffix:
            templates = template, template
    options["clean_up"] = files.flag("clean_up_tokenization_spaces", False)
    for key in (
        "add_prefix_space",
        "offset",
        "extra_ids",
        "unk_id",
    ):  # tokenizer.json has their effect
        files.setting(key)
    return TokenizerPair(
        *(
            sentencepiece_tokenizer(files, model, tokens, special_ids, each, **options)
            for each in templates
        )
    )


def _kind(files: TokenizerFiles) -> str:
    """Returns the class of the tokenizer in Hugging Face's library, without "Tokenizer"."""
    return files.kind.removesuffix("Tokenizer")


def _from_model(
    files: TokenizerFiles,
    name: str,
    tokens: Sequence[str] | None,
    source: str | None,
    target: str | None,
) -> TokenizerPair:
    model = read_model(files, name)
    looks_up = tokens is not None
    if tokens is None:
        tokens = tokens_of_model(files, model)
    kind = "M2M100" if looks_up else _kind(files)
    special_ids = find_special_ids(files, tokens, has_unknowns=not model.trainer_spec.byte_fallback)
    templates = find_templates(files, tokens, special_ids, kind, source, target)
    clean_up = files.flag("clean_up_tokenization_spaces", False)
    return TokenizerPair(
        *(
            sentencepiece_tokenizer(
                files, model, tokens, special_ids, each, looks_up=looks_up, clean_up=clean_up
            )
            for each in templates
        )
    )


def _bert(files: TokenizerFiles) -> TokenizerPair:
    tokens = with_added(files, wordpiece_numbers(files))
    special_ids = find_special_ids(files, tokens)
    template = JsonParts(files).template(tokens) if files.tokenizer is not None else None
    if template is None:
        template = Template((special_ids.start,), (special_ids.end,))
    roles = ("unk", "sep", "pad", "cls", "mask")
    special = {files.token(f"{role}_token") or f"[{role.upper()}]" for role in roles}
    special |= {*files.more_special_tokens}
    controls = {number for number, token in enumerate(tokens) if token in special}
    for number, added in files.added.items():
        if not added.is_special:
            problem = f"adds the token {added.content!r} to ordinary text."
            raise files.refuse(problem, "tokenizer_config.json")
        controls.add(number)
    return TokenizerPair(
        BertTokenizer(
            tokens,
            special_ids,
            template,
            controls=sorted(controls),
            clean_up=files.flag("clean_up_tokenization_spaces", False),
            **bert_options(files),
        )
    )


def _byte_pairs(files: TokenizerFiles) -> TokenizerPair:
    tokens = with_added(files, byte_pair_numbers(files))
    special_ids = find_special_ids(files, tokens, has_unknowns=False)
    if special_ids.padding == len(tokens):
        tokens = [*tokens, "<padding>"]
    return TokenizerPair(byte_pair_tokenizer(files, tokens, special_ids))


def find_special_ids(
    files: TokenizerFiles, tokens: Sequence[str], has_unknowns: bool = True
) -> SpecialIds:
    """Returns the special ids of a checkpoint: those of its config, or of tokens with roles.

    Args:
        files: The files.
        tokens: Token of each id.
        has_unknowns: Whether the tokenizer has an unknown token that a text may need.
    """
    numbers = {token: number for number, token in enumerate(tokens)}

    def find(key: str, *roles: str) -> int | None:
        """Returns an id of the config, or of the first role that has a token."""
        number = files.config.get(f"{key}_token_id") if key else None
        number = number[0] if isinstance(number, list) and number else number
        if number is not None:
            if type(number) is not int or not 0 <= number < len(tokens):
                raise files.refuse(f"has the value {number!r} for '{key}_token_id'.", "config.json")
            return number
        texts = (files.token(f"{role}_token") for role in roles)
        return next((numbers[text] for text in texts if text in numbers), None)

    def default(*texts: str) -> int | None:
        return next((numbers[text] for text in texts if text in numbers), None)

    end = _first(find("eos", "eos", "sep"), default("</s>", "[SEP]", "<eos>", "<|endoftext|>"))
    unknown = _first(find("", "unk"), default("<unk>", "[UNK]"))
    padding = _first(find("pad", "pad"), default("<pad>", "[PAD]"))
    if end is None:
        raise UserError("no token ends a text: eos_token and sep_token are missing.")
    if not has_unknowns:
        # No text needs the unknown token, so it can serve as padding.
        names = ((n, f"<unused {n}>") for n in range(len(tokens)) if n not in (unknown, end))
        unused = (n for n, name in names if tokens[n] == name)
        spare = unknown if unknown not in (None, end) else next(unused, len(tokens))
        padding = spare if padding in (None, end) else padding
        unknown = unknown if unknown not in (None, padding) else end
    if unknown is None or padding is None:
        missing = "unk_token" if unknown is None else "pad_token"
        raise UserError(f"the vocabulary has no token for {missing!r}.")
    start = find("decoder_start")
    if start is None and files.model_type in _START_WITH_PADDING:
        start = padding
    elif start is None and files.model_type in _START_WITH_END:
        start = end
    elif start is None:
        start = _first(find("bos", "bos", "cls"), default("<s>", "[CLS]", "<bos>"), end)
    return SpecialIds(padding=padding, unknown=unknown, start=start or 0, end=end)


def _first(*numbers: int | None) -> int | None:
    return next((number for number in numbers if number is not None), None)


def find_templates(
    files: TokenizerFiles,
    tokens: Sequence[str],
    special_ids: SpecialIds,
    kind: str,
    source: str | None,
    target: str | None,
) -> tuple[Template, Template]:
    """Returns the templates of source and target of a kind of tokenizer.

    Args:
        files: The files.
        tokens: Token of each id.
        special_ids: Special ids.
        kind: Class of the tokenizer in Hugging Face's library, without "Tokenizer".
        source: Code of the source's language, or None.
        target: Code of the target's language, or None.
    """
    form, usual = _LANGUAGES.get(kind, (None, None))
    given_source = files.setting("src_lang", None, str | None)
    given_target = files.setting("tgt_lang", None, str | None)
    if form is None or kind == "Marian":  # Marian's settings are names, not tokens
        given_source = given_target = None
    if form is None and (source or target):
        raise UserError(f"{kind or files.model_type} has no language codes.")
    end = (special_ids.end,)
    if form is None:
        if kind in _WITH_BYTES:
            files.setting("legacy")  # about special tokens inside a text
            files.setting("add_bos_token")  # a language model starts with the start id
            if files.flag("add_eos_token", False):
                raise files.refuse("has true for 'add_eos_token'.", "tokenizer_config.json")
            return (Template(), Template())
        if kind == "XLMRoberta":
            return Template((special_ids.start,), end), Template((special_ids.start,), end)
        return Template((), end), Template((), end)
    numbers = {token: number for number, token in enumerate(tokens)}

    def code(language: str | None) -> tuple[int, ...]:
        if language is None:
            return ()
        if (token := form.format(language)) not in numbers:
            known = ", ".join(files.more_special_tokens[:5]) or "none"
            fix = f"Give the code of a language that the model knows, such as {known}."
            raise UserError(f"no token {token!r} for the language {language!r}.", fix=fix)
        return (numbers[token],)

    if source is None:
        source = given_source or (usual if kind != "Marian" else None)
    of_source, of_target = code(source), code(given_target if target is None else target)
    if kind == "Marian":
        if source is not None:
            raise UserError("Marian models have one source language; give only the target.")
        return Template(of_target, end), Template((), end)
    if kind == "MBart":
        return Template((), (*end, *of_source)), Template((), end)
    if kind == "Nllb" and files.flag("legacy_behaviour", False):
        return Template((), (*end, *of_source)), Template(of_target, end)
    return Template(of_source, end), Template(of_target, end)
