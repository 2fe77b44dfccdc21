"""YAML without its traps: every value means what it looks like, and every key has a line.

Scalars are read by the core schema of YAML 1.2: `1e-3` is a number, and of the booleans there are
only `true` and `false`. (PyYAML follows YAML 1.1, where `1e-3` is a string, `no` is false and
`12:30` is 750.) A key may stand only once. Anchors, aliases and tags are refused: a recipe needs no
program inside, and a few lines of aliases can stand for terabytes.
"""

import re

import yaml

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
