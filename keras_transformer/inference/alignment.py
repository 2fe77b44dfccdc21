"""Which tokens of the source a model attended to, for each token of the target."""

import dataclasses

import numpy as np

from keras_transformer.data.corpora.conllu_text import conllu_text
from keras_transformer.inference.translation import as_tensor, as_text, require_text_generator
from keras_transformer.printable import shown
from keras_transformer.text.special_ids import SPECIAL_NAMES


@dataclasses.dataclass(frozen=True, eq=False)
class Alignment:
    """The attention of one sentence.

    Attributes:
        source, target: the texts; of a source that is CoNLL-U, the words.
        source_tokens: what a person reads for each token of the source, S strings.
        target_tokens: the same for the target, T strings.
        weights: [T, S], how much each target token attended to each source token.
    """

    source: str
    target: str
    source_tokens: tuple
    target_tokens: tuple
    weights: np.ndarray

    def __post_init__(self):
        shape = len(self.target_tokens), len(self.source_tokens)
        if self.weights.shape != shape:
            raise ValueError(
                f"`weights` must have shape [target tokens, source tokens] = {shape}; got "
                f"{self.weights.shape}."
            )

    @property
    def largest_weight(self):
        """The darkest cell of a picture; 1 if all weights are 0 or there is none."""
        return float(self.weights.max(initial=0)) or 1.0


def split_mark(token):
    """Returns how a token is shown: its mark, to stand back where that can be, and its text.

    SentencePiece writes "▁" where a word begins, shown as "␣"; WordPiece "##" where one goes on.
    The names of special ids are all mark. What would not be seen in the text is spelt out.

    >>> split_mark("▁house"), split_mark("##s"), split_mark("<end>"), split_mark("\\t")
    (('␣', 'house'), ('##', 's'), ('<end>', ''), ('', '\\\\t'))
    """
    if token in SPECIAL_NAMES:
        return token, ""
    text = token.lstrip("▁")
    if text != token:
        return "␣" * (len(token) - len(text)), shown(text)
    text = token.removeprefix("##")
    return token[: len(token) - len(text)], shown(text)


def align(text_model, sources, targets):
    """Returns the `Alignment` of each pair of texts.

    Args:
        text_model: A `TextModel`, from `open_text_model`.
        sources: A list of strings.
        targets: A list of as many strings, translations of the model or of people.
    """
    require_text_generator(text_model)
    found = text_model.signatures["attention"](source=as_tensor(sources), target=as_tensor(targets))
    rows = (found[name].numpy() for name in ("source_tokens", "target_tokens", "weights"))
    return [
        _make_alignment(*texts, *row)
        for *texts, row in zip(sources, targets, zip(*rows, strict=True), strict=True)
    ]


def _make_alignment(source, target, source_tokens, target_tokens, weights):
    """Makes an alignment of one row, without what fills the row up to the longest: empty tokens."""
    source_tokens = tuple(as_text(token) for token in source_tokens if token)
    target_tokens = tuple(as_text(token) for token in target_tokens if token)
    weights = weights[: len(target_tokens), : len(source_tokens)]
    return Alignment(conllu_text(source), target, source_tokens, target_tokens, weights)
