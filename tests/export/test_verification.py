"""Verification of a complete export, and of every way in which an export can be damaged."""

import json
import pathlib
import shutil
import tempfile

import pytest
import tensorflow as tf

from keras_transformer._utils.errors import UserError
from keras_transformer._utils.sandbox import SandboxResult
from keras_transformer.export import golden as golden_module
from keras_transformer.export.manifest import MANIFEST, read_manifest, write_manifest
from keras_transformer.export.verification import verify_export
from tests._utils.nobody import as_nobody
from tests.export.small_export import (
    NAMES,
    TEXTS,
    SmallModel,
    golden_pairs,
    manifest_content,
    save_module,
)

DATA = "variables/variables.data-00000-of-00001"
INDEX = "variables/variables.index"


def refusal_of(directory):
    with pytest.raises(UserError) as refusal:
        verify_export(directory)
    message = str(refusal.value)
    assert "\n" not in message
    return message


def flip(path, position):
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def sign_again(directory, **changes):
    """Writes a manifest that fits the present files, as an adversary would."""
    manifest = read_manifest(directory)
    content = {key: manifest[key] for key in manifest_content([])}
    write_manifest(directory, {**content, **changes})


def test_verify_of_a_complete_export_passes_all_checks(written_export):
    verification = verify_export(written_export.parent)
    assert verification.directory == written_export
    assert [check.name for check in verification.checks] == [
        *("version", "graph", "manifest", "files", "versions"),
        *("ops", "signatures", "weights", "golden pairs"),
    ]
    assert all(check.ok for check in verification.checks)
    details = {check.name: check.detail for check in verification.checks}
    assert details["weights"] == "1 variables, 12 parameters"
    assert details["ops"].endswith("all allowed; outside core: none")
    assert f"tensorflow {tf.__version__}" in details["versions"]
    assert [row.signature for row in verification.golden] == list(NAMES)
    sizes = [path.stat().st_size for path in written_export.rglob("*") if path.is_file()]
    assert verification.total_bytes == sum(sizes) - (written_export / MANIFEST).stat().st_size


def test_verify_without_saved_model_raises_an_error(export):
    (export / "saved_model.pb").unlink()
    assert f"no saved_model.pb in {export}" in refusal_of(export)


@pytest.mark.parametrize(
    "name", [".", "1", "1/saved_model.pb", "1/variables", "1/assets.extra", f"1/{MANIFEST}"]
)
def test_verify_of_unreadable_files_raises_an_error(written_export, name):
    with tempfile.TemporaryDirectory() as folder:
        directory = pathlib.Path(folder) / "small"
        shutil.copytree(written_export, directory / "1")
        for path in (pathlib.Path(folder), directory, *directory.rglob("*")):
            path.chmod(0o755)
        path = directory / name
        path.chmod(0)
        try:
            with as_nobody():
                message = refusal_of(directory)
        finally:
            path.chmod(0o755)
        assert "cannot be read (Permission denied). Make it readable" in message


@pytest.mark.parametrize("length", [0, 1, 5_000, -1])
def test_verify_of_a_truncated_graph_raises_an_error(export, length):
    path = export / "saved_model.pb"
    path.write_bytes(path.read_bytes()[:length])
    assert "damaged: saved_model.pb: " in refusal_of(export)


def test_verify_detects_a_flipped_bit_in_the_vocabulary(export):
    """The export loads and gives wrong answers; only the sha256 shows it."""
    path = export / "saved_model.pb"
    content = path.read_bytes()
    assert b"abendessen" in content
    # The same bit in every signature: each holds the vocabulary.
    path.write_bytes(content.replace(b"abendessen", b"`bendessen"))
    loaded = tf.saved_model.load(str(export))
    wrong = loaded.encode(tf.constant(["abendessen"]))["embedding"]
    assert wrong.numpy().tolist() == [[9.0, 10.0, 11.0]]
    assert "damaged: saved_model.pb: its content has changed (sha256)" in refusal_of(export)


@pytest.mark.parametrize("name", [DATA, INDEX])
def test_verify_detects_missing_truncated_and_changed_weights(export, name):
    path = export / name
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    assert f"damaged: {name}: {len(content) - 1} bytes, but {len(content)}" in refusal_of(export)
    path.write_bytes(content)
    flip(path, len(content) // 2)
    assert f"damaged: {name}: its content has changed" in refusal_of(export)
    path.unlink()
    assert f"damaged: {name}: missing" in refusal_of(export)


def test_verify_detects_weights_of_another_model(export, other_export):
    shutil.copytree(other_export / "variables", export / "variables", dirs_exist_ok=True)
    assert f"damaged: {DATA}: " in refusal_of(export)
    sign_again(export)
    assert "expects 'embedding' as float32 [4, 3], but its weights are float32 [9, 3]" in (
        refusal_of(export)
    )


def test_verify_of_an_incomplete_copy_raises_an_error(written_export, tmp_path):
    """In any order of copying, until the last file is complete."""
    copy = tmp_path / "small" / "1"
    files = [path for path in sorted(written_export.rglob("*")) if path.is_file()]
    for order in (files, files[::-1]):
        for path in order[:-1]:
            target = copy / path.relative_to(written_export)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
            assert refusal_of(copy)
        shutil.rmtree(copy)


def test_verify_of_a_foreign_model_raises_an_error(tmp_path):
    module = tf.Module()
    module.serve = tf.function(tf.strings.upper, input_signature=[TEXTS])
    save_module(module, tmp_path / "1", module.serve)
    assert "no assets.extra/manifest.json" in refusal_of(tmp_path)


def test_verify_refuses_a_hostile_model_before_it_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    class Hostile(SmallModel):
        @tf.function(input_signature=[TEXTS])
        def serving_default(self, text):
            tf.io.write_file("written", "by the model")
            return {"text": text + tf.io.read_file("/etc/hostname"), "score": self.score_of(text)}

    model = Hostile()
    directory = save_module(model, tmp_path / "1", {name: getattr(model, name) for name in NAMES})
    write_manifest(directory, manifest_content(golden_pairs(SmallModel(), NAMES)))
    message = refusal_of(directory)
    assert "refused: ops that an export may not hold" in message
    assert "ReadFile (in function " in message
    assert "WriteFile (in function " in message
    assert not (tmp_path / "written").exists()


def test_verify_detects_a_missing_signature(tmp_path):
    model = SmallModel()
    signatures = {name: getattr(model, name) for name in NAMES if name != "score"}
    directory = save_module(model, tmp_path / "1", signatures)
    write_manifest(directory, manifest_content(golden_pairs(model, NAMES)))
    message = refusal_of(directory)
    assert "no signature 'score', which every Transformer offers. Signatures found: " in message
    assert "serving_default(text) -> score, text" in message


@pytest.mark.parametrize(
    ("package", "shown"),
    [
        ("tensorflow", "TensorFlow"),
        ("keras_transformer", "keras_transformer"),
        ("tensorflow_text", "tensorflow_text"),
    ],
)
def test_verify_refuses_exports_of_newer_packages(export, package, shown):
    created_with = read_manifest(export)["created_with"]
    sign_again(export, created_with={**created_with, package: "99.1.0rc1"})
    message = refusal_of(export)
    assert f"made with {shown} 99.1.0rc1, but " in message
    assert f"is installed. Install {shown} 99.1.0rc1 or newer, or export again with" in message


def test_verify_refuses_a_graph_of_a_newer_tensorflow(export):
    path = export / "saved_model.pb"
    version = tf.__version__.encode()
    newer = b"9" + version[1:]
    path.write_bytes(path.read_bytes().replace(version, newer))
    sign_again(export)
    assert f"made with TensorFlow {newer.decode()}, but {tf.__version__}" in refusal_of(export)


def test_verify_refuses_a_manifest_of_a_newer_format(export):
    manifest = json.loads((export / MANIFEST).read_text())
    manifest["format"] = 2
    (export / MANIFEST).write_text(json.dumps(manifest))
    assert "in format 2, but this package reads format 1" in refusal_of(export)


def test_verify_detects_a_manifest_with_other_ops(export):
    sign_again(export, ops={"outside_core": ["CaseFoldUTF8"]})
    assert "ops outside core TensorFlow are none, but it names CaseFoldUTF8" in refusal_of(export)


def test_verify_detects_different_answers(export, monkeypatch):
    """The process of the replay answers with one wrong text, or with an error."""
    golden = read_manifest(export)["golden"]
    golden[0]["outputs"]["text"][0] = "HALLO " * 30
    answers = [{"outputs": pair["outputs"]} for pair in golden]

    def answer(script, directory):
        lines = "\n".join(map(json.dumps, answers))
        return SandboxResult(0, lines.encode(), b"", ("limits",))

    monkeypatch.setattr(golden_module, "run_on_export", answer)
    message = refusal_of(export)
    assert "golden pair 1 of 6, signature serving_default, output 'text': expected 'GU" in message
    assert "got 'HALLO HALLO" in message
    answers[0] = {"outputs": read_manifest(export)["golden"][0]["outputs"]}
    answers[3] = {"error": "InvalidArgumentError: too long"}
    message = refusal_of(export)
    assert "golden pair 4 of 6, signature score, failed: InvalidArgumentError: too long" in message
