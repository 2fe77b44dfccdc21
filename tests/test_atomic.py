"""Files and directories that are there whole or not at all."""

import os
import resource

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer._utils.files import atomic_directory, atomic_file


def test_the_text_is_written_as_utf8_with_line_feeds(tmp_path):
    with atomic_file(tmp_path / "new") as file:
        file.write("größer\n")
    assert (tmp_path / "new").read_bytes() == "größer\n".encode()
    assert os.listdir(tmp_path) == ["new"]


def test_the_mode_is_that_of_any_new_file(tmp_path):
    (tmp_path / "plain").touch()
    with atomic_file(tmp_path / "new") as file:
        file.write("text")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "plain").stat().st_mode


def write_and_fail(path):
    with atomic_file(path) as file:
        file.write("new")
        raise KeyboardInterrupt


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt):
        write_and_fail(path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_nothing_is_seen_before_the_end(tmp_path):
    path = tmp_path / "file"
    with atomic_file(path) as file:
        file.write("new")
        file.flush()
        assert not path.exists()
    assert path.read_text() == "new"


def test_a_missing_directory(tmp_path):
    with pytest.raises(FileNotFoundError), atomic_file(tmp_path / "nowhere" / "file"):
        pass


@pytest.fixture
def little_room():
    """No file may grow beyond 100 kB, which fails as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def write_much(path):
    with atomic_file(path) as file:
        file.write("x" * 1_000_000)


@pytest.mark.usefixtures("little_room")
def test_a_full_disk_leaves_no_half_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(OSError, match="File too large"):
        write_much(path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_an_error_leaves_no_directory_behind(tmp_path):
    def fail_half_way():
        with atomic_directory(tmp_path / "whole") as temporary:
            (temporary / "part").write_text("text")
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        fail_half_way()
    assert os.listdir(tmp_path) == []


def test_a_finished_directory_can_be_read_by_those_whom_the_umask_allows(tmp_path):
    previous = os.umask(0o022)
    try:
        with atomic_directory(tmp_path / "parent" / "whole") as temporary:
            (temporary / "part").write_text("text")
    finally:
        os.umask(previous)
    assert (tmp_path / "parent" / "whole").stat().st_mode & 0o777 == 0o755


def test_a_directory_is_never_overwritten(tmp_path):
    (tmp_path / "whole").mkdir()
    (tmp_path / "whole" / "mine").touch()
    exists = pytest.raises(UserError, match=r"whole: exists already\. Choose another directory")
    with exists, atomic_directory(tmp_path / "whole"):
        pass
    assert os.listdir(tmp_path / "whole") == ["mine"]
    assert os.listdir(tmp_path) == ["whole"]
