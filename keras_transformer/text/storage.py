"""A tokenizer on the disk: `tokenizer.json`, and its vocabulary or model file if it has one."""

import dataclasses
import hashlib
import json
import pathlib

from keras_transformer.atomic import atomic_directory
from keras_transformer.errors import UserError

DESCRIPTION = "tokenizer.json"
VERSION = 1


@dataclasses.dataclass(frozen=True)
class StoredTokenizer:
    """What is stored of a tokenizer: all that decides its ids.

    Args:
        name: The registered name of its class.
        settings: A dictionary for JSON.
        file_name: The name of the vocabulary or model file, or None.
        content: The bytes of that file.
    """

    name: str
    settings: dict
    file_name: str | None
    content: bytes

    @property
    def hash(self):
        """The sha256, in hex, of name, settings and content."""
        header = json.dumps([self.name, self.settings], sort_keys=True).encode()
        return hashlib.sha256(header + b"\n" + self.content).hexdigest()


def write_stored(stored, directory):
    """Writes `stored` into the new directory `directory`, whole or not at all."""
    description = {
        "name": stored.name,
        "settings": stored.settings,
        "version": VERSION,
        "file": stored.file_name,
        "sha256": stored.hash,
    }
    text = json.dumps(description, indent=2) + "\n"
    with atomic_directory(directory) as temporary:
        (temporary / DESCRIPTION).write_text(text, encoding="utf-8")
        if stored.file_name is not None:
            (temporary / stored.file_name).write_bytes(stored.content)


def read_stored(directory):
    """Returns the `StoredTokenizer` in `directory`; a `UserError` names what is wrong with it."""
    directory = pathlib.Path(directory)
    description = _read_description(directory)
    file_name = description["file"]
    content = b"" if file_name is None else _read(directory, file_name)
    stored = StoredTokenizer(description["name"], description["settings"], file_name, content)
    if stored.hash != description["sha256"]:
        raise UserError(
            f"{directory / (file_name or DESCRIPTION)}: damaged, the sha256 in {DESCRIPTION} is "
            "another. Copy the directory again, or learn the tokenizer again."
        )
    return stored


def _read_description(directory):
    path = directory / DESCRIPTION
    content = _read(directory, DESCRIPTION)
    try:
        description = json.loads(content)
    except ValueError as error:
        raise UserError(
            f"{path}: damaged, not JSON ({error}). Copy the directory again."
        ) from error
    wanted = {"name": str, "settings": dict, "version": int, "file": str | None, "sha256": str}
    for key, kind in wanted.items():
        if not isinstance(description, dict) or not isinstance(description.get(key), kind):
            raise UserError(
                f"{path}: not the description of a tokenizer, {key!r} is missing or wrong. "
                "Give the directory that `Tokenizer.save` wrote."
            )
    if description["version"] != VERSION:
        raise UserError(
            f"{path}: in version {description['version']} of the format, but this package reads "
            f"version {VERSION}. Use the keras_transformer that wrote it, or learn it again."
        )
    file_name = description["file"]
    if file_name is not None and pathlib.PurePath(file_name).name != file_name:
        raise UserError(
            f"{path}: 'file' must be a name in the same directory; got {file_name!r}. "
            "Give the directory that `Tokenizer.save` wrote."
        )
    return description


def _read(directory, file_name):
    path = directory / file_name
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UserError(
            f"{directory}: holds no tokenizer, {file_name} is missing. "
            "Give the directory that `Tokenizer.save` wrote."
        ) from error
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}).") from error
