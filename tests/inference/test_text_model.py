"""From strings to strings with one object, for runs and exports."""

import pathlib
import sys

import numpy as np
import pytest
import tensorflow as tf

import keras_transformer
from keras_transformer import TextEncoder
from keras_transformer._utils.errors import UserError
from keras_transformer.export import TrainedModel
from keras_transformer.inference import Alignment, Classification, Score, Translation, load
from keras_transformer.text import ByteTokenizer
from tests import phrases
from tests.inference.shouting_model import ShoutingModel
from tests.inference.small_language_model import save_language_model
from tests.mistakes import assert_mistake

SOURCES = ["zwei rote Hunde", "drei blaue Katzen"]
TARGETS = ["two red dogs", "three blue cats"]
METHODS = ("translate", "generate", "n_best", "score", "attention", "embed")


@pytest.fixture(scope="module")
def run(phrases_run):
    return keras_transformer.load(phrases_run)


@pytest.fixture(scope="module")
def export(phrases_export):
    return load(phrases_export)


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    return load(save_language_model(tmp_path_factory.mktemp("runs") / "story"))


@pytest.fixture(params=["run", "export"])
def model(request):
    return request.getfixturevalue(request.param)


def test_run_and_export_answer_every_method_alike(run, export):
    assert run.offers == export.offers
    assert set(METHODS) <= set(run.offers)
    assert run.translate(SOURCES) == export.translate(SOURCES) == TARGETS
    assert run.generate(SOURCES) == TARGETS
    for one, other in zip(run.score(SOURCES, TARGETS), export.score(SOURCES, TARGETS), strict=True):
        assert one.tokens == other.tokens
        assert one.log_probability == pytest.approx(other.log_probability, abs=1e-3)
    np.testing.assert_allclose(run.embed(SOURCES), export.embed(SOURCES), atol=1e-4)
    for one, other in zip(run.attention(SOURCES), export.attention(SOURCES), strict=True):
        assert one.target_tokens == other.target_tokens
        np.testing.assert_allclose(one.weights, other.weights, atol=1e-4)


@pytest.mark.parametrize(
    "texts",
    [
        SOURCES,
        tuple(SOURCES),
        [text.encode() for text in SOURCES],
        np.array(SOURCES),
        np.array(SOURCES, object),
        np.array([text.encode() for text in SOURCES]),
        tf.constant(SOURCES),
        iter(SOURCES),
    ],
    ids=["list", "tuple", "bytes", "array", "objects", "byte array", "tensor", "iterator"],
)
def test_translate_takes_lists_arrays_and_tensors(export, texts):
    assert export.translate(texts) == TARGETS


@pytest.mark.parametrize(
    "text", [SOURCES[0], SOURCES[0].encode(), np.str_(SOURCES[0]), tf.constant(SOURCES[0])]
)
def test_single_string_gives_a_single_result(export, text):
    assert export.translate(text) == TARGETS[0]
    assert isinstance(export.n_best(text, 2), Translation)
    assert isinstance(export.score(text, TARGETS[0]), Score)
    assert isinstance(export.attention(text), Alignment)
    assert export.embed(text).shape == (64,)


def test_no_texts_give_no_results(model):
    assert model.translate([]) == []
    assert model.n_best([], 2) == []
    assert model.score([], []) == []
    assert model.attention([], []) == []
    assert model.embed([]).shape == (0, 64)


@pytest.mark.parametrize("texts", [3, None, [1], [["a"]]])
def test_texts_of_another_type_raise_an_error(texts):
    with pytest.raises(UserError, match=r"`texts` must be a string or a list of strings"):
        ShoutingModel().translate(texts)


def test_search_settings_of_a_run_change_its_search(run):
    assert len(run.n_best(SOURCES[0], 3, beams=3).texts) == 3
    assert run.translate(SOURCES, beams=1, max_length=2) != TARGETS
    assert run.with_search(beams=3) is run.with_search(beams=3, max_length=None)
    assert run.with_search() is run.with_search(beams=None) is run
    with pytest.raises(UserError, match=r"'beams'.*got 'beam_width'"):
        run.translate(SOURCES, beam_width=3)
    with pytest.raises(UserError, match=r"`beams` .*got 0"):
        run.translate(SOURCES, beams=0)


def test_search_settings_of_an_export_raise_an_error(export, phrases_export):
    with pytest.raises(UserError) as caught:
        export.translate(SOURCES, beams=8, length_penalty=1.0)
    assert str(phrases_export) in str(caught.value)
    assert "beams, length_penalty" in str(caught.value)


def test_temperature_and_seed_sample(model):
    texts = ["zwei gelbe Pferde und ein Haus"] * 12
    drawn = model.translate(texts, temperature=2.0, seed=3)
    assert drawn == model.translate(texts, temperature=2.0, seed=3)
    assert drawn != model.translate(texts, temperature=2.0, seed=4)
    assert model.translate(SOURCES, temperature=0) == TARGETS


def test_top_k_of_a_run_limits_its_samples(run):
    assert run.translate(SOURCES, temperature=5.0, top_k=1) == TARGETS
    assert run.translate(SOURCES, temperature=5.0, top_p=0.01) == TARGETS
    assert run.translate(SOURCES, temperature=5.0) != TARGETS


@pytest.mark.parametrize(
    ("settings", "key", "facts"),
    [
        ({"top_p": 0.9}, "top_p", ["'beam'", "got 0.9", "`temperature=1`"]),
        ({"top_k": 3, "method": "greedy"}, "top_k", ["'greedy'", "got 3", "`temperature=1`"]),
        ({"temperature": 1.0, "beams": 8}, "beams", ["'sampling'", "got 8", "temperature"]),
        ({"temperature": 1.0, "method": "greedy"}, "method", ["'sampling'", "got 'greedy'"]),
        ({"method": "sampling"}, "method", ["'beam'", "'greedy'", "got 'sampling'"]),
    ],
    ids=str,
)
def test_search_settings_that_a_call_does_not_read_raise_an_error(run, settings, key, facts):
    with pytest.raises(UserError) as caught:
        run.translate(SOURCES, **settings)
    assert_mistake(caught.value, *facts, key=key)
    assert run.translate(SOURCES, top_p=None, max_length=20) == TARGETS


def test_n_best_with_a_setting_of_sampling_raises_an_error(run):
    with pytest.raises(UserError) as caught:
        run.n_best(SOURCES, 2, top_k=3)
    assert_mistake(caught.value, "'beam'", key="top_k", got=3)


def test_attention_without_targets_uses_the_translation(export):
    alignment = export.attention(SOURCES[0])
    assert alignment.target == TARGETS[0]
    assert "".join(alignment.target_tokens) == "▁two▁red▁dogs<end>"
    assert alignment.weights.shape == (
        len(alignment.target_tokens),
        len(alignment.source_tokens),
    )


def test_attention_of_an_iterator_uses_its_translations(export):
    assert [each.target for each in export.attention(iter(SOURCES))] == TARGETS


def test_pairs_of_different_numbers_raise_an_error(export):
    with pytest.raises(UserError, match=r"2 sources and 1 targets"):
        export.score(SOURCES, TARGETS[:1])
    with pytest.raises(UserError, match=r"needs `targets`"):
        export.score(SOURCES)


def test_language_model_generates_and_scores_without_sources(story):
    assert set(METHODS) - set(story.offers) == {"translate"}
    (text,) = story.generate(["Es war"], beams=1, max_length=3)
    assert text.startswith("Es war")
    assert story.score("Es war").log_probability == story.score("", "Es war").log_probability
    assert story.attention("Es").source_tokens[0] == "<start>"
    with pytest.raises(UserError, match=r"LanguageModel does not offer `translate`.*generate"):
        story.translate("Es war")


def test_encoder_embeds_and_classifies(tmp_path):
    """Its export is tested in tests/export/test_exporting.py."""
    encoder = TextEncoder.from_size("tiny", num_layers=1, num_classes=2, **phrases.SMALL)
    TrainedModel(encoder, ByteTokenizer(), labels=("no", "yes")).save(tmp_path)
    model = load(tmp_path)
    assert {"embed", "classify"} <= set(model.offers)
    assert not {"translate", "generate"} & set(model.offers)
    found = model.classify("good")
    assert isinstance(found, Classification)
    assert found.label == ("no", "yes")[np.argmax(found.probabilities)]
    assert model.classify(["good", "bad"])[0].label == found.label
    assert model.embed(["good", "bad"]).shape == (2, 16)
    with pytest.raises(UserError, match=r"does not offer `score`; it offers embed, classify"):
        model.score(["a"], ["b"])


def test_embed_and_classify_split_many_texts():
    model = ShoutingModel("TextEncoder")
    assert model.embed(["x"] * 2500).shape == (2500, 2)
    assert [each.label for each in model.classify(["x", "xxxxxx"])] == ["short", "long"]
    assert max(rows for _, rows in model.calls) <= 1024


def test_load_of_an_unfinished_run_raises_an_error(tmp_path):
    (tmp_path / "recipe.yaml").write_text("name: x")
    with pytest.raises(UserError, match=r"not finished.*keras-transformer train"):
        load(tmp_path)


def test_load_of_nothing_raises_an_error(tmp_path):
    with pytest.raises(UserError, match=r"no saved_model\.pb"):
        load(tmp_path)


def test_text_model_of_a_trained_model_reads_its_present_weights(phrases_run):
    trained = TrainedModel.load(phrases_run)
    model = keras_transformer.inference.TextModel.of(trained)
    before = model.embed(SOURCES)
    for weight in trained.model.weights:
        weight.assign(weight * 0.5)
    assert not np.allclose(model.embed(SOURCES), before, atol=1e-3)


def test_one_translated_string_runs_functions_of_at_most_25_files(phrases_run):
    """From the string through tokenizer, model and search back to a string, tracing included."""
    model = load(phrases_run)
    package = pathlib.Path(keras_transformer.__file__).parent
    files = set()

    def note(frame, event, argument):
        path = pathlib.Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(package):
            files.add(path.relative_to(package).as_posix())

    sys.setprofile(note)
    try:
        translations = model.translate(SOURCES[:1])
    finally:
        sys.setprofile(None)
    assert translations == TARGETS[:1]
    assert {"text/tokenizer.py", "models/decoder.py", "decoding/search.py"} <= files
    assert len(files) <= 25, sorted(files)
