"""Many clients at a time: nothing lost, nothing wrong, memory flat."""

import asyncio
import gc
import pathlib
import shutil

import pytest

from keras_transformer.serving import find_models
from tests.serving.running import RunningServer
from training.serving.clients import measure
from training.serving.load import main, resident_mib

WORDS = {f"word {number}": f"WORD {number}" for number in range(500)}
PATH = "/v1/models/small:predict"


def load(running, clients, seconds):
    port = running.server.port
    return asyncio.run(measure("127.0.0.1", port, PATH, WORDS, clients, seconds))


def test_each_of_many_clients_gets_its_own_answer(server):
    result = load(server, clients=50, seconds=1.0)
    assert (result.wrong, result.lost) == (0, 0)
    assert result.answers > 200
    assert result.health


def test_small_queue_refuses_but_loses_nothing(written_export):
    sources = find_models(written_export.parent)
    with RunningServer(sources, max_waiting_rows=2, max_batch_rows=2, grpc_port=None) as running:
        result = load(running, clients=50, seconds=0.5)
    assert (result.wrong, result.lost) == (0, 0)
    assert set(result.statuses) <= {200, 429}


@pytest.mark.slow
def test_200_clients_for_a_minute_lose_nothing(written_export):
    with RunningServer(find_models(written_export.parent), workers=2) as running:
        result = load(running, clients=200, seconds=60)
    assert (result.wrong, result.lost) == (0, 0)
    assert set(result.statuses) == {200}


@pytest.mark.slow
def test_memory_is_flat_over_50_new_versions(models):
    with RunningServer(find_models(models)) as running:

        def swap(number):
            temporary = models / "small" / f".{number}"
            shutil.copytree(models / "small" / str(number - 1), temporary)
            temporary.rename(models / "small" / str(number))
            shutil.rmtree(models / "small" / str(number - 1))
            running.update()
            assert load(running, clients=4, seconds=0.1).wrong == 0

        for number in range(2, 12):
            swap(number)
        gc.collect()
        before = resident_mib(pathlib.Path("/proc/self").resolve().name)
        for number in range(12, 62):
            swap(number)
        gc.collect()
        after = resident_mib(pathlib.Path("/proc/self").resolve().name)
    # `tf.saved_model.load` would need 122 MiB more for each new version of a small model.
    assert after - before < 100


@pytest.mark.slow
def test_script_measures_all_servers(written_export, capsys):
    options = ["--seconds", "0.5", "--clients", "1", "8", "--workers", "1"]
    assert main([str(written_export), *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    for kind in ("threads", "processes", "naive"):
        assert len([line for line in lines if line.startswith(kind)]) == 2
