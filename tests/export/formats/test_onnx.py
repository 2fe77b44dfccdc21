"""Exports for ONNX, run by ONNX Runtime."""

import subprocess
import sys

import numpy as np
import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.decoding import GreedySearch, LengthLimits, SearchSettings
from keras_transformer.export import export_model, verify_export
from keras_transformer.export.formats.onnx import OnnxFormat
from keras_transformer.export.runners import run_onnx
from tests import phrases
from tests.export.formats.models import SEARCH, make_language_model, make_model


@pytest.fixture(scope="module")
def export(phrases_run, tmp_path_factory):
    """The export of the model that translates phrases."""
    to = tmp_path_factory.mktemp("onnx") / "phrases"
    settings = {"search": phrases.SEARCH, "limits": phrases.LIMITS}
    return export_model(phrases_run, to, "onnx", **settings)


def test_export_is_verified(export):
    verification = verify_export(export)
    (row,) = verification.golden
    assert row.ok
    assert "two red dogs" in row.got["text"]
    assert verification.manifest["export_format"] == "onnx"
    assert {"step.onnx", "encode.onnx", "run.py"} <= verification.manifest["files"].keys()


def test_program_of_export_needs_no_tensorflow(export):
    script = (
        "import runpy, sys; sys.modules['tensorflow'] = sys.modules['keras_transformer'] = None;"
        "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    command = [sys.executable, "-I", "-c", script, str(export / "run.py")]
    sources = b"zwei rote Hunde\r\n\nneun graue Fische"
    done = subprocess.run(command, input=sources, capture_output=True, check=False)
    assert done.stdout == b"two red dogs\n\nnine gray fish\n", done.stderr


@pytest.mark.parametrize(
    ("make", "settings"),
    [
        (make_model, {"attention": "rotary", "num_key_value_heads": 2, "num_decoder_layers": 1}),
        (make_language_model, {"attention": "shaw", "num_layers": 1, "normalize_first": False}),
    ],
)
def test_program_gives_the_ids_and_scores_of_greedy_search(make, settings, tmp_path):
    trained = make(**settings)
    lengths = LengthLimits(maximum=6, minimum=3, maximum_ratio=None)
    OnnxFormat(trained, search=GreedySearch(lengths=lengths)).write_files(tmp_path)
    given = [b"A", b"Two words", b"\xff"]
    found = run_onnx.Model(str(tmp_path)).generate(given)
    rows = trained.tokenizers.source.tokenize(given).to_list()
    is_translation = make is make_model
    rows = [[*row, 3] for row in rows] if is_translation else rows
    ids = np.zeros([3, max(map(len, rows))], np.int32)
    for padded, row in zip(ids, rows, strict=True):
        padded[: len(row)] = row
    name = "source" if is_translation else "prefix"
    expected = GreedySearch(lengths=lengths)(trained.model, **{name: ids})
    texts = trained.tokenizers.target.detokenize(expected.ids[:, 0]).numpy().tolist()
    assert found["text"] == texts
    np.testing.assert_allclose(found["score"], expected.score[:, 0], rtol=1e-4)


def test_export_names_what_it_cannot_express(tmp_path):
    search = SearchSettings(no_repeat_ngram=2)
    with pytest.raises(UserError, match=r"ONNX Runtime cannot express .*NoRepeatNgram"):
        export_model(make_model(), tmp_path / "x", "onnx", search=search)
    with pytest.raises(UserError, match="`weights` must be"):
        export_model(make_model(), tmp_path / "x", "onnx", search=SEARCH, weights="int8")
    assert not (tmp_path / "x").exists()
