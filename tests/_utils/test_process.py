"""Settings of the process, which never replace those of the user."""

import os
import resource
import subprocess
import sys

import pytest

from keras_transformer._utils import process

OWN = ("MALLOC_ARENA_MAX", "GLIBC_TUNABLES", "LD_PRELOAD", "TF_ENABLE_ONEDNN_OPTS")


@pytest.fixture(autouse=True)
def without_own_settings(monkeypatch):
    for name in OWN:
        monkeypatch.setenv(name, "")  # restored after the test
        monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("flags", "expected"), [({"avx2", "fma", "sse"}, "1"), ({"sse"}, None), (set(), None)]
)
def test_onednn_is_used_if_the_processor_has_avx2_and_fma(monkeypatch, flags, expected):
    monkeypatch.setattr(process, "_processor_flags", lambda: flags)
    monkeypatch.delitem(sys.modules, "tensorflow")
    assert process.use_onednn() == (expected is not None)
    assert os.environ.get("TF_ENABLE_ONEDNN_OPTS") == expected


@pytest.mark.parametrize("own", ["0", "1"])
def test_onednn_setting_of_the_user_is_kept(monkeypatch, own):
    monkeypatch.setattr(process, "_processor_flags", lambda: {"avx2", "fma"})
    monkeypatch.delitem(sys.modules, "tensorflow")
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", own)
    assert not process.use_onednn()
    assert os.environ["TF_ENABLE_ONEDNN_OPTS"] == own


def test_onednn_cannot_be_enabled_after_importing_tensorflow():
    pytest.importorskip("tensorflow")
    with pytest.raises(RuntimeError, match="TF_ENABLE_ONEDNN_OPTS=1"):
        process.use_onednn()
    assert "TF_ENABLE_ONEDNN_OPTS" not in os.environ


@pytest.mark.parametrize("own", OWN[:3])
def test_allocator_settings_of_the_user_are_kept(monkeypatch, own):
    monkeypatch.setenv(own, "1")
    assert not process.keep_freed_memory()


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
def test_freed_memory_is_reused():
    """40 times 32 MB are 327,680 pages; if they are kept, about 8,192 of them are new."""

    def faults(how):
        environment = {**os.environ, "PYTHONMALLOC": "malloc"}
        command = [sys.executable, "-c", FAULTS, how]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return int(done.stdout)

    assert resource.getpagesize() <= 65536
    assert faults("keep") < faults("give back") / 4
