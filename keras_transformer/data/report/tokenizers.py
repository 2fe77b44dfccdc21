"""The tokenizers that the data report counts with: learned from the corpus, or loaded."""

import itertools
import pathlib
import warnings

from keras_transformer.data.token_cache.label_index import LabelIndex
from keras_transformer.errors import UserError
from keras_transformer.text import (
    ByteTokenizer,
    TokenizerPair,
    learn_tokenizer,
    load_tokenizer,
    registered_tokenizers,
)

DEFAULT_VOCABULARY_SIZE = 8000


def find_tokenizers(corpus, tokenizer, vocabulary_size=None):
    """Returns the tokenizer of each column, the size that was asked for, and warnings.

    Args:
        corpus: the `Corpus` to learn from; source and target share what is learned.
        tokenizer: the registered name of a kind to learn, or the directory of a saved tokenizer
            or `TokenizerPair`.
        vocabulary_size: the number of ids to learn, 8,000 by default.
    """
    if tokenizer in registered_tokenizers() and tokenizer != ByteTokenizer.registered_name:
        asked_size = vocabulary_size or DEFAULT_VOCABULARY_SIZE
        learned, messages = _learn(corpus, tokenizer, asked_size)
        pair = TokenizerPair(learned)
    else:
        if vocabulary_size is not None:
            raise UserError(
                f"`vocabulary_size` is for a vocabulary that is learned; {tokenizer} has a size "
                "of its own. Leave one of the two out."
            )
        pair, asked_size, messages = _load(tokenizer), None, []
    tokenizers = dict.fromkeys(corpus.columns, pair.source)
    if "target" in tokenizers:
        tokenizers["target"] = pair.target
    if "label" in tokenizers:
        tokenizers["label"] = LabelIndex(corpus.labels)
    return tokenizers, asked_size, messages


def _learn(corpus, name, vocabulary_size):
    columns = [place for place, column in enumerate(corpus.columns) if column != "label"]
    lines = itertools.chain.from_iterable(
        (example[place] for place in columns) for example in corpus
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tokenizer = learn_tokenizer(name, lines, vocabulary_size)
    return tokenizer, [str(warning.message) for warning in caught if _is_for_users(warning)]


def _is_for_users(warning):
    # What libraries say to programmers has a category of its own, such as DeprecationWarning.
    return warning.category is UserWarning


def _load(tokenizer):
    if tokenizer == ByteTokenizer.registered_name:
        return TokenizerPair(ByteTokenizer())
    directory = pathlib.Path(tokenizer)
    if not directory.is_dir():
        kinds = ", ".join(registered_tokenizers())
        raise UserError(
            f"{tokenizer}: neither a kind of tokenizer ({kinds}) nor a directory of a saved one. "
            "Check the spelling."
        )
    if (directory / "tokenizer.json").exists():
        return TokenizerPair(load_tokenizer(directory))
    return TokenizerPair.load(directory)
