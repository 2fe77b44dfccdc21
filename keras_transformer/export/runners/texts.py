"""Texts to token ids and back, for the program `run.py` of an export. Needs no TensorFlow.

`settings.json` in the same directory has the tokenizers, special ids and limits. A text that is
cut, a blank text and the length limits are treated as in the SavedModel of the same model.
"""

import argparse
import base64
import json
import math
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

BYTES_PER_TOKEN = 64
# Number of lines that are translated at once.
LINES = 32


class Tokenizer:
    """A SentencePiece model or the tokenizer of bytes; `encode` and `decode` know no special ids.

    Args:
        directory: directory of the export.
        kind: "sentencepiece" or "bytes".
        file: name of the SentencePiece model.
        special_ids: ids by role, such as {"padding": 0}.
    """

    def __init__(
        self, directory: str, kind: str, file: str | None, special_ids: dict[str, int]
    ) -> None:
        self.special: frozenset[int] = frozenset(special_ids.values())
        self.processor: Any = None
        self.ids: list[int] = []
        if kind == "sentencepiece" and file is not None:
            import sentencepiece

            path = os.path.join(directory, file)
            self.processor = sentencepiece.SentencePieceProcessor(model_file=path)
        else:
            size = 256 + len(self.special)
            self.ids = [number for number in range(size) if number not in self.special]
        self.bytes: dict[int, int] = {number: byte for byte, number in enumerate(self.ids)}

    def encode(self, text: bytes) -> list[int]:
        """Returns the ids of a text."""
        if self.processor is None:
            return [self.ids[byte] for byte in text]
        return self.processor.encode(" " + text.decode("utf-8", "replace")) if text else []

    def decode(self, ids: Iterable[int]) -> bytes:
        """Returns the text of ids; special ids are left out."""
        pieces = [number for number in ids if number not in self.special]
        if self.processor is None:
            return bytes(self.bytes[number] for number in pieces)
        return self.processor.decode(pieces).removeprefix(" ").encode()


class Texts:
    """Tokenizers, special ids and limits of an export.

    Args:
        directory: directory of the export, with `settings.json`.
    """

    def __init__(self, directory: str) -> None:
        with open(os.path.join(directory, "settings.json"), encoding="utf-8") as file:
            self.settings: dict[str, Any] = json.load(file)
        special = self.settings["special_ids"]
        self.padding: int = special["padding"]
        self.start: int = special["start"]
        self.end: int = special["end"]
        self.is_translation: bool = self.settings["task"] == "translate"
        self.source, self.target = (
            Tokenizer(directory, **self.settings[side], special_ids=special)
            for side in ("source", "target")
        )

    def read(self, text: bytes) -> list[int]:
        """Returns the ids that the model reads: of a source with the end id, or of a prompt."""
        limit = self.settings["tokens"]
        size = limit * BYTES_PER_TOKEN
        if self.is_translation:
            return [*self.source.encode(text[:size])[: limit - 1], self.end]
        return self.source.encode(text[-size:])[-limit:]

    def target_ids(self, text: bytes) -> list[int]:
        """Returns the ids of a target that is scored, with the end id."""
        size = self.settings["tokens"] * BYTES_PER_TOKEN
        return [*self.target.encode(text[:size])[: self.settings["scored_tokens"] - 1], self.end]

    def is_blank(self, text: bytes) -> bool:
        """Returns whether a source has white space alone; its translation is empty."""
        return self.is_translation and not text.decode("utf-8", "replace").strip()

    def lengths(self, read: int) -> tuple[int, int]:
        """Returns the minimum and maximum number of tokens to add, with the end id.

        Args:
            read: number of ids of the source or prompt.
        """
        limits = self.settings["lengths"]
        longest = limits["maximum"]
        if limits["maximum_ratio"] is not None:
            relative = math.floor(limits["maximum_ratio"] * read) + limits["maximum_margin"]
            longest = min(max(relative, 1), longest)
        shortest = max(limits["minimum"], math.floor(limits["minimum_ratio"] * read))
        positions = self.settings["position_limit"]
        if positions is not None:
            longest = min(longest, positions - (0 if self.is_translation else read))
        return min(shortest, longest), longest

    def score(self, log_probability: float, length: int) -> float:
        """Returns the score by which hypotheses of a number of tokens are ranked."""
        return log_probability / ((5 + length) / 6) ** self.settings["search"]["length_penalty"]

    def answer(self, prompt: list[int], ids: list[int]) -> bytes:
        """Returns the text of the ids that were added to a prompt, or of a translation."""
        return self.target.decode(ids if self.is_translation else [*prompt, *ids])


def main(make_model: Callable[[str], Any], description: str) -> int:
    """Runs the program of an export and returns its exit code.

    Args:
        make_model: returns the model of a directory. It has `generate(texts, beams, with_scores)`,
            which returns {"text", "score"}, and may have `score(sources, targets)`, which returns
            {"log_probability", "tokens"}.
        description: what the program does, for its help.
    """
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=description)
    directory = "directory of the export (default: that of this program)"
    parser.add_argument("directory", nargs="?", default=here, help=directory)
    parser.add_argument("--beams", type=int, metavar="N", help="default: that of the export")
    golden = "answer the golden pairs of the manifest, one line of JSON each"
    parser.add_argument("--golden", action="store_true", help=golden)
    arguments = parser.parse_args()
    model = make_model(arguments.directory)
    if arguments.golden:
        answer_golden_pairs(model, arguments.directory)
        return 0
    lines: list[bytes] = []
    for line in sys.stdin.buffer:
        lines.append(line.removesuffix(b"\n").removesuffix(b"\r"))
        if len(lines) == LINES:
            write_answers(model, lines, arguments.beams)
            lines = []
    write_answers(model, lines, arguments.beams)
    return 0


def write_answers(model: Any, lines: list[bytes], beams: int | None) -> None:
    """Prints the answers of a model to lines of text."""
    for text in model.generate(lines, beams, with_scores=False)["text"] if lines else ():
        sys.stdout.buffer.write(text + b"\n")
    sys.stdout.buffer.flush()


def answer_golden_pairs(model: Any, directory: str) -> None:
    """Prints the answers to the golden pairs of the manifest, one line of JSON each."""
    with open(os.path.join(directory, "assets.extra", "manifest.json"), encoding="utf-8") as file:
        pairs = json.load(file)["golden"]
    for pair in pairs:
        inputs = {name: from_json(value) for name, value in pair["inputs"].items()}
        try:
            if pair["signature"] == "score":
                outputs = model.score(inputs["source"], inputs["target"])
            else:
                outputs = model.generate(inputs["text"], inputs.get("beams"))
            answer = {"outputs": {name: to_json(value) for name, value in outputs.items()}}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}".partition("\n")[0]}
        print(json.dumps(answer), flush=True)


def from_json(value: Any) -> Any:
    """Returns texts of the manifest as bytes, other values as they are."""
    if isinstance(value, list):
        return [from_json(item) for item in value]
    if isinstance(value, dict):
        return base64.b64decode(value["b64"])
    return value.encode() if isinstance(value, str) else value


def to_json(value: Any) -> Any:
    """Returns the reverse of `from_json`."""
    if isinstance(value, list):
        return [to_json(item) for item in value]
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"b64": base64.b64encode(value).decode("ascii")}
    return value
