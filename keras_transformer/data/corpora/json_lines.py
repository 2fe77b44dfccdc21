"""Examples in JSON lines: files with a JSON object on each line."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from keras_transformer._utils.errors import UserError
from keras_transformer._utils.types import Path
from keras_transformer.data.corpora.corpus import ReadingRules, Record, Tally, find_column_set
from keras_transformer.data.corpora.file_corpus import (
    UNREAD_CHARACTERS,
    Paths,
    TextFileCorpus,
    is_blank,
    shorten,
)
from keras_transformer.data.corpora.formats import register_format

# "\ud83d\ude00" is one character.
_ESCAPED_CHARACTERS = 12
_FIX = "Correct the line."


@register_format("json-lines")
class JsonLinesCorpus(TextFileCorpus):
    """Examples in JSON lines: one object per line, with its texts under given keys.

    Args:
        paths: A path, a pattern, or a list of them.
        keys: A mapping from columns (`"source"` and `"target"`, or `"text"`, or `"text"` and
            `"label"`) to the keys of their texts in the objects. Other keys are ignored.
        rules: A `ReadingRules`.
    """

    title: ClassVar[str] = "JSON lines, one object per line"
    extensions: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson")
    options: ClassVar[Mapping[str, str]] = {
        "keys": "key of each column's text, such as source=en,target=de"
    }

    def __init__(
        self, paths: Paths, keys: Mapping[str, str], rules: ReadingRules = ReadingRules()
    ) -> None:
        self.columns: tuple[str, ...] = find_column_set(keys, "keys")
        self._keys = {column: keys[column] for column in self.columns}
        super().__init__(paths, rules)

    @classmethod
    def find_columns(cls, files: Iterable[Path], **options: Any) -> tuple[str, ...]:
        if not options.get("keys"):
            raise UserError(
                f"a value is missing for {next(iter(files), 'the files')}, which has JSON lines.",
                argument="keys",
                fix="Give the key of each column's text, such as source=en,target=de or text=body.",
            )
        return find_column_set(options["keys"], "keys")

    @classmethod
    def looks_like(cls, lines: Sequence[str]) -> bool:
        return all(line.startswith("{") and line.rstrip().endswith("}") for line in lines)

    def settings(self) -> dict[str, Any]:
        return {"keys": self._keys}

    def records(self, tally: Tally) -> Iterator[Record]:
        longest = self.rules.max_characters * len(self.columns)
        max_characters = longest * _ESCAPED_CHARACTERS + UNREAD_CHARACTERS
        for path in self.files:
            for line in self.lines(path, tally, max_characters):
                if not isinstance(line, str):
                    yield line
                elif is_blank(line):
                    yield ("",)
                else:
                    yield self._record(line, tally)

    def _record(self, line: str, tally: Tally) -> Record:
        try:
            found = json.loads(line)
        except RecursionError:
            return tally.bad_record("the JSON is nested too deeply.", _FIX)
        except ValueError as error:
            return tally.bad_record(f"is not JSON: {error}.", _FIX)
        if not isinstance(found, dict):
            return tally.bad_record(f"is not a JSON object: {shorten(line, 40)!r}.", _FIX)
        texts = []
        for column, key in self._keys.items():
            if key not in found:
                keys = ", ".join(map(repr, list(found)[:10])) or "none"
                return tally.bad_record(f"no key {key!r} for the {column}; found {keys}.", _FIX)
            text = found[key]
            # Class numbers are often written without quotes.
            if column == "label" and isinstance(text, int) and not isinstance(text, bool):
                text = str(text)
            if not isinstance(text, str):
                got = shorten(json.dumps(text), 40)
                return tally.bad_record(f"{key!r} must be a string; got {got}.", _FIX)
            try:
                text.encode()
            except UnicodeEncodeError:
                return tally.bad_record(f"{key!r} contains half of a surrogate pair.", _FIX)
            texts.append(text)
        return tuple(texts)
