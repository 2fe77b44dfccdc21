"""Exports for CTranslate2, run by CTranslate2."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.cli.main import main
from keras_transformer.decoding import SearchSettings
from keras_transformer.export import TrainedModel, export_model, verify_export
from keras_transformer.export.formats import ctranslate2 as format_module
from keras_transformer.export.formats.ctranslate2 import CTranslate2Format
from keras_transformer.export.manifest import read_manifest
from keras_transformer.inference import load
from tests import phrases
from tests.export.formats.models import (
    SEARCH,
    TEXTS,
    log_probabilities,
    make_language_model,
    make_model,
)

PAIRS = phrases.make_pairs()[::9]


@pytest.fixture(scope="module")
def export(phrases_run, tmp_path_factory):
    """The export of the model that translates phrases."""
    to = tmp_path_factory.mktemp("ctranslate2") / "phrases"
    settings = {"search": phrases.SEARCH, "limits": phrases.LIMITS}
    return export_model(phrases_run, to, "ctranslate2", **settings)


def runner(directory):
    """Returns the model of an export, as its program has it."""
    from keras_transformer.export.runners import run_ctranslate2

    return run_ctranslate2.Model(str(directory))


@pytest.mark.parametrize(
    ("make", "settings"),
    [
        (
            make_model,
            {
                "normalize_first": False,
                "normalization": "rms",
                "activation": "swiglu",
                "num_key_value_heads": 2,
                "use_bias": False,
                "epsilon": 0.01,
                "share_embeddings": "none",
            },
        ),
        (make_model, {"positions": "learned", "activation": "reglu", "num_key_value_heads": 1}),
        (make_model, {"attention": "rotary", "attention_options": {"max_wavelength": 500.0}}),
        (make_model, {"attention": "shaw", "activation": "glu", "share_embeddings": "target"}),
        (
            make_model,  # as in BART and Marian
            {
                "normalize_first": False,
                "normalize_embeddings": True,
                "scale_embeddings": False,
                "output_bias": True,
                "activation": "gelu_tanh",
                "positions_options": {"interleaved": False},
            },
        ),
        (
            make_language_model,  # as in Qwen3 and GPT-J
            {
                "attention": "rotary",
                "attention_options": {"rotary_dim": 4, "interleaved": True},
                "key_dim": 8,
                "query_key_normalization": "rms",
                "normalization": "rms",
                "attention_bias": False,
                "share_embeddings": "none",
                "activation": "quick_geglu",
            },
        ),
        (make_model, {"decoder_attention": "alibi", "positions": "none", "activation": "geglu"}),
        (make_language_model, {"attention": "alibi", "num_heads": 2, "activation": "gelu"}),
        (
            make_language_model,
            {"attention": "rotary", "normalization": "rms", "num_key_value_heads": 2},
        ),
        (
            make_language_model,
            {"attention": "shaw", "normalize_first": False, "activation": "tanh"},
        ),
        (make_language_model, {"positions": "none", "activation": "silu", "is_packed": True}),
    ],
)
def test_converted_model_gives_the_log_probabilities_of_the_model(make, settings, tmp_path):
    trained = make(**settings)
    writer = CTranslate2Format(trained, search=SEARCH)
    writer.write_files(tmp_path)
    targets = [b"a target", b"b", b"\xc3\xa4"]
    found = runner(tmp_path).score(TEXTS, targets)
    model = TrainedModel(writer.model, trained.tokenizers)
    expected = log_probabilities(model, TEXTS, targets)
    np.testing.assert_allclose(found["log_probability"], expected, rtol=1e-5)
    assert found["tokens"] == [9, 2, 3]


@pytest.mark.parametrize(
    ("make", "settings", "search", "named"),
    [
        (make_model, {"activation": "bilinear"}, {}, "activation='bilinear'"),
        (make_model, {"activation": "softplus"}, {}, "activation='softplus'"),
        (make_model, {"attention": "alibi"}, {}, "attention='alibi'"),
        (make_model, {"attention": "additive"}, {}, "attention='additive'"),
        (make_model, {"encoder_attention": "alibi"}, {}, "encoder_attention='alibi'"),
        (make_model, {"cross_attention": "dot_product"}, {}, "cross_attention='dot_product'"),
        (make_model, {"attention": "rotary", "positions": "sinusoidal"}, {}, "positions="),
        (make_model, {"copies": True}, {}, "copies=True"),
        (
            make_language_model,
            {"attention": "rotary", "attention_options": {"window": 4}},
            {},
            "window=4",
        ),
        (make_model, {"query_key_normalization": "layer"}, {}, "query_key_normalization='layer'"),
        (make_model, {"tree_positions": "absolute"}, {}, "trees"),
        (make_model, {}, {"repetition_penalty": 1.2}, "RepetitionPenalty"),
        (make_model, {}, {"coverage_penalty": 0.2}, "coverage_penalty=0.2"),
        (make_language_model, {"attention": "local"}, {}, "attention='local'"),
    ],
)
def test_export_names_what_ctranslate2_cannot_express(make, settings, search, named, tmp_path):
    trained = make(**settings)
    with pytest.raises(UserError, match="CTranslate2 cannot express") as refusal:
        export_model(trained, tmp_path / "x", "ctranslate2", search=SearchSettings(**search))
    assert named in str(refusal.value)
    assert not (tmp_path / "x").exists()


def test_export_translates_the_phrases_of_its_training(export):
    sources = [source.encode() for source, _ in PAIRS]
    expected = [target.encode() for _, target in PAIRS]
    model = runner(export)
    for beams in (1, None):
        found = model.generate(sources, beams)["text"]
        assert sum(a == b for a, b in zip(found, expected, strict=True)) > len(PAIRS) - 2


def test_export_is_verified_by_the_command(export, capsys):
    assert main(["verify", str(export.parent), "--json"]) == 0
    verified = json.loads(capsys.readouterr().out)
    assert {row["signature"] for row in verified["golden"]} == {"serving_default", "score"}
    assert verified["golden"][0]["input"]["beams"] == 1
    assert "ctranslate2" in verified["created_with"]
    assert (
        verified["bytes"]
        == sum(path.stat().st_size for path in export.rglob("*") if path.is_file())
        - (export / "assets.extra" / "manifest.json").stat().st_size
    )
    with pytest.raises(UserError, match=r"a ctranslate2 export.* `python run\.py`"):
        load(export)


def test_program_of_export_needs_no_tensorflow(export):
    script = (
        "import runpy, sys; sys.modules['tensorflow'] = sys.modules['keras_transformer'] = None;"
        "sys.argv = [sys.argv[1]]; runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    command = [sys.executable, "-I", "-c", script, str(export / "run.py")]
    sources = b"zwei rote Hunde\r\n\nneun graue Fische"
    done = subprocess.run(command, input=sources, capture_output=True, check=False)
    assert done.stdout == b"two red dogs\n\nnine gray fish\n", done.stderr


def test_damaged_export_is_refused(export, tmp_path):
    copy = shutil.copytree(export, tmp_path / "copy")
    with (copy / "model.bin").open("r+b") as file:
        file.seek(-4, 2)
        file.write(b"\0\0\0\0")
    with pytest.raises(UserError, match=r"model\.bin: its content has changed"):
        verify_export(copy)


def test_int8_weights_change_log_probabilities_a_little(tmp_path):
    trained = make_model(hidden_dim=64, intermediate_dim=128)
    CTranslate2Format(trained, search=SEARCH, weights="int8").write_files(tmp_path, "int8")
    assert (tmp_path / "model.bin").stat().st_size < 1.6 * trained.model.count_params()
    found = runner(tmp_path).score(TEXTS, TEXTS)["log_probability"]
    expected = log_probabilities(trained, TEXTS, TEXTS)
    assert found != expected
    np.testing.assert_allclose(found, expected, rtol=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["int8", "float16"])
def test_export_with_smaller_weights_is_verified(tmp_path, weights):
    trained = make_model(hidden_dim=64, intermediate_dim=128)
    path = export_model(trained, tmp_path / "x", "ctranslate2", search=SEARCH, weights=weights)
    described = read_manifest(path)["weights"]
    assert described["dtype"] == weights
    assert described["difference"]["largest_difference_of_log_probabilities"] > 0
    assert all(row.ok for row in verify_export(path).golden)


def test_export_with_other_answers_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(format_module, "_array", lambda weight: np.asarray(weight) * 1.01)
    trained = make_model(num_decoder_layers=1)
    with pytest.raises(RuntimeError, match="different answers"):
        export_model(trained, tmp_path / "x", "ctranslate2", search=SEARCH)
    assert not (tmp_path / "x").exists()


def test_options_of_another_format_exit_with_2(phrases_run, tmp_path, capsys):
    options = ["--to", str(tmp_path / "to"), "--format", "ctranslate2", "--xla"]
    assert main(["export", str(phrases_run), *options]) == 2
    assert "'ctranslate2' has no option --xla" in capsys.readouterr().err
