"""What came out of a finished run, kept in its directory."""

import dataclasses
import json
import pathlib

from keras_transformer.atomic import atomic_file
from keras_transformer.errors import UserError
from keras_transformer.file_errors import named_file_errors
from keras_transformer.inference.evaluation import Evaluation, PoorSentence
from keras_transformer.trainer.training_result import TrainingResult

_PATHS = ("run_directory", "tensorboard", "export")


def store_result(path, result):
    """Writes a `TrainingResult` to a file of JSON, whole or not at all."""
    content = dataclasses.asdict(result)
    content |= {name: content[name] and str(content[name]) for name in _PATHS}
    with named_file_errors(path), atomic_file(path) as file:
        file.write(json.dumps(content, ensure_ascii=False, indent=1) + "\n")


def read_result(path):
    """Returns the `TrainingResult` that `store_result` wrote."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        content |= {name: content[name] and pathlib.Path(content[name]) for name in _PATHS}
        content["samples"] = tuple(map(tuple, content["samples"]))
        content["tests"] = {
            name: Evaluation(
                **{**test, "worst": tuple(PoorSentence(**poor) for poor in test["worst"])}
            )
            for name, test in content["tests"].items()
        }
        return TrainingResult(**content)
    except (ValueError, TypeError, KeyError) as error:
        raise UserError(
            f"{path}: damaged ({error}). Remove it, and the same command writes it again."
        ) from error
