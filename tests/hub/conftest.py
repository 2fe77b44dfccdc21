"""A small translation model as OPUS-MT stores it: random weights, and tokenizers with 1,003 ids."""

import json
import pathlib
import shutil
import tarfile

import numpy as np
import pytest

from keras_transformer.hub import Checkpoint, import_model
from tests.hub.small_checkpoint import write_safetensors

FIXTURES = pathlib.Path(__file__).parents[1] / "fixtures"


def with_vocabulary(name, directory, tokenizer):
    """Adds a checkpoint to the tokenizer's files in a directory, with its vocabulary."""
    checkpoint = Checkpoint.open(FIXTURES / "checkpoints" / name)
    ids = json.loads((tokenizer / "config.json").read_text())
    size, generator = ids["vocab_size"], np.random.default_rng(1)
    tensors = {}
    for key in checkpoint.tensors:
        values = checkpoint.read(key)
        shape = tuple(size if n == checkpoint.config["vocab_size"] else n for n in values.shape)
        if shape != values.shape:
            values = 0.3 * generator.normal(size=shape)
        tensors[key] = values.astype(np.float16)
    shutil.copytree(tokenizer, directory, dirs_exist_ok=True)
    config = {**checkpoint.config, **ids, "decoder_vocab_size": size}
    generation = {
        "num_beams": 2,
        "max_length": 12,
        "pad_token_id": ids["pad_token_id"],
        "eos_token_id": ids["eos_token_id"],
        "decoder_start_token_id": ids["decoder_start_token_id"],
        "bad_words_ids": [[ids["pad_token_id"]]],
    }
    config = {key: value for key, value in config.items() if key != "bad_words_ids"}
    (directory / "config.json").write_text(json.dumps(config))
    (directory / "generation_config.json").write_text(json.dumps(generation))
    write_safetensors(directory / "model.safetensors", tensors)
    return directory


@pytest.fixture(scope="session")
def opus(tmp_path_factory):
    """Returns the directory of a Marian checkpoint with its tokenizers."""
    unpacked = tmp_path_factory.mktemp("tokenizers")
    with tarfile.open(FIXTURES / "tokenizers" / "translation.tar.xz") as tar:
        tar.extractall(unpacked, filter="data")
    directory = tmp_path_factory.mktemp("checkpoint") / "opus"
    return with_vocabulary("marian", directory, unpacked / "marian")


@pytest.fixture(scope="session")
def imported(opus, tmp_path_factory):
    """Returns the run directory of the imported checkpoint."""
    return import_model(opus, tmp_path_factory.mktemp("runs") / "opus")


@pytest.fixture
def copy_of(opus, tmp_path):
    """Returns a function that copies the checkpoint and changes the JSON of a file."""

    def copy(file="config.json", remove=(), **changes):
        directory = tmp_path / "copy"
        shutil.copytree(opus, directory, dirs_exist_ok=True)
        content = {**json.loads((directory / file).read_text()), **changes}
        content = {key: value for key, value in content.items() if key not in remove}
        (directory / file).write_text(json.dumps(content))
        return directory

    return copy
