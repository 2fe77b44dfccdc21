"""Pretrained models as trained models of this package, in memory or as a run directory."""

import json
import os
import pathlib
from typing import Any

from keras_transformer import __version__
from keras_transformer._utils.errors import UserError
from keras_transformer._utils.files import atomic_directory
from keras_transformer._utils.types import Path
from keras_transformer.export.damage import sha256_of
from keras_transformer.export.run_manifest import RunManifest
from keras_transformer.export.trained_model import TrainedModel
from keras_transformer.export.versions import require_loadable
from keras_transformer.hub.checkpoint import Checkpoint
from keras_transformer.hub.family import load_model
from keras_transformer.hub.generation import search_of
from keras_transformer.hub.tokenizers import load_tokenizer
from keras_transformer.inference import TextModel
from keras_transformer.text import TokenizerPair

#: File inside a run directory that says where an imported model comes from.
IMPORT = "import.json"


def load_pretrained(
    directory: Path,
    *,
    source_language: str | None = None,
    target_language: str | None = None,
    dtype: Any = None,
) -> TextModel:
    """Returns a pretrained model from a Hugging Face directory, with methods that take texts.

    Only `safetensors` and JSON are read, and nothing is downloaded. If this package cannot
    represent a model exactly, an error names the key or tensor.

    Args:
        directory: Directory with `config.json`, `model.safetensors` and the tokenizer's files; or a
            GGUF file.
        source_language: Code of the source's language, such as "eng_Latn", for a multilingual
            model. Default: that of the files.
        target_language: Code of the target's language. Default: that of the files.
        dtype: Dtype policy of the model, such as "bfloat16". Default: Keras' global one.

    Example:

    ```python
    model = keras_transformer.load_pretrained("opus-mt-en-de")
    model.translate("Hello, world!")
    ```
    """
    languages = (source_language, target_language)
    trained = read_pretrained(Checkpoint.open(directory), *languages, dtype=dtype)
    return TextModel.of(trained, name=os.fspath(directory))


def import_model(
    directory: Path,
    to: Path,
    *,
    source_language: str | None = None,
    target_language: str | None = None,
) -> pathlib.Path:
    """Writes a pretrained model as a run directory, and returns its path.

    All commands, such as `translate`, `evaluate` and `export`, accept the run directory as they
    accept one from training. It is created only when it is complete.

    Args:
        directory: Directory of the checkpoint, or a GGUF file.
        to: Run directory, which must not exist.
        source_language: Code of the source's language, such as "eng_Latn", for a multilingual
            model. Default: that of the files.
        target_language: Code of the target's language. Default: that of the files.

    Example:

    ```python
    keras_transformer.hub.import_model("opus-mt-en-de", "runs/opus-mt-en-de")
    keras_transformer.load("runs/opus-mt-en-de").translate("Hello, world!")
    ```
    """
    run = require_loadable(pathlib.Path(to))
    if run.is_symlink() or (run.exists() and (not run.is_dir() or any(run.iterdir()))):
        raise UserError("exists already.", where=run, fix="Choose another directory with --to.")
    checkpoint = Checkpoint.open(directory)
    trained = read_pretrained(checkpoint, source_language, target_language)
    with atomic_directory(run) as temporary:
        trained.save(temporary)
        manifest = RunManifest.new(temporary)
        content = json.dumps(_origin(checkpoint), indent=1, ensure_ascii=False)
        manifest.write(IMPORT, f"{content}\n".encode())
    return run


def read_pretrained(
    checkpoint: Checkpoint,
    source_language: str | None = None,
    target_language: str | None = None,
    dtype: Any = None,
) -> TrainedModel:
    """Returns a pretrained model as a `TrainedModel`, which can be saved, trained and exported.

    Args:
        checkpoint: The `Checkpoint`.
        source_language: Code of the source's language, such as "eng_Latn", for a multilingual
            model. Default: that of the files.
        target_language: Code of the target's language. Default: that of the files.
        dtype: Dtype policy of the model. Default: Keras' global one.
    """
    config = checkpoint.config
    with checkpoint.tokenizer_directory() as path:
        pair = load_tokenizer(path, config, source_language, target_language)
    tokenizers = TokenizerPair.of(pair)
    model = load_model(checkpoint, tokenizers.special_ids, dtype)
    recipe = None
    if hasattr(model, "step"):
        search = search_of(checkpoint, tokenizers.special_ids)
        prefix = tokenizers.target.template.prefix
        if hasattr(model, "encode") and prefix:  # such as the code of another language
            search["forced_first_id"] = prefix[0]
        recipe = {"evaluation": {"search": search}}
    labels = config.get("id2label") if getattr(model.config, "num_classes", None) else None
    return TrainedModel(model, tokenizers, recipe=recipe, labels=_labels(labels))


def _labels(names: Any) -> tuple[str, ...]:
    """Returns the names of classes in `id2label`, in the order of their numbers."""
    if not isinstance(names, dict):
        return ()
    return tuple(str(names.get(str(number), number)) for number in range(len(names)))


def _origin(checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "imported_with": {"keras_transformer": __version__},
        "directory": checkpoint.directory.absolute().name,
        "model_type": checkpoint.config.get("model_type"),
        "sha256": {
            name: sha256_of(checkpoint.directory, name)[0] for name in sorted(checkpoint.files)
        },
    }
