"""How good translations are: BLEU, chrF, exact matches, and the worst sentences to look at."""

import dataclasses
import heapq

from keras_transformer._utils.checks import require_choice, require_integer
from keras_transformer._utils.errors import UserError
from keras_transformer.data.corpora.conllu import conllu_text
from keras_transformer.inference.translation import WINDOW, translate_lines

#: What BLEU can count, by sacrebleu's names: "13a" and "intl" cut texts as people write them into
#: words, "zh" Chinese ones, "char" any into letters; "none" takes texts that are cut already.
BLEU_TOKENS = ("13a", "intl", "zh", "char", "none")


@dataclasses.dataclass(frozen=True)
class PoorSentence:
    """A sentence whose translation is unlike its reference.

    Attributes:
        line: its number, from 1 on.
        source, reference, hypothesis: the texts; the hypothesis is the model's. Of a source that is
            CoNLL-U, it is the words.
        chrf: of this sentence, from 0 to 100.
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
        sentences: how many there are.
        bleu, chrf: of the whole set, from 0 to 100.
        bleu_signature, chrf_signature: how sacrebleu has measured them; to be published with them.
        exact_matches: how many translations are their reference, but for white space at the ends.
        worst: a tuple of `PoorSentence`, the one with the lowest chrF first; exact matches are not
            among them.
    """

    sentences: int
    bleu: float
    bleu_signature: str
    chrf: float
    chrf_signature: str
    exact_matches: int
    worst: tuple

    @property
    def exact_match_share(self):
        """The share of exact matches, from 0 to 1."""
        return self.exact_matches / self.sentences

    def to_dictionary(self):
        """Returns all of it in the types of JSON."""
        content = dataclasses.asdict(self)
        # The worst sentences last, as they are the longest part.
        worst = list(content.pop("worst"))
        return {**content, "exact_match_share": self.exact_match_share, "worst": worst}


def evaluate(text_model, sources, references, worst=10, window=WINDOW, bleu_tokens="13a"):
    """Translates sources and compares the best translation of each with its reference.

    Args:
        text_model: A `TextModel`, from `open_text_model`.
        sources: A list of strings.
        references: A list of as many strings: what a person would have written.
        worst: How many of the worst sentences to keep.
        window: How many lines the model is given at once, at most.
        bleu_tokens: What BLEU counts, see `evaluate_translations`.
    """
    _require_as_many(sources=sources, references=references)
    translations = translate_lines(text_model, sources, window=window)
    hypotheses = [translation.text for translation in translations]
    return evaluate_translations(sources, hypotheses, references, worst, bleu_tokens)


def evaluate_translations(sources, hypotheses, references, worst=10, bleu_tokens="13a"):
    """Compares translations that are there already with their references.

    BLEU is that of Papineni et al. 2002 with sacrebleu's defaults (Post 2018, "A call for clarity
    in reporting BLEU scores"), for texts as people write them; `bleu_tokens="none"` is for texts
    that are cut into tokens already. chrF is that of Popović 2015. Every sentence counts, blank
    ones too.

    Args:
        sources: A list of strings.
        hypotheses: A list of as many strings: the translations.
        references: A list of as many strings: what a person would have written.
        worst: How many of the worst sentences to keep.
        bleu_tokens: What BLEU counts, one of `BLEU_TOKENS`.

    Example:

    >>> evaluation = evaluate_translations(
    ...     sources=["Das Haus ist klein.", "Guten Tag!"],
    ...     hypotheses=["The house is small.", "Good bye!"],
    ...     references=["The house is small.", "Good day!"],
    ... )
    >>> evaluation.sentences, evaluation.exact_matches, evaluation.bleu_signature
    (2, 1, 'nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:...')
    >>> evaluation.worst[0].hypothesis
    'Good bye!'
    """
    from sacrebleu.metrics import BLEU, CHRF

    _require_as_many(sources=sources, hypotheses=hypotheses, references=references)
    worst = require_integer("worst", worst, minimum=0)
    require_choice("bleu_tokens", bleu_tokens, BLEU_TOKENS)
    # By force: no advice on standard error about texts that look as if cut into tokens.
    bleu, chrf = BLEU(tokenize=bleu_tokens, force=True), CHRF()
    is_exact = [
        hypothesis.strip() == reference.strip()
        for hypothesis, reference in zip(hypotheses, references, strict=True)
    ]
    read = map(conllu_text, sources)
    rows = zip(range(1, len(sources) + 1), read, references, hypotheses, is_exact, strict=True)
    poor = (
        PoorSentence(*texts, chrf=chrf.sentence_score(texts[3], [texts[2]]).score)
        for *texts, is_same in rows
        if not is_same
    )
    return Evaluation(
        sentences=len(sources),
        bleu=bleu.corpus_score(hypotheses, [references]).score,
        bleu_signature=bleu.get_signature().format(),
        chrf=chrf.corpus_score(hypotheses, [references]).score,
        chrf_signature=chrf.get_signature().format(),
        exact_matches=sum(is_exact),
        worst=tuple(heapq.nsmallest(worst, poor, key=lambda sentence: sentence.chrf)),
    )


def _require_as_many(**texts):
    """Raises a `UserError` with all counts unless they are equal and above 0."""
    counts = {name: len(part) for name, part in texts.items()}
    if len(set(counts.values())) > 1:
        given = ", ".join(f"{count:,} {name}" for name, count in counts.items())
        raise UserError(f"There must be as many of each; got {given}. Find what is missing.")
    if not all(counts.values()):
        raise UserError("There is nothing to evaluate: got 0 sources. Give at least one sentence.")
