"""The comparison of two equal trainings, and what makes exports of equal models equal."""

import json
import shutil

import pytest
from tensorflow.core.protobuf import fingerprint_pb2

from keras_transformer.export.formats.saved_model import FINGERPRINT, name_by_content
from tests.export.small_export import write_small_export
from training.reliability import reproducibility


def test_uuid_of_an_export_depends_on_its_content_alone(tmp_path):
    one = write_small_export(tmp_path / "one" / "1")
    other = shutil.copytree(one, tmp_path / "other")
    fingerprints = []
    for number, directory in enumerate((one, other)):
        path = directory / FINGERPRINT
        fingerprint = fingerprint_pb2.FingerprintDef.FromString(path.read_bytes())
        fingerprint.uuid = str(number)
        path.write_bytes(fingerprint.SerializeToString())
        name_by_content(directory)
        fingerprints.append(path.read_bytes())
    assert fingerprints[0] == fingerprints[1]
    changed = fingerprint_pb2.FingerprintDef.FromString(fingerprints[0])
    changed.checkpoint_hash += 1
    (one / FINGERPRINT).write_bytes(changed.SerializeToString())
    name_by_content(one)
    again = fingerprint_pb2.FingerprintDef.FromString((one / FINGERPRINT).read_bytes())
    assert again.uuid != changed.uuid


def test_comparison_finds_differences_and_knows_what_depends_on_the_clock(tmp_path, monkeypatch):
    monkeypatch.setattr(reproducibility, "read_events", lambda path: [])
    for name in ("one", "other"):
        run = tmp_path / name
        (run / "export" / "1").mkdir(parents=True)
        result = {"seconds": len(name), "steps": 3}
        (run / "result.json").write_text(json.dumps(result))
        (run / "metrics.jsonl").write_text("{}")
        (run / "export" / "1" / "manifest.json").write_text(name)
        (run / ".lock").touch()
    verdicts = {row.name: row.verdict for row in reproducibility.compare(run, tmp_path / "one")}
    assert verdicts == {
        "export/1/manifest.json": "different",
        "metrics.jsonl": "same bytes",
        "result.json": "same content",
        "tensorboard/train": "same content",
        "tensorboard/validation": "same content",
    }
    (run / "extra").touch()
    rows = list(reproducibility.compare(run, tmp_path / "one"))
    assert rows[0][:3] == ("extra", "", "different")


@pytest.mark.slow
def test_two_trainings_give_the_same_export_byte_for_byte(capsys):
    assert reproducibility.main([]) == 0
    assert "export/reversed/1/assets.extra/manifest.json" in capsys.readouterr().out
