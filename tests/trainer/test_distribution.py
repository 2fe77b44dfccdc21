"""Choice of devices, and two replicas in one process compared with one device.

Run as a script, this file prints the results of two replicas, which must be set up before
TensorFlow starts.
"""

import json
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_transformer
from keras_transformer import InverseSquareRootDecay, TokenCrossEntropy, Transformer
from keras_transformer._utils.errors import UserError
from keras_transformer.trainer import TrainingFailed, TrainingLoop, ValidationLoop, distribution
from keras_transformer.trainer.distribution import Distribution
from tests.trainer.given_batches import VOCABULARY, GivenBatches, make_batch, make_model

# Odd numbers of rows and different numbers of tokens; half of the second batch is padding.
BATCHES = [
    make_batch(1, 5, 2, 1),
    make_batch(2, 3, 0, 1, 0),
    make_batch(3, 1, width=5),
    make_batch(4, 4, 4, 3, 1, 1),
]
CASES = {
    "accumulated in float32": {"accumulate": 3, "dtype": "float32"},
    "float16": {"accumulate": 1, "dtype": "mixed_float16"},
}


def results(accumulate, dtype):
    """Returns the results of six steps of a model whose gradients are all clipped."""
    optimizer = keras.optimizers.AdamW(
        InverseSquareRootDecay(0.005, 3), global_clipnorm=0.05, use_ema=True, weight_decay=0.1
    )
    model = make_model(optimizer, dtype=dtype)
    loop = TrainingLoop(model, GivenBatches(BATCHES), accumulate=accumulate)
    records = [*loop.run(2), *loop.run(4)]
    return {
        "steps": [
            [
                r.statistics.tokens,
                r.statistics.loss,
                r.statistics.correct,
                r.gradient_norm,
                r.learning_rate,
            ]
            for r in records
        ],
        "weights": [weights.numpy().tolist() for weights in model.weights],
        "optimizer": [float(np.sum(v.numpy())) for v in model.optimizer.variables],
        "validation": ValidationLoop(model, GivenBatches(BATCHES)).measure(),
        "traces": loop.traces,
    }


def losses_of_transformer():
    """Returns losses with dropout, and with attention over rows of padding."""
    keras.utils.set_random_seed(3)
    model = Transformer.from_size(
        "tiny",
        vocabulary_size=VOCABULARY,
        hidden_dim=8,
        num_heads=2,
        intermediate_dim=16,
        num_encoder_layers=1,
        num_decoder_layers=1,
    )
    model.compile(keras.optimizers.Adam(0.01), TokenCrossEntropy(), jit_compile=False)
    batches = [({"source": inputs, "target": inputs}, labels) for inputs, labels in BATCHES]
    records = TrainingLoop(model, GivenBatches(batches)).run(20)
    return [record.statistics.logs()["loss"] for record in records]


def print_results_of_two_replicas():
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    mirrored = Distribution("mirrored")
    with mirrored.scope():
        content = {name: results(**case) for name, case in CASES.items()}
        content["transformer"] = losses_of_transformer()
    content["described"] = mirrored.describe()
    print(json.dumps(content))


@pytest.fixture(scope="module")
def two_replicas():
    root = pathlib.Path(keras_transformer.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(root), "CUDA_VISIBLE_DEVICES": "-1"}
    command = [sys.executable, __file__]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout.splitlines()[-1])


@pytest.mark.parametrize("case", CASES)
def test_two_replicas_make_the_steps_of_one_device(two_replicas, case):
    ours, expected = two_replicas[case], results(**CASES[case])
    rtol = 1e-5 if CASES[case]["dtype"] == "float32" else 2e-3
    np.testing.assert_allclose(ours["steps"], expected["steps"], rtol=rtol)
    assert min(norm for *_, norm, _ in expected["steps"]) > 0.05  # all are clipped
    for one, other in zip(ours["weights"], expected["weights"], strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(ours["optimizer"], expected["optimizer"], rtol=rtol, atol=rtol * 10)
    assert ours["validation"] == pytest.approx(expected["validation"], rel=rtol)


def test_two_replicas_learn_with_dropout(two_replicas):
    losses = two_replicas["transformer"]
    assert np.isfinite(losses).all()
    assert np.mean(losses[-4:]) < np.mean(losses[:4])
    assert two_replicas["described"] == "2 CPUs"


@pytest.fixture
def config(monkeypatch):
    """Sets TF_CONFIG, without joining the workers that it names."""
    monkeypatch.setattr(distribution, "_join_workers", tf.distribute.get_strategy)

    def set_config(content):
        text = content if isinstance(content, str) else json.dumps(content)
        monkeypatch.setenv("TF_CONFIG", text)

    monkeypatch.delenv("TF_CONFIG", raising=False)
    return set_config


def cluster(kind, index, **workers):
    return {"cluster": workers, "task": {"type": kind, "index": index}}


@pytest.mark.parametrize("kind", ["none", "auto"])
def test_one_device_has_no_strategy(config, kind):
    alone = Distribution(kind)
    assert (alone.strategy, alone.worker, alone.workers, alone.is_chief) == (None, 0, 1, True)
    assert alone.sum_over_workers(7.5) == 7.5
    with alone.scope(), alone.chief_first():
        assert not tf.distribute.has_strategy()
    cores = len(os.sched_getaffinity(0))
    assert alone.describe() in ("GPU", f"CPU with {cores} core{'s' if cores > 1 else ''}")


@pytest.mark.parametrize(
    ("content", "worker", "workers"),
    [
        (cluster("worker", 1, worker=["a:1", "b:1"]), 1, 2),
        (cluster("worker", "0", worker=["a:1", "b:1"]), 0, 2),
        (cluster("worker", 1, chief=["c:1"], worker=["a:1", "b:1"]), 2, 3),
        (cluster("chief", 0, chief=["c:1"], worker=["a:1", "b:1"]), 0, 3),
    ],
)
def test_workers_are_those_of_tf_config(config, content, worker, workers):
    config(content)
    found = Distribution("auto")
    assert (found.kind, found.worker, found.workers) == ("multi_worker", worker, workers)
    assert found.is_chief == (worker == 0)


def test_distribution_none_ignores_tf_config(config):
    config(cluster("worker", 1, worker=["a:1", "b:1"]))
    assert Distribution("none").strategy is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", r"TF_CONFIG .* \(Expecting property name"),
        ("[1]", r"TF_CONFIG .* \('list' object"),
        ({"cluster": {"worker": 5}}, "TF_CONFIG"),
        (cluster("worker", 2, worker=["a:1", "b:1"]), r"must have a 'task' that .*'index': 2"),
        (cluster("ps", 0, worker=["a:1", "b:1"]), r"must have a 'task' that .*got {'type': 'ps'"),
        ({"cluster": {"worker": ["a:1", "b:1"]}}, r"must have a 'task' that is a worker.*got None"),
        (cluster("worker", None, worker=["a:1", "b:1"]), r"must have a 'task' that.*None}"),
    ],
)
def test_tf_config_that_describes_no_worker_is_refused(config, content, message):
    config(content)
    with pytest.raises(UserError, match=message):
        Distribution("multi_worker")


def test_multi_worker_without_tf_config_is_refused(config):
    with pytest.raises(UserError, match=r"training\.distribution.* TF_CONFIG names no workers"):
        Distribution("multi_worker")


def test_multi_worker_is_refused_after_tensorflow_has_started(monkeypatch):
    tf.constant(1)
    ports = ["127.0.0.1:1", "127.0.0.1:2"]
    monkeypatch.setenv("TF_CONFIG", json.dumps(cluster("worker", 0, worker=ports)))
    with pytest.raises(UserError, match="TensorFlow has been used in this process"):
        Distribution("multi_worker")


@pytest.mark.parametrize("error", [tf.errors.UnavailableError, tf.errors.AbortedError])
def test_lost_worker_is_reported_in_one_line(config, error):
    config(cluster("worker", 1, worker=["a:1", "b:1"]))
    two = Distribution("auto")
    with pytest.raises(TrainingFailed) as failure, two.report_lost_workers():
        raise error(None, None, "Connection reset by peer\nand more")
    message = str(failure.value)
    assert message.startswith("Worker 1 of 2 cannot reach the others")
    assert error.__name__ in message
    assert "\n" not in message


def test_other_errors_pass_unchanged(config):
    with pytest.raises(tf.errors.UnavailableError), Distribution("none").report_lost_workers():
        raise tf.errors.UnavailableError(None, None, "")
    config(cluster("worker", 1, worker=["a:1", "b:1"]))
    with (
        pytest.raises(tf.errors.ResourceExhaustedError),
        Distribution("auto").report_lost_workers(),
    ):
        raise tf.errors.ResourceExhaustedError(None, None, "")


if __name__ == "__main__":
    print_results_of_two_replicas()
