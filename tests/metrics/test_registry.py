"""Tests of the registry of text metrics and of its members."""

import subprocess
import sys

import pytest
import sacrebleu

from keras_transformer.metrics import (
    TEXT_METRICS,
    SacrebleuMetric,
    TextMetric,
    metric_direction,
    register_text_metric,
)
from keras_transformer.metrics.bleu import BLEU_TOKENS

HYPOTHESES = ["The house is small.", "He has gone home .", "Ein Boot"]
REFERENCES = ["The house is small.", "He went home.", "Zwei Boote"]


def test_registry_has_the_metrics_of_the_package():
    for name in ("bleu", "chrf", "exact_match"):
        assert name in TEXT_METRICS
        assert metric_direction(name) == "max"


@pytest.mark.parametrize("name", sorted(TEXT_METRICS))
def test_every_metric_describes_itself_and_computes(name):
    metric = TEXT_METRICS[name]
    assert metric.name == name
    assert metric.title
    assert metric_direction(name) == ("max" if metric.higher_is_better else "min")
    assert metric.value_format.format(metric.compute(HYPOTHESES, REFERENCES))
    assert len(metric.sentence_scores(HYPOTHESES, REFERENCES)) == len(HYPOTHESES)


def test_registry_imports_without_tensorflow():
    code = (
        "import sys; from keras_transformer.metrics.registry import TEXT_METRICS; "
        "assert TEXT_METRICS['chrf'].signature(); assert 'tensorflow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("tokenize", BLEU_TOKENS)
def test_bleu_equals_sacrebleu(tokenize):
    value = TEXT_METRICS["bleu"].compute(HYPOTHESES, REFERENCES, tokenize=tokenize)
    expected = sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES], tokenize=tokenize, force=True)
    assert value == expected.score
    assert f"tok:{tokenize}" in TEXT_METRICS["bleu"].signature(tokenize=tokenize)


def test_bleu_of_unknown_tokens_raises_value_error():
    with pytest.raises(ValueError, match=r"`tokenize`.*'13a'.*'moses'"):
        TEXT_METRICS["bleu"].compute(HYPOTHESES, REFERENCES, tokenize="moses")


def test_chrf_equals_sacrebleu():
    chrf = TEXT_METRICS["chrf"]
    assert chrf.compute(HYPOTHESES, REFERENCES) == (
        sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score
    )
    assert chrf.sentence_scores(HYPOTHESES, REFERENCES) == [
        sacrebleu.sentence_chrf(hypothesis, [reference]).score
        for hypothesis, reference in zip(HYPOTHESES, REFERENCES, strict=True)
    ]
    assert sacrebleu.__version__ in chrf.signature()


def test_exact_match_ignores_white_space_at_the_ends():
    exact_match = TEXT_METRICS["exact_match"]
    assert exact_match.sentence_scores(["a ", "b", "c d"], [" a", "B", "c  d"]) == [1, 0, 0]
    assert exact_match.compute(["a ", "b", "c d"], [" a", "B", "c  d"]) == 1 / 3
    assert exact_match.signature() is None


@pytest.fixture
def error_rate():
    """Registers a metric for one test."""

    @register_text_metric("test_error_rate")
    class ErrorRate(TextMetric):
        title = "error rate"
        higher_is_better = False

        def compute(self, hypotheses, references, **options):
            pairs = zip(hypotheses, references, strict=True)
            return sum(h != r for h, r in pairs) / len(references)

    yield TEXT_METRICS["test_error_rate"]
    del TEXT_METRICS["test_error_rate"]


def test_registered_metric_has_name_direction_and_sentence_scores(error_rate):
    assert error_rate.name == "test_error_rate"
    assert metric_direction("test_error_rate") == metric_direction("val_test_error_rate") == "min"
    assert error_rate.sentence_scores(["a", "b"], ["a", "c"]) == [0, 1]


def test_metric_of_sacrebleu_is_a_class_that_makes_it(monkeypatch):
    @register_text_metric("test_ter")
    class TranslationEditRate(SacrebleuMetric):
        title = "TER"
        higher_is_better = False

        def make(self, case_sensitive=False):
            return sacrebleu.TER(case_sensitive=case_sensitive)

    metric = TEXT_METRICS["test_ter"]
    del TEXT_METRICS["test_ter"]
    monkeypatch.setitem(TEXT_METRICS, "test_ter", metric)  # removed after the test
    expected = sacrebleu.TER().corpus_score(HYPOTHESES, [REFERENCES]).score
    assert metric.compute(HYPOTHESES, REFERENCES) == expected
    assert metric.compute(["a"], ["A"]) == 0 < metric.compute(["a"], ["A"], case_sensitive=True)
    assert "case:mixed" in metric.signature(case_sensitive=True)
    assert metric_direction("test_ter") == "min"


@pytest.mark.parametrize(
    ("name", "direction"), [("loss", "min"), ("perplexity", "min"), ("val_accuracy", "max")]
)
def test_metric_direction_knows_token_metrics(name, direction):
    assert metric_direction(name) == direction


@pytest.mark.parametrize("name", ["bleu", "loss"])
def test_register_text_metric_rejects_a_taken_name(name):
    with pytest.raises(ValueError, match=f"'{name}'"):
        register_text_metric(name)(type(TEXT_METRICS["bleu"]))


def test_metric_direction_of_unknown_name_raises_value_error():
    with pytest.raises(ValueError, match=r"`metric`.*'bleu'.*'blue'"):
        metric_direction("blue")
