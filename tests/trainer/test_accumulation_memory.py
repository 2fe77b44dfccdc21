"""Memory of a step that accumulates the gradients of many batches."""

import subprocess
import sys
import textwrap

GRADIENTS = 200_000 * 100 * 4  # bytes


def peak_memory(accumulate):
    """Makes a step of a model that is nearly all embedding; returns the peak memory in bytes."""
    code = r"""
        import re, sys
        import keras
        import numpy as np
        from keras_transformer import TokenCrossEntropy
        from keras_transformer.trainer import TrainingLoop
        from tests.trainer.given_batches import GivenBatches

        tokens = keras.Input([None], dtype="int32")
        vectors = keras.layers.Embedding(200_000, 100)(tokens)
        model = keras.Model(tokens, keras.layers.Dense(5)(vectors))
        model.compile(keras.optimizers.SGD(0.1), TokenCrossEntropy())
        batch = (np.array([[7, 8, 9]], "int32"), np.array([[1, 2, 3]], "int32"))
        loop = TrainingLoop(model, GivenBatches([batch]), accumulate=int(sys.argv[1]))
        loop.run(1)
        # Not `ru_maxrss`, which includes the peak of the parent process.
        print(re.search(r"VmHWM:\s*([0-9]+) kB", open("/proc/self/status").read())[1])
    """
    process = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(accumulate)],
        capture_output=True,
        text=True,
        check=True,
    )
    return int(process.stdout) * 1024


def test_accumulation_of_many_batches_needs_the_memory_of_two():
    few, many = peak_memory(2), peak_memory(14)
    assert many - few < 2 * GRADIENTS
