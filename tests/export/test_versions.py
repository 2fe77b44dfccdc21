"""Version directories: the one that is used, the next one, and files that are no exports."""

import gzip
import io
import os
import pickle
import tarfile
import zipfile

import h5py
import keras
import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.export.versions import next_version, resolve_version


def make_version(folder, name):
    (folder / name).mkdir(parents=True)
    (folder / name / "saved_model.pb").write_bytes(b"graph")
    return folder / name


def test_resolve_version_of_a_version_directory_returns_it(tmp_path):
    directory = make_version(tmp_path, "7")
    make_version(directory, "9")
    assert resolve_version(directory) == directory
    assert resolve_version(str(directory)) == directory


def test_resolve_version_takes_the_highest_number_and_skips_other_names(tmp_path):
    names = ["2", "10", "9", "latest", "1a", "-1", "+99", " 98", "1e3", "²", "٣", ".11.partial"]
    for name in [*names, str(2**63)]:
        make_version(tmp_path, name)
    (tmp_path / "77").write_text("a file")
    assert resolve_version(tmp_path) == tmp_path / "10"


def test_resolve_version_accepts_zero_and_the_largest_number(tmp_path):
    make_version(tmp_path, "0")
    assert resolve_version(tmp_path) == tmp_path / "0"
    make_version(tmp_path, str(2**63 - 1))
    assert resolve_version(tmp_path).name == str(2**63 - 1)


def test_resolve_version_refuses_two_names_of_one_number(tmp_path):
    for name in ("1", "03", "3"):
        make_version(tmp_path, name)
    with pytest.raises(UserError, match="03 and 3 are the same version to TensorFlow Serving"):
        resolve_version(tmp_path)
    make_version(tmp_path, "4")
    assert resolve_version(tmp_path) == tmp_path / "4"


def test_resolve_version_reports_an_incomplete_highest_version(tmp_path):
    make_version(tmp_path, "1")
    (tmp_path / "2" / "variables").mkdir(parents=True)
    with pytest.raises(UserError, match=r"no saved_model\.pb in .*/2, the highest version\. If it"):
        resolve_version(tmp_path)


def test_resolve_version_without_a_saved_model_raises_an_error(tmp_path):
    with pytest.raises(UserError, match=rf"no saved_model\.pb in {tmp_path}, and no version"):
        resolve_version(tmp_path)
    make_version(tmp_path, "latest")
    with pytest.raises(UserError, match=r"Give the directory <name>/<version> or <name>"):
        resolve_version(tmp_path)


def test_resolve_version_of_a_missing_path_names_the_current_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=rf"^saved: no such directory .* is {tmp_path}\)"):
        resolve_version("saved")


def zipped(*names):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name in names:
            archive.writestr(name, "out of place")
    return content.getvalue()


def tarred(name):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        link = tarfile.TarInfo(name)
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    return content.getvalue()


class Trap:
    """Makes a directory when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_resolve_version_refuses_files_by_kind_and_unpacks_nothing(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    keras.Sequential([keras.Input((1,)), keras.layers.Lambda(lambda x: x)]).save(
        inside / "model.keras"
    )
    with h5py.File(inside / "model.h5", "w") as file:
        file["weights"] = [1.0]
    trap = pickle.dumps(Trap(tmp_path / "trapped"))
    files = {
        "model.keras": (None, "a Keras model file, which can hold Python code"),
        "model.h5": (None, "an HDF5 file"),
        "weights": ((inside / "model.h5").read_bytes(), "an HDF5 file"),
        "model.pkl": (trap, "a pickle, which runs code when it is loaded"),
        "model.bin": (trap, "a pickle"),
        "model.zip": (zipped("../outside", "/tmp/outside"), "an archive."),
        "model": (zipped("../outside"), "an archive"),
        "MODEL.ZIP": (b"", "an archive"),
        "model.tar": (tarred("1/saved_model.pb"), "an archive"),
        "model.tar.gz": (gzip.compress(tarred("1")), "an archive"),
        "1": (gzip.compress(b"0" * 1_000_000), "an archive"),
        "saved_model.pb": (b"graph", "a file of an export."),
        "notes.txt": (b"text", "not a directory. Give the directory <name>/<version>"),
    }
    for name, (content, message) in files.items():
        if content is not None:
            (inside / name).write_bytes(content)
        with pytest.raises(UserError) as refusal:
            resolve_version(inside / name)
        assert f"/inside/{name}: {message}" in str(refusal.value)
        assert "\n" not in str(refusal.value)
    assert sorted(os.listdir(inside)) == sorted(files)
    assert os.listdir(tmp_path) == ["inside"]


def test_resolve_version_refuses_pipes_and_dead_links(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dead").symlink_to(tmp_path / "nowhere")
    for name in ("pipe", "dead"):
        with pytest.raises(UserError, match=f"/{name}: not a directory"):
            resolve_version(tmp_path / name)


def test_resolve_version_refuses_a_path_with_a_bracket(tmp_path):
    version = make_version(tmp_path / "a[1]", "3")
    with pytest.raises(UserError, match=r"cannot load a model from a path with a \[ in it"):
        resolve_version(version.parent)


def test_next_version_is_one_more_than_the_highest(tmp_path):
    assert next_version(tmp_path / "new") == 1
    assert next_version(tmp_path) == 1
    for name in ("2", "07", "latest", "99a"):
        make_version(tmp_path, name)
    assert next_version(tmp_path) == 8
    # A file or directory of any kind occupies its number.
    (tmp_path / "12").write_text("a file")
    assert next_version(str(tmp_path)) == 13


def test_next_version_in_a_file_raises_an_error(tmp_path):
    (tmp_path / "name").write_text("a file")
    with pytest.raises(UserError, match="not a directory"):
        next_version(tmp_path / "name")
