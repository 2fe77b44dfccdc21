"""The optional signature `next_tokens`: texts token by token."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import ConvolutionalSeq2Seq, LanguageModel, RecurrentSeq2Seq
from keras_transformer.decoding import SearchSettings
from keras_transformer.export import TrainedModel
from keras_transformer.export.formats.saved_model import example_requests, golden_pairs
from keras_transformer.export.modules import make_text_module
from keras_transformer.text import ByteTokenizer, TokenizerPair
from tests.export.modules.helpers import SMALL, reloaded

NOTHING = tf.constant([], tf.string)
TEXTS = ["zwei rote Hunde", " ", "neun graue Kühe und drei blaue Katzen"]


def stream(function, texts, *, temperature=0.0, seed=1, steps=1):
    """Returns the texts after each call until all are complete."""
    settings = {"temperature": tf.constant(temperature), "seed": tf.constant(seed)}
    found = function(text=tf.constant(texts), state=NOTHING, steps=tf.constant(0), **settings)
    written = [found["text"].numpy().tolist()]
    while not found["done"].numpy().all():
        assert len(written) < 100
        # The texts are in the state.
        given = {"text": NOTHING, "state": found["state"], "steps": tf.constant(steps)}
        found = function(**given, **settings)
        written.append(found["text"].numpy().tolist())
    return written


def sampled(functions, texts, temperature=0.0, seed=1):
    return (
        functions["sample"](
            text=tf.constant(texts), temperature=tf.constant(temperature), seed=tf.constant(seed)
        )["text"]
        .numpy()
        .tolist()
    )


@pytest.mark.parametrize(("temperature", "steps"), [(0.0, 1), (0.0, 5), (2.0, 3)])
def test_streamed_translations_are_those_of_sample(functions, temperature, steps):
    settings = {"temperature": temperature, "seed": 3}
    written = stream(functions["next_tokens"], TEXTS, steps=steps, **settings)
    assert written[-1] == sampled(functions, TEXTS, **settings)
    assert written[0] == [b"", b"", b""]


def test_each_step_adds_a_token(functions):
    written = stream(functions["next_tokens"], ["zwei rote Hunde"])
    texts = [text.decode() for (text,) in written]
    assert texts[-1] == "two red dogs"
    assert len(set(texts)) > 4
    assert all(late.startswith(early) for early, late in itertools.pairwise(texts))


def test_rows_do_not_influence_each_other(functions):
    together = stream(functions["next_tokens"], TEXTS)[-1]
    assert together == [stream(functions["next_tokens"], [text])[-1][0] for text in TEXTS]


@pytest.mark.parametrize("model_class", [LanguageModel, RecurrentSeq2Seq, ConvolutionalSeq2Seq])
def test_all_models_stream_what_they_sample(model_class, tmp_path):
    settings = {"vocabulary_size": 260, "hidden_dim": 16, "max_length": 32}
    if model_class is LanguageModel:
        settings |= {"num_layers": 1, **SMALL}
    model = model_class.from_size("tiny", **settings)
    trained = TrainedModel(model, TokenizerPair(ByteTokenizer()))
    module = make_text_module(
        trained, SearchSettings(beams=1, max_length=8), stored_dtype="float32"
    )
    texts = ["Once", "", "Once upon"]
    expected = sampled(module.functions, texts, temperature=1.0)
    function = reloaded(module, tmp_path / "1", "next_tokens").signatures["next_tokens"]
    assert stream(function, texts, temperature=1.0)[-1] == expected


def test_prompt_of_a_language_model_is_the_first_text():
    model = LanguageModel.from_size("tiny", vocabulary_size=260, num_layers=1, **SMALL)
    trained = TrainedModel(model, TokenizerPair(ByteTokenizer()))
    functions = make_text_module(trained, SearchSettings(beams=1, max_length=4)).functions
    written = stream(functions["next_tokens"], ["Once"])
    assert written[0] == [b"Once"]
    assert 2 <= len(written) <= 1 + 4


def test_wrong_state_is_an_error(functions):
    settings = {"temperature": tf.constant(0.0), "seed": tf.constant(1), "steps": tf.constant(1)}
    function, text = functions["next_tokens"], tf.constant(["zwei"])
    state = function(text=text, state=NOTHING, **settings)["state"].numpy()
    whole = tf.io.serialize_tensor(tf.zeros([3, 3, 3])).numpy()
    for wrong in (state[:3], [b"x", *state[1:]], [whole, *state[1:]], [*state[:5], whole] * 9):
        with pytest.raises(tf.errors.OpError):
            function(text=text, state=tf.constant(np.array(wrong, object)), **settings)


def test_exports_have_the_signature_only_if_it_is_asked_for(functions):
    module = functions["next_tokens"].module
    assert "next_tokens" not in dict(example_requests(module, ()))
    requests = example_requests(module, (), ["next_tokens"])
    (pair,) = golden_pairs(module, requests)
    assert (pair["inputs"]["state"], pair["outputs"].keys()) == ([], {"text", "done"})
