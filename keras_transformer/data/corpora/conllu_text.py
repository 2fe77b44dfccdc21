"""What a person reads of a sentence in CoNLL-U."""

import re

_WORD = re.compile(r"[1-9][0-9]*\t([^\t]+)(?:\t[^\t]+){8}\r?", re.ASCII)


def conllu_text(string):
    """Returns the words of a sentence in CoNLL-U, with a space between them.

    A string that is no CoNLL-U is given back as it is.

    >>> conllu_text("# a comment\\n1\\tDogs\\t_\\t_\\t_\\t_\\t0\\t_\\t_\\t_")
    'Dogs'
    >>> conllu_text("Dogs sleep")
    'Dogs sleep'
    """
    matches = map(_WORD.fullmatch, string.split("\n"))
    return " ".join(match[1] for match in matches if match) or string


def is_conllu_file(path):
    """Whether a file's name says that it holds CoNLL-U.

    >>> is_conllu_file("train.conllu.gz"), is_conllu_file("train.de")
    (True, False)
    """
    return str(path).lower().removesuffix(".gz").endswith(".conllu")
