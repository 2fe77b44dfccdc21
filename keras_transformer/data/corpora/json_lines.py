"""Examples in files with a JSON object on each line."""

import json

from keras_transformer.data.corpora.corpus import ReadingRules, find_column_set
from keras_transformer.data.corpora.file_corpus import UNREAD_CHARACTERS, FileCorpus, find_files
from keras_transformer.data.corpora.text_file import TOO_LONG, BadLine

# "\ud83d\ude00" is one character.
_ESCAPED_CHARACTERS = 12


class JsonLinesCorpus(FileCorpus):
    """Examples in JSON lines: one object on a line, its texts under given keys.

    Args:
        paths: A path, a pattern, or a list of them.
        keys: The key of each column's text in the objects, by the column's name: `"source"` and
            `"target"`, or `"text"`, or `"text"` and `"label"`. Other keys of the objects are
            ignored.
        rules: A `ReadingRules`.

    Example:

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "pairs.jsonl")
    ...     _ = path.write_text('{"de": "Danke", "en": "Thank you"}\\n')
    ...     list(JsonLinesCorpus(path, keys={"source": "de", "target": "en"}))
    [('Danke', 'Thank you')]
    """

    def __init__(self, paths, keys, rules=ReadingRules()):
        self.columns = find_column_set(tuple(keys))
        self._keys = {column: keys[column] for column in self.columns}
        super().__init__(find_files("paths", paths), rules)

    def settings(self):
        return {"keys": self._keys}

    def records(self, tally):
        longest = self.rules.max_characters * len(self.columns)
        max_characters = longest * _ESCAPED_CHARACTERS + UNREAD_CHARACTERS
        for path in self.files:
            for line in self.lines(path, tally, max_characters):
                if not isinstance(line, str):
                    yield line
                elif not line or line.isspace():
                    yield ("",)
                else:
                    yield self._record(line, tally)

    def _record(self, line, tally):
        try:
            found = json.loads(line)
        except RecursionError:
            return self._bad_line(tally, "the JSON is nested too deep")
        except ValueError as error:
            return self._bad_line(tally, f"is not JSON: {error}")
        if not isinstance(found, dict):
            return self._bad_line(tally, f"is not a JSON object: {_shortened(line)!r}")
        texts = []
        for column, key in self._keys.items():
            if key not in found:
                keys = ", ".join(map(repr, list(found)[:10])) or "none"
                return self._bad_line(tally, f"no key {key!r} for the {column}; found {keys}")
            text = found[key]
            # Class numbers are often written without quotes.
            if column == "label" and isinstance(text, int) and not isinstance(text, bool):
                text = str(text)
            if not isinstance(text, str):
                shown = _shortened(json.dumps(text))
                return self._bad_line(tally, f"{key!r} must be a string; got {shown}")
            if _has_lone_surrogate(text):
                return self._bad_line(tally, f"{key!r} holds half of a surrogate pair")
            texts.append(tally.without_nul(text))
        if max(map(len, texts)) > self.rules.max_characters:
            return TOO_LONG
        return tuple(texts)

    def _bad_line(self, tally, what):
        return BadLine(f"{tally.place}: {what}", "Put the line right")


def _has_lone_surrogate(text):
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _shortened(text):
    return text if len(text) <= 40 else f"{text[:40]}…"
