"""Memory of a step that accumulates the gradients of many batches."""

import subprocess
import sys

GRADIENTS = 200_000 * 100 * 4  # bytes


CODE = r"""
import re
import keras
import numpy as np
from keras_transformer import TokenCrossEntropy
from keras_transformer.trainer import TrainingLoop
from tests.trainer.given_batches import GivenBatches

tokens = keras.Input([None], dtype="int32")
vectors = keras.layers.Embedding(200_000, 100)(tokens)  # nearly all of the model
model = keras.Model(tokens, keras.layers.Dense(5)(vectors))
model.compile(keras.optimizers.SGD(0.1), TokenCrossEntropy())
batch = (np.array([[7, 8, 9]], "int32"), np.array([[1, 2, 3]], "int32"))
for accumulate in (2, 14):
    TrainingLoop(model, GivenBatches([batch]), accumulate=accumulate).run(1)
    # Not `ru_maxrss`, which includes the peak of the parent process.
    print(re.search(r"VmHWM:\s*([0-9]+) kB", open("/proc/self/status").read())[1])
"""


def test_accumulation_of_many_batches_needs_the_memory_of_two():
    """In a new process, whose peak is that of these steps."""
    process = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    few, many = (int(line) * 1024 for line in process.stdout.splitlines())
    assert few > GRADIENTS
    assert many - few < 2 * GRADIENTS
