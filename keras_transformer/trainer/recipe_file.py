"""What a person gave, and where: a file, and `--set key=value`."""

import difflib
import re

import yaml

from keras_transformer._utils.console import shown
from keras_transformer._utils.errors import UserError


class RecipeError(UserError):
    """A recipe cannot be used as it is; each mistake is a line that names its keys in backticks.

    All are told together, so that nobody has to start a training five times to find five of them.

    >>> print(RecipeError(["`seed` must be below 2**64.", "`name` is missing."]))
    The recipe has 2 mistakes:
      `seed` must be below 2**64.
      `name` is missing.

    Args:
        mistakes: the lines, at least one.
        origin: what has these mistakes.
    """

    def __init__(self, mistakes, origin="The recipe"):
        self.mistakes = tuple(shown(mistake) for mistake in mistakes)
        lines = self.mistakes
        if len(lines) > 1:
            lines = (f"{origin} has {len(lines)} mistakes:", *(f"  {line}" for line in lines))
        super().__init__("\n".join(lines))


#: What other programs call things.
NAMES_ELSEWHERE = {
    "d_model": "model.hidden_dim",
    "hidden_size": "model.hidden_dim",
    "d_ff": "model.intermediate_dim",
    "n_heads": "model.num_heads",
    "lr": "training.learning_rate",
    "batch_size": "batches.tokens",
    "max_tokens": "batches.tokens",
    "update_freq": "batches.accumulate",
    "max_update": "training.steps",
    "max_epoch": "training.epochs",
    "vocab_size": "text.vocabulary_size",
    "beam_size": "evaluation.search.beams",
    "save_every": "checkpoints.every",
}


def unknown_key(section, key, known, owner="a recipe"):
    """The line about a key that nobody knows: with the nearest known one if there is any.

    >>> unknown_key("training", "stepz", {"training": ["steps", "epochs"]})
    '`training.stepz` is not a key of a recipe. Did you mean `training.steps`?'
    >>> unknown_key("training", "d_modle", {"training": ["steps", "epochs"]})
    '`training.d_modle` is not a key of a recipe. Did you mean `model.hidden_dim`?'

    Args:
        section: the section it stands in; "" for none.
        key: the key.
        known: a mapping from sections to their keys.
        owner: what has those keys.
    """
    name = f"{section}.{key}" if section else key
    message = f"`{name}` is not a key of {owner}."
    place, _, field = key.partition(".")
    if not section and field in known.get(place, ()):
        return f"{message} Write `{field}:` in a line below `{place}:`."
    if near := _nearest(section, key, known):
        return f"{message} Did you mean `{near}`?"
    return f"{message} Known here: {', '.join(known[section])}."


def _nearest(section, key, known):
    """The dotted key: of that very name in another section, else the most alike."""
    everywhere = {}
    for place, names in known.items():
        for name in names:
            everywhere.setdefault(name, f"{place}.{name}" if place else name)
    if key in everywhere:
        return everywhere[key]
    here = {name: f"{section}.{name}" if section else name for name in known[section]}
    for names, cutoff in ((NAMES_ELSEWHERE | here, 0.6), (everywhere, 0.9)):
        if close := difflib.get_close_matches(key, names, n=1, cutoff=cutoff):
            return names[close[0]]
    return None


#: A recipe is a few kilobytes, with sections, their keys, and their options' keys.
MAX_CHARACTERS = 1_000_000
MAX_DEPTH = 10

_NULL = re.compile(r"|~|null|Null|NULL")
_TRUE = re.compile(r"true|True|TRUE")
_FALSE = re.compile(r"false|False|FALSE")
_INTEGER = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)
# Python converts no longer ones.
_MAX_DIGITS = 4000


class YamlError(ValueError):
    """Text that cannot be read, with the line and column where that shows, both from 1."""

    def __init__(self, message, line, column):
        super().__init__(message)
        self.line, self.column = line, column


def read_yaml(text):
    """Returns the value, and the line of each key.

    >>> read_yaml("training:\\n  learning_rate: 1e-3\\n  xla: no\\n")
    ({'training': {'learning_rate': 0.001, 'xla': 'no'}},
     {'training': 1, 'training.learning_rate': 2, 'training.xla': 3})

    Args:
        text: one document; nothing, or only comments, is None.

    Raises:
        YamlError: at the first thing that cannot be read.
    """
    if len(text) > MAX_CHARACTERS:
        raise YamlError(f"longer than {MAX_CHARACTERS:,} characters; this is no recipe.", 1, 1)
    try:
        reader = _Reader(yaml.parse(text, Loader=yaml.SafeLoader))
        return reader.read_document(), reader.lines
    except yaml.reader.ReaderError as error:
        raise _at_character(text, error) from error
    except yaml.MarkedYAMLError as error:
        raise _at_mark(error) from error


def write_yaml(value):
    """Returns text from which `read_yaml` reads `value` again; lists are on one line.

    >>> print(write_yaml({"text": {"files": ["1e-3", "no"], "rate": 1e-9}}), end="")
    text:
      files: ['1e-3', 'no']
      rate: 1.0e-09
    """
    return yaml.dump(
        value,
        Dumper=_Dumper,
        allow_unicode=True,
        default_flow_style=False,
        sort_keys=False,
        width=100,
    )


class _Reader:
    """Makes values of a parser's events.

    Args:
        events: of one text, from its start.
    """

    def __init__(self, events):
        self.lines = {}
        self._events = events

    def read_document(self):
        value = None
        next(self._events)
        event = next(self._events)
        if isinstance(event, yaml.DocumentStartEvent):
            value = self._value(next(self._events), ())
            next(self._events)
            event = next(self._events)
        if isinstance(event, yaml.DocumentStartEvent):
            raise _error(event, "a second document begins. Leave out the '---' before it.")
        return value

    def _value(self, event, path):
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            sign = "*" if isinstance(event, yaml.AliasEvent) else "&"
            raise _error(
                event,
                f"{sign}{event.anchor}: anchors and aliases are not allowed. Write the value out; "
                "text that starts with & or * must be in quotes.",
            )
        if event.tag is not None:
            raise _error(
                event,
                f"{event.tag}: tags are not allowed. Leave it out; text that starts with ! must be "
                "in quotes.",
            )
        if isinstance(event, yaml.ScalarEvent):
            return _scalar(event)
        if len(path) >= MAX_DEPTH:
            raise _error(event, f"nested more than {MAX_DEPTH} deep.")
        if isinstance(event, yaml.SequenceStartEvent):
            return self._list(path)
        return self._mapping(path)

    def _list(self, path):
        values = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            values.append(self._value(event, (*path, str(len(values)))))
        return values

    def _mapping(self, path):
        values = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent) or event.anchor or event.tag:
                raise _error(event, "a key must be a plain word.")
            key = event.value
            dotted = ".".join((*path, key))
            if key in values:
                raise _error(
                    event,
                    f"`{dotted}` is there already, in line {self.lines[dotted]}. Remove one of "
                    "the two.",
                )
            self.lines[dotted] = event.start_mark.line + 1
            values[key] = self._value(next(self._events), (*path, key))
        return values


def _scalar(event):
    text = event.value
    if event.style is not None:  # in quotes, or a block
        return text
    if _INTEGER.fullmatch(text):
        if len(text) > _MAX_DIGITS:
            raise _error(event, f"a number of {len(text)} digits.")
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(re.sub(r"\.(?=[iInN])", "", text))  # Python writes inf and nan
    if _NULL.fullmatch(text):
        return None
    if _TRUE.fullmatch(text):
        return True
    return False if _FALSE.fullmatch(text) else text


def _error(event, message):
    mark = event.start_mark
    return YamlError(message, mark.line + 1, mark.column + 1)


def _at_mark(error):
    """What the parser says, on one line and where it says it."""
    mark = error.problem_mark or error.context_mark
    message = f"{error.problem or error.context}."
    if error.context and error.problem:
        message = f"{error.problem} ({error.context})."
    if "'\\t'" in message:
        message += " Indent with spaces, not with tabs."
    elif "mapping values are not allowed" in message:
        message += " Check the indentation; text with ': ' in it must be in quotes."
    return YamlError(message, mark.line + 1, mark.column + 1)


def _at_character(text, error):
    before = text[: error.position]
    column = error.position - before.rfind("\n")
    code = error.character if isinstance(error.character, int) else ord(error.character)
    return YamlError(
        f"the character U+{code:04X} is not allowed. Remove it.", before.count("\n") + 1, column
    )


class _Dumper(yaml.SafeDumper):
    """Puts text in quotes that either version of YAML would take for something else."""

    def ignore_aliases(self, data):
        return True


# The serializer asks what plain text would be read as. Its own answers are those of YAML 1.1; what
# is a number in 1.2 alone is added here.
_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(f"^(?:{_FLOAT.pattern})$"), list("-+.0123456789")
)
# What is no letter is escaped: PyYAML takes U+0085 for the end of a line, and folds lines.
_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style=None if text.isprintable() else '"'
    ),
)
_Dumper.add_representer(
    list,
    lambda dumper, values: dumper.represent_sequence(
        "tag:yaml.org,2002:seq", values, flow_style=True
    ),
)


class GivenRecipe:
    """The keys and values of a file, some of them set anew, and where each of them stands.

    Args:
        path: the file's, for messages.
        text: what the file holds.

    Raises:
        UserError: with line and column, if that is no mapping in YAML.
    """

    def __init__(self, path, text):
        self.path = path
        try:
            self.values, lines = read_yaml(text)
        except YamlError as error:
            raise UserError(f"{path}:{error.line}:{error.column}: {shown(str(error))}") from error
        if self.values is None:
            raise UserError(
                f"{path}:1:1: the recipe is empty. Start with name, task, data and training."
            )
        if not isinstance(self.values, dict):
            raise UserError(
                f"{path}:1:1: a recipe must be lines of 'key: value'; got {self.values!r:.60}."
            )
        #: For each dotted key a place to sort by, and how a message calls it.
        self._origins = {key: ((0, line), f"{path}:{line}") for key, line in lines.items()}

    def set(self, override):
        """Sets a key anew, as `training.steps=100` says; the value is read as in the file."""
        key, value = parse_override(override)
        *sections, last = key.split(".")
        place = self.values
        for section in sections:
            if place.get(section) is None:
                place[section] = {}
            place = place[section]
            if not isinstance(place, dict):
                raise UserError(f"--set {override}: `{section}` has no keys; it is {place!r:.60}.")
        place[last] = value
        for old in [old for old in self._origins if old.startswith(f"{key}.")]:
            del self._origins[old]
        self._origins[key] = ((1, len(self._origins)), f"--set {override}")

    def located(self, mistakes):
        """The same mistakes, in the order and with the places where they were made."""
        placed = [(*self._origin(mistake), mistake) for mistake in mistakes]
        lines = [f"{place}: {mistake}" for _, place, mistake in sorted(placed)]
        return RecipeError(lines, origin=self.path)

    def _origin(self, mistake):
        """Where one of the keys that a mistake names was given: by --set if one was.

        A key that was given, or something in it, goes before one whose section was; the first goes
        before the others.
        """
        keys = re.findall(r"`([\w.-]+)`", mistake)
        inside = [known for key in keys for known in self._origins if known.startswith(f"{key}.")]
        around = [section for key in keys for section in _sections(key)]
        given = [self._origins[key] for key in (*keys, *inside, *around) if key in self._origins]
        return max(given, key=lambda origin: origin[0][0], default=((0, 0), self.path))


def _sections(key):
    """What a dotted key is in, the innermost first.

    >>> _sections("evaluation.search.beams")
    ['evaluation.search', 'evaluation']
    """
    parts = key.split(".")
    return [".".join(parts[:end]) for end in range(len(parts) - 1, 0, -1)]


def parse_override(override):
    """The dotted key and the value of a text of --set; the value is read as in a file.

    >>> parse_override("training.learning_rate=1e-3")
    ('training.learning_rate', 0.001)
    """
    key, equals, text = override.partition("=")
    if not equals or not all(key.split(".")):
        raise UserError(f"--set {override}: must look like key=value, as training.steps=100.")
    try:
        return key, read_yaml(text)[0]
    except YamlError as error:
        raise UserError(f"--set {override}: {error}") from error
