"""Language models and text encoders from small checkpoints, against Hugging Face's results."""

import functools
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.hub import Checkpoint, load_model, load_pretrained
from keras_transformer.text import SpecialIds
from tests.hub.small_checkpoint import CHECKPOINTS


def names_with(key):
    found = []
    for path in sorted(CHECKPOINTS.iterdir()):
        with np.load(path / "expected.npz") as stored:
            found += [path.name] if key in stored else []
    return found


LANGUAGE_MODELS, ENCODERS = names_with("greedy"), names_with("states")
LANGUAGE_MODELS = [name for name in LANGUAGE_MODELS if name not in names_with("encoder_states")]


@functools.cache
def opened(name):
    """Returns the model of a checkpoint and the expected values."""
    with np.load(CHECKPOINTS / name / "expected.npz") as stored:
        expected = dict(stored)
    ids = None
    if "special_ids" in expected:
        padding, start, end = (int(number) for number in expected["special_ids"])
        ids = SpecialIds(padding=padding, unknown=3, start=start, end=end)
    return load_model(CHECKPOINTS / name, ids), expected


def assert_close(got, expected):
    """Compares values to 1e-4 of the largest."""
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_logits_and_cached_steps_equal_those_of_hugging_face(name):
    model, expected = opened(name)
    target, vocabulary = expected["target"], expected["logits"].shape[-1]
    is_token = target != model.special_ids.padding
    logits = model({"target": target}).numpy()
    assert_close(logits[is_token][:, :vocabulary], expected["logits"][is_token])
    assert np.all(logits[..., vocabulary:] < -1e3)  # a padding token that the model had not
    state = model.initial_state(len(target), max_length=target.shape[1])
    steps, state = model.step(target[:, :3], state)
    steps = [steps]
    for t in range(3, target.shape[1]):
        step, state = model.step(target[:, t], state)
        steps.append(step[:, None])
    steps = np.concatenate(steps, axis=1)
    assert_close(steps[is_token][:, :vocabulary], expected["logits"][is_token])


@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_greedy_search_continues_prompts_as_hugging_face(name):
    model, expected = opened(name)
    answers = expected["greedy"][:, 1:]
    prompts = answers[:, :2]
    generate = tf.function(functools.partial(model.generate, max_length=8), autograph=False)
    ids = generate(prompts)
    np.testing.assert_array_equal(ids[:, : answers.shape[1]], answers)


@pytest.mark.parametrize("name", ENCODERS)
def test_states_and_classes_equal_those_of_hugging_face(name):
    model, expected = opened(name)
    source, states = expected["source"], expected["states"]
    is_token = source != model.special_ids.padding
    assert_close(model.encode(source).states.numpy()[is_token], states[is_token])
    if "classes" in expected:
        assert_close(model({"source": source}), expected["classes"])
    else:
        weights = is_token[..., None] / is_token.sum(axis=1)[:, None, None]
        means = (states * weights).sum(axis=1)
        if model.config.normalize_vectors:
            means /= np.linalg.norm(means, axis=-1, keepdims=True)
        assert_close(model.vectors(source), means)


def test_files_of_sentence_transformers_decide_on_the_vectors():
    model, _ = opened("bert")
    assert (model.config.pooling, model.config.normalize_vectors) == ("mean", True)
    model, _ = opened("distilbert")
    assert (model.config.pooling, model.config.normalize_vectors) == ("mean", False)


DYNAMIC = {"rope_parameters": None, "rope_scaling": {"type": "dynamic", "factor": 2.0}}
SOME_LAYERS = {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}
SOME_LAYERS |= {"layer_types": None}


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("llama", {"rope_parameters": {"rope_type": "yarn", "factor": 4.0}}, "rope_parameters"),
        ("llama", DYNAMIC, "rope_scaling"),
        ("llama3", {"rope_parameters": {"rope_type": "llama3", "factor": 8.0}}, "rope_parameters"),
        ("qwen2", {"layer_types": ["full_attention", "sliding_attention"]}, "layer_types"),
        ("qwen3", SOME_LAYERS, "max_window_layers"),
        ("opt", {"word_embed_proj_dim": 8}, "word_embed_proj_dim"),
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx"),
        ("gpt2", {"logit_scale": 2.0}, "logit_scale"),
        ("llama", {"hidden_act": "relu2"}, "hidden_act"),
        ("gemma", {"use_bidirectional_attention": True}, "use_bidirectional_attention"),
        ("bert", {"position_embedding_type": "relative_key"}, "position_embedding_type"),
        ("bert", {"architectures": ["BertForTokenClassification"]}, "architectures"),
        ("distilbert", {"activation": "mish"}, "activation"),
    ],
)
def test_keys_that_change_what_a_model_computes_are_refused_by_name(name, changes, message):
    checkpoint = Checkpoint.open(CHECKPOINTS / name)
    changed = Checkpoint(
        checkpoint.directory, {**checkpoint.config, **changes}, None, checkpoint.tensors
    )
    with pytest.raises(ValueError, match=message):
        load_model(changed)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("modules.json", [{"type": "a.Transformer"}, {"type": "a.CNN", "path": "1"}], "CNN"),
        ("modules.json", [{"type": "a.Transformer"}], "list of modules"),
        (
            "modules.json",
            [{"type": "a.Transformer"}, {"type": "a.Pooling", "path": "../1_Pooling"}],
            "not a module folder",
        ),
        ("1_Pooling/config.json", {"pooling_mode_mean_sqrt_len_tokens": True}, "must choose one"),
    ],
)
def test_unknown_modules_of_sentence_transformers_are_refused(tmp_path, file, content, message):
    directory = shutil.copytree(CHECKPOINTS / "bert", tmp_path / "bert")
    (directory / file).write_text(json.dumps(content))
    with pytest.raises(ValueError, match=message):
        load_model(directory)


def test_a_text_has_the_vector_of_its_tokens_between_those_of_the_tokenizer(tmp_path):
    directory = shutil.copytree(CHECKPOINTS / "bert", tmp_path / "bert")
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cat", "##s", "dog"]
    tokens += [f"word{n}" for n in range(61 - len(tokens))]
    (directory / "vocab.txt").write_text("\n".join(tokens) + "\n")
    (directory / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    found = load_pretrained(directory).embed(["Cats dog"])
    model = load_model(directory, SpecialIds(padding=0, unknown=1, start=2, end=3))
    np.testing.assert_allclose(found, model.vectors([[2, 5, 6, 7, 3]]), atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(found, axis=-1), 1, atol=1e-6)
