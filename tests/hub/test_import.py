"""Imported checkpoints as runs: what they answer, and what is refused."""

import json

import numpy as np
import pytest

import keras_transformer
from keras_transformer._utils.errors import UserError
from keras_transformer.cli.main import main
from keras_transformer.decoding import SearchSettings
from keras_transformer.export import TrainedModel, export_model, verify_export
from keras_transformer.export.run_manifest import RunManifest
from keras_transformer.hub import Checkpoint, import_model, load_model, load_pretrained
from keras_transformer.hub.generation import search_of
from tests.hub.small_checkpoint import write_safetensors

TEXTS = ["Hello, world!", "A second sentence.", ""]


@pytest.fixture(scope="module")
def answers(opus):
    """Returns the translations of the checkpoint itself."""
    return load_pretrained(opus).translate(TEXTS)


def test_run_translates_as_the_checkpoint(imported, answers):
    assert keras_transformer.load(imported).translate(TEXTS) == answers
    assert any(answers)


def test_run_has_a_manifest_and_its_origin(imported):
    RunManifest.read(imported).check()
    origin = json.loads((imported / "import.json").read_text())
    assert origin["model_type"] == "marian"
    assert set(origin["sha256"]) == {"config.json", "model.safetensors"}


def test_generation_defaults_are_those_of_the_run(imported):
    settings = TrainedModel.load(imported).search_settings()
    assert (settings.beams, settings.max_length, settings.length_penalty) == (2, 11, 1.0)
    assert (settings.length_normalization, settings.stopping) == ("length", "heuristic")


def test_export_answers_as_the_run(imported, answers, tmp_path):
    path = export_model(imported, tmp_path / "opus", signatures=["translate"])
    assert keras_transformer.load(path).translate(TEXTS) == answers


@pytest.mark.slow
def test_export_with_all_signatures_can_be_verified(imported, answers, tmp_path):
    path = export_model(imported, tmp_path / "opus")
    verify_export(path)
    assert keras_transformer.load(path).translate(TEXTS) == answers


def test_command_imports_and_refuses_a_second_time(opus, tmp_path, capsys):
    run = tmp_path / "run"
    assert main(["import", str(opus), "--to", str(run)]) == 0
    assert str(run) in capsys.readouterr().out
    assert main(["import", str(opus), "--to", str(run)]) == 2
    assert "exists already" in capsys.readouterr().err


def refuse(directory, tmp_path):
    """Returns the message with which an import is refused, after which nothing is there."""
    with pytest.raises(UserError) as raised:
        import_model(directory, tmp_path / "run")
    assert not [path for path in tmp_path.iterdir() if "run" in path.name]
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rope_scaling", {"factor": 8.0}),
        ("normalize_before", True),
        ("d_model", "16"),
        ("encoder_layers", True),
        ("activation_function", "mish"),
        ("model_type", "wav2vec2"),
        ("model_type", None),
        ("tie_word_embeddings", False),
        ("decoder_attention_heads", 2),
        ("architectures", ["MarianForCausalLM"]),
        ("quantization_config", {"bits": 4}),
        ("architectures", 7),
        ("vocab_size", 1004),
        ("d_model", 2**40),
        ("encoder_ffn_dim", 2**40),
        ("decoder_layers", 10**9),
        ("encoder_layers", 1),
        ("encoder_layers", 3),
    ],
)
def test_config_that_means_another_model_is_refused_by_name(copy_of, tmp_path, key, value):
    message = refuse(copy_of(**{key: value}), tmp_path)
    if not isinstance(value, int) or value is True:
        assert key in message or str(value) in message


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num_beam_groups", 2),
        ("diversity_penalty", 0.5),
        ("bad_words_ids", [[5, 6]]),
        ("forced_decoder_ids", [[1, 5]]),
        ("begin_suppress_tokens", [5]),
        ("early_stopping", "sometimes"),
        ("eos_token_id", [0, 7]),
        ("new_kind_of_penalty", 0.5),
        ("num_beams", "two"),
        ("length_penalty", -1.0),
    ],
)
def test_generation_default_that_is_not_supported_is_refused(copy_of, tmp_path, key, value):
    assert key in refuse(copy_of("generation_config.json", **{key: value}), tmp_path)


def with_tensors(directory, change):
    """Writes the tensors of a checkpoint again after a change."""
    checkpoint = Checkpoint.open(directory)
    tensors = {name: checkpoint.read(name).astype(np.float16) for name in checkpoint.tensors}
    change(tensors)
    write_safetensors(directory / "model.safetensors", tensors)
    return directory


@pytest.mark.parametrize(
    "key", ["max_length", "min_new_tokens", "suppress_tokens", "bad_words_ids"]
)
def test_generation_default_of_a_wrong_type_is_refused(copy_of, tmp_path, key):
    assert "generation_config.json" in refuse(
        copy_of("generation_config.json", **{key: {"a": "b"}}), tmp_path
    )


NAME = "model.decoder.layers.1.fc1.weight"


@pytest.mark.parametrize(
    "change",
    [
        lambda tensors: tensors.pop(NAME),
        lambda tensors: tensors.update({NAME: tensors[NAME].T}),
        lambda tensors: tensors.update({NAME: tensors[NAME] * np.float16(np.nan)}),
    ],
)
def test_wrong_tensor_is_refused_by_name(copy_of, tmp_path, change):
    message = refuse(with_tensors(copy_of(), change), tmp_path)
    assert NAME.removeprefix("model.") in message


def test_tensor_that_is_not_used_is_refused_by_name(copy_of, tmp_path):
    def add(tensors):
        tensors["model.adapter.weight"] = np.float16([1.0])

    assert "model.adapter.weight" in refuse(with_tensors(copy_of(), add), tmp_path)


def test_tied_tensor_with_other_values_is_refused(copy_of, tmp_path):
    def untie(tensors):
        tensors["lm_head.weight"] = tensors["model.shared.weight"] + np.float16(1)

    assert "lm_head.weight" in refuse(with_tensors(copy_of(), untie), tmp_path)


def test_other_special_id_in_config_than_in_generation_is_refused(copy_of, tmp_path):
    directory = copy_of("generation_config.json", decoder_start_token_id=5)
    assert "decoder_start_token_id" in refuse(directory, tmp_path)


def test_config_has_the_generation_defaults_of_old_checkpoints(copy_of):
    directory = copy_of(num_beams=6, max_length=100, length_penalty=0.8)
    (directory / "generation_config.json").unlink()
    checkpoint = Checkpoint.open(directory)
    settings = SearchSettings(**search_of(checkpoint, load_model(checkpoint).special_ids))
    assert (settings.beams, settings.max_length, settings.length_penalty) == (6, 99, 0.8)
