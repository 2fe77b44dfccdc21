"""Evaluation against references: the registered metrics, and the worst sentences."""

import json
import re

import pytest
import sacrebleu

from keras_transformer._utils.console import render
from keras_transformer._utils.errors import UserError
from keras_transformer.cli.evaluate import draw_evaluation
from keras_transformer.inference import BLEU_TOKENS, evaluate, evaluate_translations
from keras_transformer.metrics import TEXT_METRICS, TextMetric
from tests.inference.shouting_model import ShoutingModel

SOURCES = ["Das Haus ist sehr klein.", "Guten Tag!", "Wo ist der Bahnhof?", ""]
REFERENCES = ["The house is very small.", "Good day!", "Where is the station?", ""]
HYPOTHESES = ["The house is rather small.", "Good day! ", "Nothing of that kind", ""]


@pytest.fixture(scope="module")
def evaluation():
    return evaluate_translations(SOURCES, HYPOTHESES, REFERENCES)


def test_metrics_equal_those_of_sacrebleu(evaluation):
    assert evaluation.metrics["bleu"] == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score
    assert evaluation.metrics["chrf"] == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score
    assert 0 < evaluation.metrics["bleu"] < evaluation.metrics["chrf"] < 100
    assert evaluation.signatures["bleu"] == (
        f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{sacrebleu.__version__}"
    )
    assert evaluation.signatures["chrf"] == (
        f"nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:{sacrebleu.__version__}"
    )


def test_exact_match_ignores_white_space_at_the_ends(evaluation):
    assert evaluation.sentences == 4
    assert evaluation.metrics["exact_match"] == 0.5


def test_worst_sentences_are_sorted_without_exact_matches(evaluation):
    assert [sentence.line for sentence in evaluation.worst] == [3, 1]
    worst = evaluation.worst[0]
    assert (worst.source, worst.reference, worst.hypothesis) == (
        "Wo ist der Bahnhof?",
        "Where is the station?",
        "Nothing of that kind",
    )
    assert worst.chrf == sacrebleu.sentence_chrf(HYPOTHESES[2], [REFERENCES[2]]).score
    only = evaluate_translations(SOURCES, HYPOTHESES, REFERENCES, worst=1)
    assert only.worst == (worst,)
    assert evaluate_translations(SOURCES, HYPOTHESES, REFERENCES, worst=0).worst == ()


def test_perfect_translations_have_the_highest_metrics():
    evaluation = evaluate_translations(SOURCES, REFERENCES, REFERENCES)
    assert (evaluation.metrics["bleu"], evaluation.metrics["chrf"]) == (
        pytest.approx(100),
        pytest.approx(100),
    )
    assert (evaluation.metrics["exact_match"], evaluation.worst) == (1, ())


def test_tokenized_texts_cause_no_warning(caplog):
    evaluate_translations(["a"] * 200, ["a b ."] * 200, ["a b ."] * 200)
    assert not caplog.records


def test_bleu_tokens_select_the_tokenization():
    hypotheses, references = ["ein hund schläft-auf dem sofa !"], ["ein hund schläft auf dem sofa!"]
    scores = {
        tokens: evaluate_translations(["a"], hypotheses, references, bleu_tokens=tokens)
        for tokens in BLEU_TOKENS
    }
    for tokens, evaluation in scores.items():
        expected = sacrebleu.corpus_bleu(hypotheses, [references], tokenize=tokens, force=True)
        assert evaluation.metrics["bleu"] == expected.score
        assert f"|tok:{tokens}|" in evaluation.signatures["bleu"]
    # "sofa !" and "sofa!" are the same words to one, and not to the other.
    assert scores["none"].metrics["bleu"] < scores["13a"].metrics["bleu"]
    with pytest.raises(ValueError, match=r"`bleu_tokens` must be one of '13a', .* got 'moses'"):
        evaluate_translations(["a"], ["A"], ["A"], bleu_tokens="moses")


def test_registered_metric_is_evaluated_and_printed(monkeypatch):
    class Shorter(TextMetric):
        title = "shorter by"
        higher_is_better = False

        def compute(self, hypotheses, references):
            return float(sum(map(len, references)) - sum(map(len, hypotheses)))

    monkeypatch.setitem(TEXT_METRICS, "test_shorter", Shorter())
    evaluation = evaluate_translations(["a"], ["abc"], ["abcdef"])
    assert evaluation.metrics["test_shorter"] == 3.0
    assert "test_shorter" not in evaluation.signatures
    printed = render(lambda console: draw_evaluation(console, evaluation))
    assert re.search(r"shorter by +3\.00", printed)


def test_to_dictionary_is_json(evaluation):
    content = json.loads(json.dumps(evaluation.to_dictionary()))
    assert list(content)[-1] == "worst"
    assert content["metrics"]["exact_match"] == 0.5
    assert content["worst"][0]["hypothesis"] == "Nothing of that kind"
    assert content["metrics"] == evaluation.metrics


def test_evaluate_compares_the_translations_of_the_model():
    sources = ["ein Haus am See", "zwei Boote", "drei Bäume im Garten hier"]
    references = ["EIN HAUS AM SEE", "ZWEI", "DREI BÄUME IM GARTEN HIER"]
    evaluation = evaluate(ShoutingModel(), sources, references, window=2, bleu_tokens="none")
    assert evaluation.metrics["exact_match"] == 2 / 3
    assert "|tok:none|" in evaluation.signatures["bleu"]
    assert [sentence.hypothesis for sentence in evaluation.worst] == ["ZWEI BOOTE"]


def test_different_counts_raise_an_error():
    model = ShoutingModel()
    with pytest.raises(UserError) as caught:
        evaluate(model, ["a", "b"], ["A"])
    assert "got 2 sources, 1 references" in str(caught.value)
    assert model.calls == []
    with pytest.raises(UserError, match="got 1 sources, 2 hypotheses, 1 references"):
        evaluate_translations(["a"], ["A", "B"], ["A"])
    with pytest.raises(UserError, match="got 0 sources"):
        evaluate(model, [], [])
    with pytest.raises(ValueError, match=r"`worst` .*got -1"):
        evaluate_translations(["a"], ["A"], ["A"], worst=-1)
