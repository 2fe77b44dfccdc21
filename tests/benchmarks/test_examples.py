"""Examples in the docstrings of the benchmarks, which are not part of the package."""

import doctest
import importlib
import pathlib

import pytest

from training import benchmarks

NAMES = sorted(path.stem for path in pathlib.Path(benchmarks.__path__[0]).glob("[!_]*.py"))


@pytest.mark.parametrize("name", NAMES)
def test_examples_in_docstrings(name):
    module = importlib.import_module(f"training.benchmarks.{name}")
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    assert doctest.testmod(module, optionflags=flags).failed == 0
