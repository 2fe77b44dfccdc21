"""Tokenizer files of a checkpoint, read strictly: settings, special tokens and added tokens."""

import dataclasses
import functools
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from keras_transformer._utils.errors import UserError
from keras_transformer.export.damage import read_bounded
from keras_transformer.export.strict_json import parse_json

#: Largest size of a file in bytes. A vocabulary of 250,000 pieces takes about 17 MB of JSON.
MAX_BYTES = 128 << 20
#: Largest number of ids.
MAX_IDS = 1 << 20

TOKENIZER, SETTINGS = "tokenizer.json", "tokenizer_config.json"
SPECIAL_TOKENS, ADDED_TOKENS = "special_tokens_map.json", "added_tokens.json"

_ROLES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token")
# Settings that do not change the ids of a text.
_HARMLESS = frozenset(
    {
        *("tokenizer_class", "processor_class", "model_max_length", "max_length", "max_len"),
        *(
            "padding_side",
            "truncation_side",
            "padding",
            "truncation",
            "stride",
            "truncation_strategy",
        ),
        *("pad_to_multiple_of", "pad_token_type_id", "model_input_names", "name_or_path"),
        *("special_tokens_map_file", "tokenizer_file", "chat_template", "is_local", "backend"),
        *("use_default_system_prompt", "spaces_between_special_tokens", "verbose", "use_fast"),
        *("trim_offsets", "mask_token", "mask_token_sent", "model_specific_special_tokens"),
        *("local_files_only", "token", "cache_dir", "return_token_type_ids", "response_schema"),
        *("added_tokens_decoder", "additional_special_tokens", "extra_special_tokens", *_ROLES),
    }
)
# Settings with the only values that are supported.
_FIXED: dict[str, tuple[Any, ...]] = {
    "split_special_tokens": (False, True),  # the text never contains special tokens
    "errors": ("replace",),
    "sp_model_kwargs": ({}, None),
    "do_basic_tokenize": (True,),
    "never_split": (None, []),
    "separate_vocabs": (False,),
    "target_vocab_file": (None,),
    "auto_map": (None,),
}


@dataclasses.dataclass(frozen=True)
class AddedToken:
    """A token that belongs to no vocabulary file, or that has a role."""

    content: str
    is_special: bool


def is_markup(token: str) -> bool:
    """Returns whether an added token is markup such as "<tool_call>", which no text yields.

    >>> is_markup("<tool_call>"), is_markup("word")
    (True, False)
    """
    return token.startswith("<") and token.endswith(">")


class TokenizerFiles:
    """Files of a tokenizer in a directory of a checkpoint.

    Every setting must be read or be known to be harmless: `finish` refuses the others.

    Args:
        directory: Directory of the checkpoint.
        config: Content of `config.json`. Default: read from the directory, if it is there.
    """

    def __init__(self, directory: str | os.PathLike[str], config: Mapping[str, Any] | None) -> None:
        self.directory: pathlib.Path = pathlib.Path(directory)
        if config is None:
            config = self.json("config.json") if self.has("config.json") else {}
        self.config: Mapping[str, Any] = config
        self._settings = self.json(SETTINGS) if self.has(SETTINGS) else {}
        self._special = self.json(SPECIAL_TOKENS) if self.has(SPECIAL_TOKENS) else {}
        self._unread = set(self._settings) - _HARMLESS

    @functools.cached_property
    def tokenizer(self) -> dict[str, Any] | None:
        """Content of `tokenizer.json`, or None."""
        return self.json(TOKENIZER) if self.has(TOKENIZER) else None

    @functools.cached_property
    def kind(self) -> str:
        """Class of the tokenizer in Hugging Face's library, without "Fast"; "" if not given."""
        name = self._settings.get("tokenizer_class") or self.config.get("tokenizer_class") or ""
        return str(name).removesuffix("Fast")

    @functools.cached_property
    def model_type(self) -> str:
        """`model_type` of the config, or ""."""
        return str(self.config.get("model_type", ""))

    def has(self, *names: str) -> bool:
        """Returns whether the directory has entries of all these names, of any type."""
        return all(os.path.lexists(self.directory / name) for name in names)

    def bytes(self, name: str) -> bytes:
        """Returns the content of a file."""
        return read_bounded(self.directory, name, MAX_BYTES)

    def json(self, name: str) -> dict[str, Any]:
        """Returns the object in a file."""
        try:
            content = parse_json(self.bytes(name))
        except UserError:
            raise
        except ValueError as error:
            raise self.refuse(f"is not valid JSON ({error}).", name) from error
        if not isinstance(content, dict):
            raise self.refuse("must have an object, {…}, at the top level.", name)
        return content

    def vocabulary(self, content: Any, name: str) -> dict[str, int]:
        """Returns a vocabulary, from tokens to ids, whose ids must be unique and not too large."""
        ids = list(content.values()) if isinstance(content, dict) else None
        if not ids or any(type(number) is not int or not 0 <= number < MAX_IDS for number in ids):
            raise self.refuse("must be an object from tokens to ids.", name)
        if len(set(ids)) != len(ids):
            raise self.refuse("has two tokens with the same id.", name)
        return content

    def setting(self, key: str, default: Any = None, kind: Any = object) -> Any:
        """Returns a setting of `tokenizer_config.json`, which then counts as read."""
        self._unread.discard(key)
        value = self._settings.get(key, default)
        if not isinstance(value, kind):
            raise self.refuse(f"has the value {value!r} for {key!r}.", SETTINGS)
        return value

    def flag(self, key: str, default: bool) -> bool:
        """Returns a setting that is true or false; null is the default."""
        value = self.setting(key, default, bool | None)
        return default if value is None else value

    def token(self, role: str) -> str | None:
        """Returns the text of the token with a role such as "eos_token", or None."""
        for values in (self._settings, self._special):
            value = values.get(role)
            value = value.get("content") if isinstance(value, dict) else value
            if isinstance(value, str):
                return value
            if value is not None:
                raise self.refuse(f"has the value {value!r} for {role!r}.", SETTINGS)
        return None

    @functools.cached_property
    def added(self) -> dict[int, AddedToken]:
        """Added tokens by id."""
        found: dict[int, AddedToken] = {}
        if self.has(ADDED_TOKENS):
            special = {*self.more_special_tokens, *filter(None, map(self.token, _ROLES))}
            for text, number in self.vocabulary(
                self.json(ADDED_TOKENS) or {"": 0}, ADDED_TOKENS
            ).items():
                if text:
                    found[number] = AddedToken(text, text in special)
        decoder = self._settings.get("added_tokens_decoder") or {}
        listed = (self.tokenizer or {}).get("added_tokens") or []
        entries: list[tuple[Any, Any]] = []
        if isinstance(decoder, dict):
            entries += [(int(n) if n.isdecimal() else None, each) for n, each in decoder.items()]
        if isinstance(listed, list):
            entries += [(e.get("id") if isinstance(e, dict) else None, e) for e in listed]
        for number, entry in entries:
            content = entry.get("content") if isinstance(entry, dict) else None
            if type(number) is not int or not 0 <= number < MAX_IDS or not isinstance(content, str):
                raise self.refuse("has an added token without a valid id and content.", SETTINGS)
            found[number] = AddedToken(content, bool(entry.get("special")))
        return found

    @functools.cached_property
    def more_special_tokens(self) -> list[str]:
        """Special tokens without a role, such as codes of languages, in their order."""
        for values in (self._settings, self._special):
            for key in ("additional_special_tokens", "extra_special_tokens"):
                tokens = values.get(key)
                if isinstance(tokens, list) and tokens:
                    texts = [t.get("content") if isinstance(t, dict) else t for t in tokens]
                    found = [text for text in texts if isinstance(text, str)]
                    if len(found) != len(texts):
                        raise self.refuse(f"has {key!r} that are not texts.", SETTINGS)
                    return found
        return []

    def finish(self) -> None:
        """Raises a `UserError` if a setting was not read and is not known to be harmless."""
        for key, allowed in _FIXED.items():
            if key in self._unread and self.setting(key) not in allowed:
                value = self._settings[key]
                raise self.refuse(f"has the value {value!r} for {key!r}.", SETTINGS)
        if self._unread:
            names = ", ".join(map(repr, sorted(self._unread)[:5]))
            fix = "If they do not change the ids, remove them from a copy of the file."
            raise self.refuse(f"has unknown settings: {names}.", SETTINGS, fix)

    def refuse(self, problem: str, name: str, fix: str | None = None) -> UserError:
        """Returns the error for a file that is not read."""
        return UserError(problem, where=self.directory / name, fix=fix)
