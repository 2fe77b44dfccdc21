"""Recipe files: strict YAML, the location of each key, overrides, and errors with locations."""

import copy
import difflib
import io
import os
import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer, MaxDepthExceededError
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.events import AliasEvent
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode
from ruamel.yaml.reader import ReaderError
from ruamel.yaml.representer import SafeRepresenter

from keras_transformer._utils.console import shown
from keras_transformer._utils.errors import UserError
from keras_transformer._utils.types import Path


class RecipeError(UserError):
    """Raised with all mistakes of a recipe, so that the user can fix them at once.

    Args:
        mistakes: The mistakes, at least one. The `argument` of each is a dotted key of the recipe.
        origin: Subject of the first line, which has these mistakes. Default: "The recipe".

    >>> print(RecipeError([
    ...     UserError("a value is missing.", argument="name", where="a.yaml"),
    ...     UserError("unknown key.", argument="sed", where="a.yaml:1", fix="Did you mean `seed`?"),
    ... ]))
    The recipe has 2 mistakes:
      a.yaml: `name`: a value is missing.
      a.yaml:1: `sed`: unknown key. Did you mean `seed`?
    """

    def __init__(self, mistakes: Iterable[UserError], origin: Path = "The recipe") -> None:
        self.mistakes: tuple[UserError, ...] = tuple(mistakes)
        self.origin: str = os.fspath(origin)
        super().__init__(f"{len(self.mistakes)} mistakes.")

    def __str__(self) -> str:
        lines = [str(mistake) for mistake in self.mistakes]
        title = f"{shown(self.origin)} has {len(lines)} mistakes:"
        return lines[0] if len(lines) == 1 else "\n  ".join([title, *lines])


#: Keys of a recipe by the names that other programs give them.
NAMES_ELSEWHERE: dict[str, str] = {
    "d_model": "model.hidden_dim",
    "hidden_size": "model.hidden_dim",
    "d_ff": "model.intermediate_dim",
    "n_heads": "model.num_heads",
    "preset": "model.size",
    "lr": "training.learning_rate",
    "weight_decay": "training.optimizer_options",
    "betas": "training.optimizer_options",
    "batch_size": "batches.tokens",
    "max_tokens": "batches.tokens",
    "update_freq": "batches.accumulate",
    "gradient_accumulation_steps": "batches.accumulate",
    "max_update": "training.steps",
    "max_epoch": "training.epochs",
    "early_stopping": "evaluation.patience",
    "vocab_size": "text.vocabulary_size",
    "beam_size": "evaluation.search.beams",
    "save_every": "checkpoints.every",
}


def unknown_key(section: str, key: str, known: Mapping[str, Sequence[str]]) -> UserError:
    """Returns the mistake of a key that does not exist, with the most similar key if there is one.

    `known` has the keys of each section; the top level is the section "".

    >>> print(unknown_key("training", "stepz", {"training": ["steps", "epochs"]}))
    `training.stepz`: unknown key. Did you mean `training.steps`?
    >>> print(unknown_key("training", "d_modle", {"training": ["steps", "epochs"]}))
    `training.d_modle`: unknown key. Did you mean `model.hidden_dim`?
    """
    place, _, field = key.partition(".")
    if not section and field in known.get(place, ()):
        fix = f"Write `{field}:` in a line below `{place}:`."
    elif near := _nearest(section, key, known):
        fix = f"Did you mean `{near}`?"
    else:
        fix = f"Known here: {', '.join(known[section])}."
    return UserError("unknown key.", argument=_dotted(section, key), fix=fix)


def _nearest(section: str, key: str, known: Mapping[str, Sequence[str]]) -> str | None:
    """Returns the dotted key of that name in another section, else the most similar one."""
    places = reversed(list(known))  # the first place of a name counts
    everywhere = {name: _dotted(place, name) for place in places for name in known[place]}
    if key in everywhere:
        return everywhere[key]
    here = {name: _dotted(section, name) for name in known[section]}
    for names, cutoff in ((NAMES_ELSEWHERE | here, 0.6), (everywhere, 0.9)):
        if close := difflib.get_close_matches(key, names, n=1, cutoff=cutoff):
            return names[close[0]]
    return None


def _dotted(section: str, key: str) -> str:
    return f"{section}.{key}" if section else key


# Limits that no recipe reaches: a recipe is a few kilobytes of sections, keys and options.
MAX_CHARACTERS = 1_000_000
MAX_DEPTH = 10
# Python does not convert longer integers.
_MAX_DIGITS = 4000

# An escape beyond U+10FFFF.
_NO_CHARACTER = re.compile(r"\\U(?!000|0010)[0-9A-Fa-f]{8}")

# Scalars by the core schema of YAML 1.2, without octal and hexadecimal numbers. ruamel.yaml also
# reads 1_000 as a number and 2025-03-07 as a date, which is unexpected in a file name or a label.
_NULL = re.compile(r"|~|null|Null|NULL")
_BOOLEAN = re.compile(r"(true|True|TRUE)|false|False|FALSE")
_INTEGER = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)


class YamlError(UserError):
    """Text that cannot be read as YAML; lines and columns are counted from 1."""

    def __init__(self, problem: str, line: int, column: int, fix: str | None = None) -> None:
        super().__init__(problem, fix=fix)
        self.line, self.column = line, column

    @classmethod
    def at_mark(cls, mark: Any, problem: str, fix: str | None = None) -> Self:
        return cls(problem, mark.line + 1, mark.column + 1, fix)


def read_yaml(text: str) -> tuple[Any, dict[str, int]]:
    """Returns the value in a text, None if it is empty, and the line of each dotted key.

    Anchors, aliases, tags, duplicate keys and a second document are a `YamlError`.

    >>> read_yaml("training:\\n  learning_rate: 1e-3\\n  xla: no\\n")
    ({'training': {'learning_rate': 0.001, 'xla': 'no'}},
     {'training': 1, 'training.learning_rate': 2, 'training.xla': 3})
    """
    if len(text) > MAX_CHARACTERS:
        raise YamlError(f"longer than {MAX_CHARACTERS:,} characters; this is no recipe.", 1, 1)
    reader = YAML(typ="safe", pure=True)
    reader.Composer = _StrictComposer
    reader.max_depth = MAX_DEPTH
    lines: dict[str, int] = {}
    try:
        node = reader.compose(text)
    except ReaderError as error:
        before = text[: error.position]
        code = error.character if isinstance(error.character, int) else ord(error.character)
        column = error.position - before.rfind("\n")
        problem = f"the character U+{code:04X} is not allowed."
        raise YamlError(problem, before.count("\n") + 1, column, fix="Remove it.") from error
    except MarkedYAMLError as error:
        raise _error_of_parser(error) from error
    except YamlError:
        raise
    except (OverflowError, ValueError) as error:  # of `chr`
        found = _NO_CHARACTER.search(text)
        before = text[: found.start()] if found else ""
        code = found[0] if found else "an escape"
        column = len(before) - before.rfind("\n")
        problem = f"{code} is no character of Unicode."
        raise YamlError(problem, before.count("\n") + 1, column, fix="Remove it.") from error
    return (None if node is None else _value(node, (), lines)), lines


class _StrictComposer(Composer):
    """A composer that refuses anchors, aliases and tags, with their location."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.parser.peek_event()
        is_alias = isinstance(event, AliasEvent)
        if is_alias or event.anchor is not None:
            sign = "*" if is_alias else "&"
            problem = f"{sign}{event.anchor}: anchors and aliases are not allowed."
            fix = "Write the value out; text that starts with & or * must be in quotes."
            raise YamlError.at_mark(event.start_mark, problem, fix)
        if event.ctag is not None:
            fix = "Leave it out; text that starts with ! must be in quotes."
            raise YamlError.at_mark(event.start_mark, f"{event.ctag}: tags are not allowed.", fix)
        return super().compose_node(parent, index)


def _value(node: Node, path: tuple[str, ...], lines: dict[str, int]) -> Any:
    """Returns the value of a node, and adds the lines of the keys in it to `lines`."""
    if isinstance(node, ScalarNode):
        return _scalar(node)
    if not isinstance(node, MappingNode):
        return [_value(item, (*path, str(i)), lines) for i, item in enumerate(node.value)]
    values = {}
    for key_node, value_node in node.value:
        if not isinstance(key_node, ScalarNode):
            raise YamlError.at_mark(key_node.start_mark, "a key must be a plain word.")
        key = key_node.value
        dotted = ".".join((*path, key))
        if key in values:
            problem = f"`{dotted}` is a duplicate of line {lines[dotted]}."
            raise YamlError.at_mark(key_node.start_mark, problem, fix="Remove one of the two.")
        lines[dotted] = key_node.start_mark.line + 1
        values[key] = _value(value_node, (*path, key), lines)
    return values


def _scalar(node: ScalarNode) -> Any:
    text = node.value
    if node.style is not None:  # in quotes, or a block
        return text
    if _INTEGER.fullmatch(text):
        if len(text) > _MAX_DIGITS:
            raise YamlError.at_mark(node.start_mark, f"a number of {len(text)} digits is too long.")
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(re.sub(r"\.(?=[iInN])", "", text))  # Python reads inf and nan without a point
    if _NULL.fullmatch(text):
        return None
    boolean = _BOOLEAN.fullmatch(text)
    return text if boolean is None else bool(boolean[1])


def _error_of_parser(error: MarkedYAMLError) -> YamlError:
    if isinstance(error, MaxDepthExceededError):
        return YamlError.at_mark(error.problem_mark, f"nested more than {MAX_DEPTH} deep.")
    indentation = "Check the indentation; text with ': ' in it must be in quotes."
    fixes = {
        "but found another document": "Leave out the '---' before the second document.",
        "mapping values are not allowed here": indentation,
        "found character '\\t' that cannot start any token": "Indent with spaces, not with tabs.",
    }
    parts = [part for part in (error.problem, error.context) if part]
    problem = f"{parts[0]} ({parts[1]})." if len(parts) == 2 else f"{parts[0]}."
    mark = error.problem_mark or error.context_mark
    return YamlError.at_mark(mark, problem, fixes.get(error.problem))


def write_yaml(value: Any) -> str:
    """Returns text from which `read_yaml` reads `value` again; lists are on one line.

    >>> print(write_yaml({"text": {"files": ["1e-3", "no"], "rate": 1e-9}}), end="")
    text:
      files: ['1e-3', 'no']
      rate: 1e-09
    """
    writer = YAML(typ="safe", pure=True)
    writer.Representer = _Representer
    writer.default_flow_style = False
    writer.allow_unicode = True
    writer.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    writer.width = 100
    stream = io.StringIO()
    writer.dump(value, stream)
    return stream.getvalue()


# Text that no version of YAML reads as something else.
_PLAIN = re.compile(r"(?!(?i:true|false|yes|no|on|off|null|y|n)$)[A-Za-z_][\w./-]*", re.ASCII)


class _Representer(SafeRepresenter):
    """Writes text in quotes unless it is a plain word, and numbers as Python does."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_text(self, text: str) -> Node:
        style = None if _PLAIN.fullmatch(text) else "'" if text.isprintable() else '"'
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    def represent_list_on_one_line(self, values: list[Any]) -> Node:
        return self.represent_sequence("tag:yaml.org,2002:seq", values, flow_style=True)


_Representer.add_representer(str, _Representer.represent_text)
_Representer.add_representer(list, _Representer.represent_list_on_one_line)


class Override(NamedTuple):
    """The new value of a dotted key of a recipe file, and where it was given, for messages."""

    key: str
    value: Any
    where: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Returns the override in a text; its value is read as in a file."""
        where = f"--set {text}"
        key, equals, value = text.partition("=")
        if not equals or not all(key.split(".")):
            raise UserError("must have the form key=value, as training.steps=100.", where=where)
        try:
            return cls(key, read_yaml(value)[0], where)
        except YamlError as error:
            raise error.at(where) from error


class RecipeFile:
    """Keys and values of a recipe file, some of them replaced, with the location of each."""

    values: dict[str, Any]

    def __init__(self, path: Path, text: str) -> None:
        self.path: str = os.fspath(path)
        try:
            self.values, lines = read_yaml(text)
        except YamlError as error:
            raise error.at(f"{self.path}:{error.line}:{error.column}") from error
        if self.values is None:
            fix = "Start with name, task, data and training."
            raise UserError("the recipe is empty.", where=f"{self.path}:1:1", fix=fix)
        if not isinstance(self.values, dict):
            problem = f"a recipe must have lines of 'key: value'; got {self.values!r:.60}."
            raise UserError(problem, where=f"{self.path}:1:1")
        # For each dotted key a number to sort by, and its location as messages show it.
        self._places = {key: ((0, line), f"{self.path}:{line}") for key, line in lines.items()}

    @classmethod
    def read(cls, path: Path) -> Self:
        """Returns the keys and values in a file, which are not checked yet."""
        try:
            text = pathlib.Path(path).read_bytes().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = error.object.count(b"\n", 0, error.start) + 1
            problem, fix = f"not UTF-8 ({error.reason}).", "Save it as UTF-8."
            raise UserError(problem, where=f"{path}:{line}", fix=fix) from error
        except OSError as error:
            raise UserError(f"cannot be read ({error.strerror}).", where=path) from error
        return cls(path, text)

    def set(self, override: Override) -> None:
        """Replaces the value of a key, or adds the key."""
        *sections, last = override.key.split(".")
        place = self.values
        for section in sections:
            if place.get(section) is None:
                place[section] = {}
            place = place[section]
            if not isinstance(place, dict):
                problem = f"has no keys; it is {place!r:.60}."
                raise UserError(problem, argument=section, where=override.where)
        place[last] = copy.deepcopy(override.value)
        for key in [key for key in self._places if key.startswith(f"{override.key}.")]:
            del self._places[key]
        self._places[override.key] = ((1, len(self._places)), override.where)

    def located(self, error: RecipeError) -> RecipeError:
        """Returns the same mistakes with their locations, sorted by location."""
        placed = [(*self._place(mistake), mistake) for mistake in error.mistakes]
        placed.sort(key=lambda item: item[0])
        return RecipeError([mistake.at(where) for _, where, mistake in placed], origin=self.path)

    def _place(self, mistake: UserError) -> tuple[tuple[int, int], str]:
        """Returns the location of a mistake's key: of an override rather than of a key in the file.

        A key that was given, or a key in its value, is preferred to a key whose section was given.
        """
        keys = mistake.arguments
        inside = [known for key in keys for known in self._places if known.startswith(f"{key}.")]
        # The sections around each key, the innermost first.
        parts = [key.split(".") for key in keys]
        around = [".".join(part[:end]) for part in parts for end in range(len(part) - 1, 0, -1)]
        given = [self._places[key] for key in (*keys, *inside, *around) if key in self._places]
        return max(given, key=lambda place: place[0][0], default=((0, 0), self.path))
