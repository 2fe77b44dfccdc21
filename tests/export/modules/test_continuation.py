"""The continuation module of language models."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import LanguageModel
from keras_transformer.decoding import (
    SearchSettings,
)
from keras_transformer.export import TextLimits, TrainedModel
from keras_transformer.export.modules import make_text_module
from keras_transformer.text import ByteTokenizer, TokenizerPair
from tests.export.modules.helpers import SMALL
from tests.phrases import SMALL as PACKED


@pytest.mark.parametrize("attention", ["scaled_dot_product", "rotary"])
def test_language_model_continues_its_prompt(attention):
    model = LanguageModel.from_size(
        "tiny", vocabulary_size=260, num_layers=2, attention=attention, **SMALL
    )
    functions = make_text_module(
        TrainedModel(model, TokenizerPair(ByteTokenizer())), SearchSettings(beams=2, max_length=8)
    ).functions
    prompts = tf.constant(["Once", "", "Once upon a time there was a very long beginning of"])
    found = functions["serving_default"](text=prompts)
    texts = found["text"].numpy()
    assert texts[0].startswith(b"Once")
    assert texts[2].startswith(b"a very long beginning of")  # the last 24 of its 32 positions
    for row in range(3):
        alone = functions["serving_default"](text=prompts[row : row + 1])
        assert alone["text"].numpy()[0] == texts[row]
    # The score of the search equals the normalized log-probability of the continuation.
    added = tf.strings.substr(texts[:2], [4, 0], [99, 99])
    scored = functions["score"](source=prompts[:2], target=added)
    tokens = tf.cast(scored["tokens"], tf.float32)
    np.testing.assert_allclose(
        found["score"][:2], scored["log_probability"] / ((5 + tokens) / 6) ** 0.6, rtol=1e-3
    )
    attention = functions["attention"](source=prompts[:2], target=tf.constant([" upon", "a"]))
    assert attention["source_tokens"][0, 0] == b"<start>"
    assert attention["weights"].shape == (2, 10, 10)
    assert functions["encode"](text=prompts)["embedding"].shape == (3, 16)


@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
def test_language_model_keeps_half_of_its_length_for_the_prompt(positions):
    """Half of the model's length belongs to the prompt."""
    model = LanguageModel.from_size(
        "tiny", vocabulary_size=260, num_layers=1, positions=positions, **SMALL
    )
    trained = TrainedModel(model, TokenizerPair(ByteTokenizer()))
    for max_length in (20, 32, 100):
        module = make_text_module(trained, SearchSettings(beams=1, max_length=max_length))
        assert module.limits.tokens == 16
    found = module.functions["serving_default"](text=tf.constant(["Once upon a time"]))
    assert found["text"].numpy()[0].startswith(b"Once upon a time")


def test_language_model_scores_the_whole_target_after_a_long_source():
    model = LanguageModel.from_size("tiny", vocabulary_size=260, num_layers=1, **SMALL)
    trained = TrainedModel(model, TokenizerPair(ByteTokenizer()))
    score = make_text_module(trained, limits=TextLimits(tokens=100)).functions["score"]
    target = "hello"
    seen = 32 - len(target) - 1  # END is scored, too
    sources = ["x" * 80, "y" * 40 + "x" * seen, "x" * seen, "x" * (seen - 1), ""]
    found = score(source=tf.constant(sources), target=tf.fill([len(sources)], target))
    assert found["tokens"].numpy().tolist() == [6] * len(sources)
    scores = found["log_probability"].numpy()
    np.testing.assert_allclose(scores[:2], scores[2], rtol=1e-5)
    assert abs(scores[3] - scores[2]) > 1e-4


PACKED_TEXTS = ["zwei Hunde", "", "A"]


def test_packed_language_model_answers_as_its_unpacked_twin():
    packed = LanguageModel.from_size("tiny", num_layers=1, is_packed=True, **PACKED)
    plain = LanguageModel.from_size("tiny", num_layers=1, **PACKED)
    plain.set_weights(packed.get_weights())
    assert plain.unpacked() is plain
    search = SearchSettings(beams=1, max_length=4)
    texts = tf.constant(PACKED_TEXTS)
    answers = [
        make_text_module(TrainedModel(model, ByteTokenizer()), search).functions
        for model in (packed, plain)
    ]
    found = [functions["serving_default"](text=texts)["text"].numpy() for functions in answers]
    assert list(found[0]) == list(found[1])
    scores = [
        functions["score"](source=texts, target=texts)["log_probability"] for functions in answers
    ]
    np.testing.assert_array_equal(*scores)
