"""Atomic writing of files and directories."""

import os
import resource
import subprocess
import sys
import time

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer._utils.files import atomic_directory, atomic_file, remove_leftovers


def test_atomic_file_writes_utf8_with_line_feeds(tmp_path):
    with atomic_file(tmp_path / "new") as file:
        file.write("größer\n")
    assert (tmp_path / "new").read_bytes() == "größer\n".encode()
    assert os.listdir(tmp_path) == ["new"]


def test_atomic_file_has_the_mode_of_any_new_file(tmp_path):
    (tmp_path / "plain").touch()
    with atomic_file(tmp_path / "new") as file:
        file.write("text")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "plain").stat().st_mode


def write_and_fail(path):
    with atomic_file(path) as file:
        file.write("new")
        raise KeyboardInterrupt


def test_atomic_file_after_an_error_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt):
        write_and_fail(path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_atomic_file_appears_when_the_block_ends(tmp_path):
    path = tmp_path / "file"
    with atomic_file(path) as file:
        file.write("new")
        file.flush()
        assert not path.exists()
    assert path.read_text() == "new"


def test_atomic_file_in_a_missing_directory_raises(tmp_path):
    with pytest.raises(FileNotFoundError), atomic_file(tmp_path / "nowhere" / "file"):
        pass


@pytest.fixture
def little_room():
    """Limits files to 100 kB; writing more fails as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def write_much(path):
    with atomic_file(path) as file:
        file.write("x" * 1_000_000)


@pytest.mark.usefixtures("little_room")
def test_atomic_file_on_a_full_disk_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(OSError, match="File too large"):
        write_much(path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_atomic_directory_after_an_error_leaves_nothing(tmp_path):
    def fail_half_way():
        with atomic_directory(tmp_path / "whole") as temporary:
            (temporary / "part").write_text("text")
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        fail_half_way()
    assert os.listdir(tmp_path) == []


def test_atomic_directory_has_the_mode_of_the_umask(tmp_path):
    previous = os.umask(0o022)
    try:
        with atomic_directory(tmp_path / "parent" / "whole") as temporary:
            (temporary / "part").write_text("text")
    finally:
        os.umask(previous)
    assert (tmp_path / "parent" / "whole").stat().st_mode & 0o777 == 0o755


def test_atomic_directory_is_never_overwritten(tmp_path):
    (tmp_path / "whole").mkdir()
    (tmp_path / "whole" / "mine").touch()
    exists = pytest.raises(UserError, match="whole: exists already")
    with exists, atomic_directory(tmp_path / "whole"):
        pass
    assert os.listdir(tmp_path / "whole") == ["mine"]
    assert os.listdir(tmp_path) == ["whole"]


def make_leftover(directory, name=".1.0123456789abcdef"):
    """Returns a directory as a process that was killed an hour ago leaves it."""
    path = directory / name
    path.mkdir(parents=True)
    (path / "part").touch()
    os.utime(path, (time.time() - 3600,) * 2)
    return path


def test_leftovers_of_killed_processes_are_removed_and_nothing_else(tmp_path):
    leftover = make_leftover(tmp_path)
    others = {tmp_path / "1", tmp_path / ".notes", tmp_path / ".1.0123456789abcdeg"}
    for other in others:
        other.mkdir()
    new = tmp_path / ".2.0123456789abcdef"  # of a process that has not locked it yet
    new.mkdir()
    link = tmp_path / ".3.0123456789abcdef"
    link.symlink_to(tmp_path / "1")
    remove_leftovers(tmp_path)
    assert not leftover.exists()
    assert set(tmp_path.iterdir()) == {*others, new, link}
    remove_leftovers(tmp_path / "nowhere")


def test_directory_of_a_running_process_is_no_leftover(tmp_path):
    with atomic_directory(tmp_path / "1") as temporary:
        os.utime(temporary, (0, 0))
        remove_leftovers(tmp_path)
        assert temporary.is_dir()
    assert (tmp_path / "1").is_dir()


def test_leftover_of_a_process_that_is_killed_is_removed(tmp_path):
    code = (
        "import os, sys; from keras_transformer._utils.files import atomic_directory\n"
        "with atomic_directory(sys.argv[1]): os.kill(os.getpid(), 9)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "1")]
    assert subprocess.run(command, check=False).returncode == -9
    (leftover,) = tmp_path.iterdir()
    os.utime(leftover, (0, 0))
    remove_leftovers(tmp_path)
    assert not list(tmp_path.iterdir())
