"""Errors as values: their parts, copies with other parts, and the rendered line."""

import errno
import os
import pathlib
import pickle
import sys

import pytest

from keras_transformer._utils.errors import ArgumentError, UserError, named_file_errors
from tests.mistakes import assert_mistake


def test_user_error_is_rendered_as_place_problem_and_fix():
    error = UserError("the file is empty.", where=pathlib.Path("a.txt"), fix="Give another file.")
    assert str(error) == "a.txt: the file is empty. Give another file."
    assert (error.where, error.problem, error.fix) == (
        "a.txt",
        "the file is empty.",
        "Give another file.",
    )
    assert isinstance(error, ValueError)


def test_user_error_with_an_argument_names_it_before_the_problem():
    error = UserError("names no files.", argument="data.test", where="a.yaml:3")
    assert str(error) == "a.yaml:3: `data.test`: names no files."
    assert error.arguments == ("data.test",)


def test_argument_error_has_expected_and_received_value():
    error = ArgumentError("beams", "at least 1", 0, fix="Use 4.", related=("max_length",))
    assert_mistake(error, key="beams", expected="at least 1", got=0, fix="Use 4.")
    assert error.arguments == ("beams", "max_length")


def test_at_keeps_a_location_and_moved_replaces_it():
    error = UserError("it is empty.")
    assert error.at("a.txt").where == "a.txt"
    assert error.where is None
    assert error.at("a.txt").at("b.txt").where == "a.txt"
    assert error.moved("a.txt").moved("b.txt").where == "b.txt"
    assert error.at("a.txt").moved(None).where is None


def test_renamed_changes_the_arguments_everywhere():
    error = ArgumentError("width", "even", 3, related=("heads",))
    assert str(error.renamed("--width")) == "`--width` must be even; got 3."
    assert error.renamed({"width": "model.width", "heads": "model.heads"}).arguments == (
        "model.width",
        "model.heads",
    )
    assert error.renamed({"other": "x"}).arguments == ("width", "heads")
    assert error.argument == "width"


@pytest.mark.parametrize(
    "error",
    [
        UserError("it is empty.", where="a.txt", fix="Fill it.", argument="x", related=("y",)),
        ArgumentError("x", "even", 3, fix="Use 4.", where="a.yaml:1", related=("y",)),
    ],
)
def test_errors_are_pickled_with_all_parts(error):
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert vars(copy) == vars(error)
    assert str(copy) == str(error)
    assert copy.args == error.args


def test_file_errors_are_named_by_their_own_file_or_by_the_place():
    with (
        pytest.raises(OSError, match=r"^there/file: No space left on device\. Fix "),
        named_file_errors("place"),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "there/file")
    with (
        pytest.raises(OSError, match=r"^place: Input/output error\. Try again\.$"),
        named_file_errors("place", remedy="Try again."),
    ):
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_file_error_is_named_once():
    with (
        pytest.raises(OSError, match=r"^inner: Input/output error\. Fix .*\.$"),
        named_file_errors("outer"),
        named_file_errors("inner"),
    ):
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_tensorflow_errors_about_files_are_named_and_others_pass():
    tensorflow = pytest.importorskip("tensorflow")
    full = tensorflow.errors.ResourceExhaustedError(None, None, "x; No space left on device")
    with (
        pytest.raises(OSError, match=r"^place: No space left on device"),
        named_file_errors("place"),
    ):
        raise full
    other = tensorflow.errors.ResourceExhaustedError(None, None, "OOM when allocating a tensor")
    with pytest.raises(tensorflow.errors.ResourceExhaustedError), named_file_errors("place"):
        raise other


def test_errors_do_not_import_tensorflow(monkeypatch):
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    with pytest.raises(OSError, match=r"^place: "), named_file_errors("place"):
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    assert "tensorflow" not in sys.modules
