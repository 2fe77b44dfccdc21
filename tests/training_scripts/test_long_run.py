"""Memory and open files of a long run, and how their growth is computed."""

import pytest

from training.reliability import long_run
from training.reliability.long_run import Growth, Usage


def test_growth_leaves_out_the_first_third():
    measured = [Usage(memory, 9) for memory in (1, 50, 100, 100, 101, 100, 100, 102, 103)]
    growth = Growth.of(measured)
    assert (growth.first, growth.last) == (Usage(100, 9), Usage(102, 9))
    assert growth.is_flat(2.0)
    assert not growth.is_flat(1.0)


def test_one_more_open_file_is_growth():
    measured = [Usage(10.0, files) for files in (5, 5, 5, 5, 5, 6)]
    assert not Growth.of(measured).is_flat(99.0)


def test_usage_counts_open_files(tmp_path):
    before = Usage.now()
    with (tmp_path / "file").open("w"):
        assert Usage.now().files == before.files + 1
    assert Usage.now().files == before.files
    assert 10 < before.memory_mb < 100_000


@pytest.mark.slow
def test_memory_and_open_files_of_a_long_run_do_not_grow():
    assert long_run.main(["--steps", "2000", "--exports", "6"]) == 0
