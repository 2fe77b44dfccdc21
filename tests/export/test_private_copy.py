"""A private copy: what is loaded is what was checked, and nothing remains of it."""

import errno
import os
import pathlib
import shutil
import stat

import pytest
import tensorflow as tf

from keras_transformer._utils.errors import UserError
from keras_transformer.export import damage
from keras_transformer.export.private_copy import private_copy
from keras_transformer.export.verification import checked_copy
from keras_transformer.inference import text_model


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """A directory for temporary files, which must be empty at the end."""
    directory = tmp_path / "temporary"
    directory.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(directory))
    yield directory
    assert list(directory.iterdir()) == []


def files_of(directory):
    return {
        path.relative_to(directory): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def test_private_copy_has_all_files_and_belongs_to_the_user_alone(written_export, temporary):
    with private_copy(written_export) as copy:
        assert copy.original == written_export
        assert copy.directory.is_relative_to(temporary)
        assert stat.S_IMODE(copy.directory.parent.stat().st_mode) == 0o700
        assert files_of(copy.directory) == files_of(written_export)


def test_loaded_model_is_the_checked_one_after_a_swap(export, other_export, temporary, monkeypatch):
    """Between the check and the load, all files are replaced by those of another export."""
    load = tf.saved_model.load

    def swap_and_load(path):
        shutil.rmtree(export)
        shutil.copytree(other_export, export)
        return load(path)

    monkeypatch.setattr(text_model.tf.saved_model, "load", swap_and_load)
    model = text_model.load(export)
    assert model.embed(["guten"]).tolist() == [[0, 1, 2]]
    assert sorted(path.name for path in export.parent.iterdir()) == ["1"]


def test_file_that_changes_while_it_is_copied_is_refused(export, temporary, monkeypatch):
    """The sha256 is that of the copied bytes."""
    data = export / "variables" / "variables.data-00000-of-00001"
    opened = damage.open_regular

    def open_changed(directory, name):
        if name == str(data.relative_to(export)):
            data.write_bytes(data.read_bytes()[::-1])
        return opened(directory, name)

    monkeypatch.setattr(damage, "open_regular", open_changed)
    with pytest.raises(UserError, match="its content has changed") as refusal, checked_copy(export):
        pass
    assert refusal.value.where == str(export)


def test_file_that_grows_while_it_is_copied_is_copied_no_further(tmp_path):
    (tmp_path / "file").write_bytes(b"x" * 5000)
    sha256, size = damage.copied_sha256(tmp_path, "file", tmp_path / "copy", 100)
    assert (len(sha256), size) == (64, 101)
    assert (tmp_path / "copy" / "file").stat().st_size == 101


def test_errors_of_checks_name_the_original(export, temporary):
    with pytest.raises(UserError) as refusal, private_copy(export) as copy:
        raise UserError("wrong", where=copy.directory / "saved_model.pb")
    assert refusal.value.where == str(export / "saved_model.pb")
    (export / "more").write_bytes(b"")
    with pytest.raises(UserError, match="not in the manifest") as refusal, checked_copy(export):
        pass
    assert refusal.value.where == str(export)


def test_full_disk_is_reported_with_the_directory(written_export, temporary, monkeypatch):
    def write(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(pathlib.Path, "write_bytes", write)
    with (
        pytest.raises(UserError, match="TMPDIR") as refusal,
        private_copy(written_export),
    ):
        pass
    assert refusal.value.where == str(written_export)
