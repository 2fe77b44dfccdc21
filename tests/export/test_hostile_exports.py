"""Every attack of `training.reliability.hostile_exports` is refused before anything runs.

Most are checked in this process, because they are found without running anything; a few by the
sandboxed process, which is the one that `verify` and `load` use.
"""

import shutil

import pytest
import tensorflow as tf

from keras_transformer._utils.errors import UserError
from keras_transformer.export import inspection, inspector, verification
from keras_transformer.export.graph import SignatureFound
from keras_transformer.export.verification import check_export, verify_export
from training.reliability import hostile_exports
from training.reliability.hostile_exports import FILE_ATTACKS, GRAPH_ATTACKS, INDEX_ATTACKS

ATTACKS = dict(hostile_exports.all_attacks())
# Attacks that must be refused for their own reason, not for a mistake of the attack.
REASONS = {
    "local_variables_without_objects": "SaveV2 (in function ",
    "local_variables_that_save": "SaveV2 (in function ",
    "no_objects": "no objects",
    "initialization_that_answers": "initialization runs",
    "collection_table_initializer": "SaveV2 (in function ",
    "asset": "assets",
    "object_of_another_class": "_tf_keras_model",
    "object_without_end": "does not exist",
    "op_PhraseTokenize": "PhraseTokenize",
    "junk_wordpiece_model": "tokenizer model of FastWordpieceTokenizeWithOffsets",
    "empty_wordpiece_model": "tokenizer model of FastWordpieceTokenizeWithOffsets",
    "computed_wordpiece_model": "computed by Fill",
    "junk_sentencepiece_model": "tokenizer model of SentencepieceOp",
    "device_of_another_machine": "on the device",
    "settings_with_servers": "other settings",
    "another_dtype": "qint8",
    "constant_of_terabytes": "too large",
    "constant_of_negative_size": "too large",
    "signature_without_golden_pair": "the signatures of its objects",
    "signature_of_another_function": "the signatures of its objects",
    "function_that_calls_itself": "call themselves",
    "calls_without_end": "calls deeper",
    "golden_pairs_of_one_signature": "no golden pair of the signature",
    "weight_outside_of_the_file": "outside of the file",
    "weight_of_a_huge_shape": "bytes of float32",
    "weight_in_another_file": "in parts",
    "pipe_in_place_of_weights": ": 0 bytes, but ",
    "pipe_in_place_of_the_graph": ": 0 bytes, but ",
    "pipe_in_place_of_the_manifest": "not a regular file",
    "link_to_a_device": "a symbolic link",
    "second_form_of_the_graph": "a second form of the graph",
}


def inspect_here(directory):
    """Checks an export as the sandboxed process does, but in this process."""
    findings = inspector.find(directory)
    signatures = {name: SignatureFound(*each) for name, each in findings["signatures"].items()}
    return inspection.Findings(**{**findings, "signatures": signatures})


@pytest.fixture
def in_this_process(monkeypatch):
    monkeypatch.setattr(verification, "inspect_export", inspect_here)


def refusal_of(directory):
    with pytest.raises(UserError) as refusal:
        check_export(directory)
    message = str(refusal.value)
    assert "\n" not in message
    return message


def test_honest_export_passes_the_same_checks(export, in_this_process):
    honest = check_export(export)
    hostile_exports.seal_export(export)
    assert [each.ok for each in check_export(export).checks] == [True] * len(honest.checks)


@pytest.mark.parametrize("name", ATTACKS)
def test_attack_is_refused_before_anything_runs(name, export, tmp_path, in_this_process):
    ATTACKS[name](export, bytes(tmp_path / "written"))
    assert REASONS.get(name, "") in refusal_of(export)
    assert not (tmp_path / "written").exists()


def test_every_reason_is_that_of_an_attack():
    assert REASONS.keys() <= ATTACKS.keys()
    assert len(ATTACKS) == len({**GRAPH_ATTACKS, **INDEX_ATTACKS, **FILE_ATTACKS})


def test_rewritten_index_without_a_change_is_accepted(export, in_this_process):
    """So that the attacks on the index are not refused for the form of the table."""
    hostile_exports.attack_index(export, lambda entries: None)
    assert check_export(export).checks
    assert tf.train.load_checkpoint(str(export / "variables/variables")).get_tensor(
        "embedding/.ATTRIBUTES/VARIABLE_VALUE"
    ).shape == (4, 3)


def test_the_first_attack_writes_a_file_if_it_is_loaded_unchecked(export, tmp_path):
    """The attacks are real: this is what the checks prevent."""
    hostile_exports.attack_graph(
        export, GRAPH_ATTACKS["local_variables_without_objects"], bytes(tmp_path / "written")
    )
    tf.saved_model.load(str(export))
    assert list(tmp_path.glob("written*"))


@pytest.mark.parametrize(
    "name", ["local_variables_without_objects", "junk_wordpiece_model", "weight_of_a_huge_shape"]
)
def test_sandboxed_process_refuses_attacks(name, export, tmp_path):
    ATTACKS[name](export, bytes(tmp_path / "written"))
    assert REASONS[name] in refusal_of(export)
    assert not (tmp_path / "written").exists()


def test_golden_pairs_without_end_are_stopped(export, monkeypatch):
    monkeypatch.setattr(verification, "inspect_export", inspect_here)
    monkeypatch.setattr(inspection, "SECONDS", 0.3)
    with pytest.raises(UserError, match="not loadable, stopped"):
        verify_export(export)


def test_load_during_a_swap_loads_the_checked_export(written_export, tmp_path, in_this_process):
    results = hostile_exports.race(written_export, tmp_path / "race", 3)
    assert results["a file was written"] == 0
    assert results["refused"] + results["the honest one was loaded"] == 3


def test_script_counts_attacks_that_succeed(written_export, tmp_path, monkeypatch):
    """With checks that find nothing, an attack is counted as one that succeeded."""
    monkeypatch.setattr("keras_transformer.export.verify_export", lambda directory: None)
    outcome = hostile_exports.try_attack(written_export, ATTACKS["no_objects"], tmp_path)
    assert outcome.kind == "succeeded"
    shutil.rmtree(tmp_path / "name")
    shutil.rmtree(tmp_path / "victim")
    monkeypatch.setattr("keras_transformer.export.verify_export", check_export)
    monkeypatch.setattr(verification, "inspect_export", inspect_here)
    outcome = hostile_exports.try_attack(written_export, ATTACKS["no_objects"], tmp_path)
    assert outcome.kind == "refused"
