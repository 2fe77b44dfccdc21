"""Switches of the whole process: turned where they help, never over the user's own."""

import os
import resource
import subprocess
import sys

import pytest

from keras_transformer._utils import process as process_settings

OWN = ("MALLOC_ARENA_MAX", "GLIBC_TUNABLES", "LD_PRELOAD", "TF_ENABLE_ONEDNN_OPTS")


@pytest.fixture(autouse=True)
def without_own_settings(monkeypatch):
    for name in OWN:
        monkeypatch.setenv(name, "")  # so that it is not there afterwards, whatever a test sets
        monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("flags", "expected"), [({"avx2", "fma", "sse"}, "1"), ({"sse"}, None), (set(), None)]
)
def test_onednn_is_used_where_the_processor_has_what_it_needs(monkeypatch, flags, expected):
    monkeypatch.setattr(process_settings, "_processor_flags", lambda: flags)
    monkeypatch.delitem(sys.modules, "tensorflow")
    assert process_settings.use_onednn() == (expected is not None)
    assert os.environ.get("TF_ENABLE_ONEDNN_OPTS") == expected


@pytest.mark.parametrize("own", ["0", "1"])
def test_onednn_stays_as_the_user_has_set_it(monkeypatch, own):
    monkeypatch.setattr(process_settings, "_processor_flags", lambda: {"avx2", "fma"})
    monkeypatch.delitem(sys.modules, "tensorflow")
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", own)
    assert not process_settings.use_onednn()
    assert os.environ["TF_ENABLE_ONEDNN_OPTS"] == own


def test_onednn_cannot_be_switched_once_tensorflow_is_there():
    with pytest.raises(RuntimeError, match="Set TF_ENABLE_ONEDNN_OPTS=1 in the environment"):
        process_settings.use_onednn()
    assert "TF_ENABLE_ONEDNN_OPTS" not in os.environ


@pytest.mark.parametrize("own", OWN[:3])
def test_the_allocator_stays_as_the_user_has_set_it(monkeypatch, own):
    monkeypatch.setenv(own, "1")
    assert not process_settings.keep_freed_memory()


FAULTS = """
import resource, sys, threading
from keras_transformer._utils.process import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
def work():
    for _ in range(20):
        bytearray(2**25)
work()
thread = threading.Thread(target=work)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
thread.start(), thread.join()
work()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc is Linux'")
def test_freed_memory_is_not_asked_for_again():
    """40 times 32 MB are 327,680 pages; kept, they are those of the first time or few more."""

    def faults(how):
        environment = {**os.environ, "PYTHONMALLOC": "malloc"}
        command = [sys.executable, "-c", FAULTS, how]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return int(done.stdout)

    assert resource.getpagesize() <= 65536
    assert faults("keep") < faults("give back") / 4
