"""The options of a search, shared by the verbs that search."""

_OPTIONS = {
    "beams": (int, "N", "hypotheses side by side; 1 is greedy (default: 4)"),
    "length_penalty": (float, "A", "the larger, the longer the texts (default: 0.6)"),
    "coverage_penalty": (float, "B", "against leaving parts of the source out (default: 0)"),
    "max_length": (
        int,
        "N",
        "tokens at most (default: the model's; a language model's: 256, or half)",
    ),
    "max_length_ratio": (float, "R", "and at most R times the source's tokens … (default: 1)"),
    "max_length_margin": (int, "N", "… and N more (default: 50)"),
    "min_length": (int, "N", "tokens at least (default: 1)"),
    "min_length_ratio": (float, "R", "and at least R times the source's (default: 0)"),
    "no_repeat_ngram": (int, "N", "no N tokens in a row come twice (default: no such rule)"),
    "repetition_penalty": (float, "F", "at least 1: makes old tokens less likely (default: 1)"),
}


def add_search_options(parser):
    """Adds an option for each field of `SearchSettings`."""
    group = parser.add_argument_group(
        "search",
        "A run searches as its recipe says, and an export as it was told when it was made. The "
        "defaults are those of a run without a recipe.",
    )
    for name, (kind, letter, text) in _OPTIONS.items():
        group.add_argument("--" + name.replace("_", "-"), type=kind, metavar=letter, help=text)


def search_settings(arguments):
    """The fields of `SearchSettings` that were given, as a dictionary."""
    given = {name: getattr(arguments, name) for name in _OPTIONS}
    return {name: value for name, value in given.items() if value is not None}
