"""Quality against references: sacrebleu's own numbers, and the sentences to look at."""

import json

import pytest
import sacrebleu

from keras_transformer._utils.errors import UserError
from keras_transformer.inference import BLEU_TOKENS, evaluate, evaluate_translations
from tests.inference.shouting_model import ShoutingModel

SOURCES = ["Das Haus ist sehr klein.", "Guten Tag!", "Wo ist der Bahnhof?", ""]
REFERENCES = ["The house is very small.", "Good day!", "Where is the station?", ""]
HYPOTHESES = ["The house is rather small.", "Good day! ", "Nothing of that kind", ""]


@pytest.fixture(scope="module")
def evaluation():
    return evaluate_translations(SOURCES, HYPOTHESES, REFERENCES)


def test_scores_are_those_of_sacrebleu(evaluation):
    assert evaluation.bleu == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score
    assert evaluation.chrf == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score
    assert 0 < evaluation.bleu < evaluation.chrf < 100
    assert evaluation.bleu_signature == (
        f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{sacrebleu.__version__}"
    )
    assert evaluation.chrf_signature == (
        f"nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:{sacrebleu.__version__}"
    )


def test_white_space_at_the_ends_does_not_spoil_an_exact_match(evaluation):
    assert (evaluation.sentences, evaluation.exact_matches) == (4, 2)
    assert evaluation.exact_match_share == 0.5


def test_the_worst_come_first_and_exact_matches_never(evaluation):
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


def test_perfect_translations():
    evaluation = evaluate_translations(SOURCES, REFERENCES, REFERENCES)
    assert (evaluation.bleu, evaluation.chrf) == (pytest.approx(100), pytest.approx(100))
    assert (evaluation.exact_match_share, evaluation.worst) == (1, ())


def test_it_is_quiet_about_texts_cut_into_tokens(caplog):
    evaluate_translations(["a"] * 200, ["a b ."] * 200, ["a b ."] * 200)
    assert not caplog.records


def test_what_bleu_counts():
    hypotheses, references = ["ein hund schläft-auf dem sofa !"], ["ein hund schläft auf dem sofa!"]
    scores = {
        tokens: evaluate_translations(["a"], hypotheses, references, bleu_tokens=tokens)
        for tokens in BLEU_TOKENS
    }
    for tokens, evaluation in scores.items():
        expected = sacrebleu.corpus_bleu(hypotheses, [references], tokenize=tokens, force=True)
        assert evaluation.bleu == expected.score
        assert f"|tok:{tokens}|" in evaluation.bleu_signature
    # "sofa !" and "sofa!" are the same words to one, and not to the other.
    assert scores["none"].bleu < scores["13a"].bleu
    with pytest.raises(ValueError, match=r"`bleu_tokens` must be one of '13a', .* got 'moses'"):
        evaluate_translations(["a"], ["A"], ["A"], bleu_tokens="moses")


def test_as_json(evaluation):
    content = json.loads(json.dumps(evaluation.to_dictionary()))
    assert list(content)[-1] == "worst"
    assert content["exact_match_share"] == 0.5
    assert content["worst"][0]["hypothesis"] == "Nothing of that kind"
    assert content["bleu"] == evaluation.bleu


def test_a_model_is_evaluated_by_its_own_translations():
    sources = ["ein Haus am See", "zwei Boote", "drei Bäume im Garten hier"]
    references = ["EIN HAUS AM SEE", "ZWEI", "DREI BÄUME IM GARTEN HIER"]
    evaluation = evaluate(ShoutingModel(), sources, references, window=2, bleu_tokens="none")
    assert evaluation.exact_matches == 2
    assert "|tok:none|" in evaluation.bleu_signature
    assert [sentence.hypothesis for sentence in evaluation.worst] == ["ZWEI BOOTE"]


def test_as_many_of_each():
    model = ShoutingModel()
    with pytest.raises(UserError) as caught:
        evaluate(model, ["a", "b"], ["A"])
    assert str(caught.value) == (
        "There must be as many of each; got 2 sources, 1 references. Find what is missing."
    )
    assert model.calls == []
    with pytest.raises(UserError, match="got 1 sources, 2 hypotheses, 1 references"):
        evaluate_translations(["a"], ["A", "B"], ["A"])
    with pytest.raises(UserError, match="There is nothing to evaluate: got 0 sources"):
        evaluate(model, [], [])
    with pytest.raises(ValueError, match="`worst` must be a whole number of at least 0; got -1"):
        evaluate_translations(["a"], ["A"], ["A"], worst=-1)
