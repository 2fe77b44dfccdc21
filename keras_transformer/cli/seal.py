"""Accepts the files of a run as they are now: writes their sha256 into its manifests.

  keras-transformer seal runs/dates

Commands that read a model compare its files with `model/manifest.json`; `train`, which resumes a
run, compares all files of the run with `manifest.json`. A file that has changed is refused. Use
this command if you have changed a file on purpose, or if the run was made by an earlier version of
keras_transformer, which wrote no manifests. It cannot distinguish your changes from damage: use it
only if you know how the files have changed. The weights have a checksum of their own, so damaged
weights are refused here, too.

Checkpoints, caches and event files have their own checksums, and exports have manifests of their
own.
"""

import argparse
import os

from keras_transformer._utils.console import shown
from keras_transformer.cli.shared import run_with_tensorflow

SUMMARY = "accept the files of a run as they are, after a change on purpose"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_directory", metavar="RUN", help="the directory of a training run")


def run(arguments: argparse.Namespace) -> None:
    run_with_tensorflow(seal, arguments)


def seal(arguments: argparse.Namespace) -> None:
    """Writes the manifests of a run, and prints their names."""
    from keras_transformer._utils.errors import UserError, named_file_errors
    from keras_transformer.export.run_manifest import RUN_MANIFEST
    from keras_transformer.export.trained_model import (
        is_trained_model,
        model_directory,
        seal_trained_model,
    )
    from keras_transformer.trainer.run_directory import RunDirectory

    path = arguments.run_directory
    run = RunDirectory(path)
    has_model = is_trained_model(path)
    if not run.recipe_file.is_file() and not has_model:
        fix = "Give the directory of `keras-transformer train … --run`."
        raise UserError("not a run directory.", where=path, fix=fix)
    sealed = []
    with named_file_errors(path), run:
        if has_model:
            seal_trained_model(model_directory(path))
            sealed.append(model_directory(path) / RUN_MANIFEST)
        if run.recipe_file.is_file():
            run.lock().seal()
            sealed.append(run.path / RUN_MANIFEST)
    for manifest in sealed:
        print(f"Sealed: {shown(os.fspath(manifest))}")
