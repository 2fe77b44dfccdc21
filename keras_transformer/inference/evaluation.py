"""Quality of translations: the registered text metrics, and the worst sentences to look at."""

import dataclasses
import heapq
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from keras_transformer._utils.checks import require_choice, require_integer
from keras_transformer._utils.errors import UserError
from keras_transformer.data.corpora.conllu import conllu_text
from keras_transformer.inference.translation import WINDOW, translate_lines
from keras_transformer.metrics import TEXT_METRICS
from keras_transformer.metrics.bleu import BLEU_TOKENS

if TYPE_CHECKING:
    from keras_transformer.inference.text_model import TextModel


@dataclasses.dataclass(frozen=True)
class PoorSentence:
    """A sentence whose translation differs from its reference.

    Attributes:
        line: its number, counted from 1.
        source: the source; of a source in CoNLL-U, its words.
        reference: the reference.
        hypothesis: the model's translation.
        chrf: chrF of this sentence, from 0 to 100.
    """

    line: int
    source: str
    reference: str
    hypothesis: str
    chrf: float


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The quality of the translations of a test set.

    Attributes:
        sentences: number of sentences.
        metrics: text metrics of the whole set by name.
        signatures: settings and version of each metric that has them, to publish with its value.
        worst: the sentences with the lowest chrF, the lowest first, without exact matches.
    """

    sentences: int
    metrics: dict[str, float]
    signatures: dict[str, str]
    worst: tuple[PoorSentence, ...]

    def to_dictionary(self) -> dict[str, Any]:
        """Returns all of it in the types of JSON."""
        content = dataclasses.asdict(self)
        return {**content, "worst": list(content["worst"])}


def evaluate(
    text_model: "TextModel",
    sources: Sequence[str],
    references: Sequence[str],
    worst: int = 10,
    window: int = WINDOW,
    bleu_tokens: str = "13a",
    metrics: Iterable[str] | None = None,
) -> Evaluation:
    """Translates sources and compares the best translation of each with its reference.

    Args:
        text_model: a `TextModel`, from `keras_transformer.load`.
        sources: the source texts.
        references: as many reference translations.
        worst: number of the worst sentences to keep. Default 10.
        window: maximum number of lines that the model gets at once. Default 1024.
        bleu_tokens: tokenization of BLEU, see `evaluate_translations`.
        metrics: names of text metrics. Default: all that are registered.
    """
    _require_equal_counts(sources=sources, references=references)
    translations = translate_lines(text_model, sources, window=window)
    hypotheses = [translation.text for translation in translations]
    return evaluate_translations(sources, hypotheses, references, worst, bleu_tokens, metrics)


def evaluate_translations(
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[str],
    worst: int = 10,
    bleu_tokens: str = "13a",
    metrics: Iterable[str] | None = None,
) -> Evaluation:
    """Compares existing translations with their references by text metrics.

    Every sentence counts, including blank ones.

    Args:
        sources: the source texts.
        hypotheses: as many translations.
        references: as many reference translations.
        worst: number of the worst sentences to keep. Default 10.
        bleu_tokens: tokenization of BLEU: "13a" or "intl" for raw text, "zh" for Chinese, "char"
            for characters, "none" for texts that are tokenized already. Default "13a".
        metrics: names of text metrics. Default: all that are registered.

    Example:

    >>> evaluation = evaluate_translations(
    ...     sources=["Das Haus ist klein.", "Guten Tag!"],
    ...     hypotheses=["The house is small.", "Good bye!"],
    ...     references=["The house is small.", "Good day!"],
    ... )
    >>> evaluation.sentences, evaluation.metrics["exact_match"]
    (2, 0.5)
    >>> evaluation.signatures["bleu"]
    'nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:...'
    >>> evaluation.worst[0].hypothesis
    'Good bye!'
    """
    _require_equal_counts(sources=sources, hypotheses=hypotheses, references=references)
    worst = require_integer("worst", worst, minimum=0)
    require_choice("bleu_tokens", bleu_tokens, BLEU_TOKENS)
    options = {"bleu": {"tokenize": bleu_tokens}}
    values, signatures = {}, {}
    for name in sorted(TEXT_METRICS if metrics is None else metrics):
        metric = TEXT_METRICS[require_choice("metrics", name, TEXT_METRICS)]
        own = options.get(name, {})
        values[name] = metric.compute(hypotheses, references, **own)
        signature = metric.signature(**own)
        if signature is not None:
            signatures[name] = signature
    return Evaluation(
        sentences=len(sources),
        metrics=values,
        signatures=signatures,
        worst=_worst_sentences(sources, hypotheses, references, worst),
    )


def _worst_sentences(
    sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[str], count: int
) -> tuple[PoorSentence, ...]:
    if not count:
        return ()
    is_exact = TEXT_METRICS["exact_match"].sentence_scores(hypotheses, references)
    rows = [row for row, exact in enumerate(is_exact) if not exact]
    scores = TEXT_METRICS["chrf"].sentence_scores(
        [hypotheses[row] for row in rows], [references[row] for row in rows]
    )
    poor = (
        PoorSentence(row + 1, conllu_text(sources[row]), references[row], hypotheses[row], score)
        for row, score in zip(rows, scores, strict=True)
    )
    return tuple(heapq.nsmallest(count, poor, key=lambda sentence: sentence.chrf))


def _require_equal_counts(**texts: Sequence[str]) -> None:
    """Raises a `UserError` with all counts unless they are equal and above 0."""
    counts = {name: len(part) for name, part in texts.items()}
    if len(set(counts.values())) > 1:
        given = ", ".join(f"{count:,} {name}" for name, count in counts.items())
        raise UserError(f"There must be as many of each; got {given}.", fix="Find what is missing.")
    if not all(counts.values()):
        raise UserError(
            "There is nothing to evaluate: got 0 sources.", fix="Give at least one sentence."
        )
