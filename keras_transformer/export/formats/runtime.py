"""Base of the export formats for runtimes other than TensorFlow."""

import abc
import dataclasses
import importlib.metadata
import importlib.util
import json
import pathlib
import shutil
import tempfile
from collections.abc import Sequence
from typing import Any, ClassVar

from keras_transformer._utils.checks import require_choice
from keras_transformer._utils.errors import UserError
from keras_transformer._utils.sandbox import run_sandboxed
from keras_transformer.decoding import BeamSearch, GreedySearch, Search, SearchSettings
from keras_transformer.decoding.constraints import ForbiddenTokens, NoRepeatNgram
from keras_transformer.export import runners
from keras_transformer.export.damage import COPY_AGAIN, refused
from keras_transformer.export.formats.base import ExportFormat, described_export, described_weights
from keras_transformer.export.formats.saved_model import example_requests, golden_pairs
from keras_transformer.export.golden import GoldenRow, compare_answer
from keras_transformer.export.manifest import read_manifest, write_manifest
from keras_transformer.export.modules import (
    GenerationModule,
    TextLimits,
    make_text_module,
    reads_trees,
)
from keras_transformer.export.private_copy import PrivateCopy
from keras_transformer.export.trained_model import TrainedModel
from keras_transformer.export.verification import Check, Verification, described_difference
from keras_transformer.export.versions import RUNNER

_RUNNERS = pathlib.Path(runners.__file__).parent
_TOKENIZERS = ("sentencepiece", "bytes")

#: Largest relative difference of numbers in a replay, by the dtype of the weights. CPUs differ in
#: how they round integers.
TOLERANCES: dict[str, float] = {"float32": 1e-4, "float16": 1e-2, "int8": 0.1}


class RuntimeFormat(ExportFormat):
    """Base of the export formats for runtimes other than TensorFlow.

    An export has the files of its runtime, the tokenizers, and the program `run.py`, which runs it
    with that runtime alone. The program answers the golden pairs in a sandboxed process, both when
    the export is written and in `verify`.

    A subclass implements `convert` and `check`, and has a program `runners/run_<format>.py`.

    Args:
        trained: a `TrainedModel`.
        search: a deterministic `Search` or `SearchSettings`. Default: the search of the recipe.
        limits: a `TextLimits`. Default: what the model is made for.
        weights: dtype of the stored weights, one of `weight_dtypes`. Default "float32".
    """

    #: Name of the runtime in messages.
    runtime: ClassVar[str]
    #: Python packages that the export needs, by the names under which they are installed.
    packages: ClassVar[tuple[str, ...]]
    #: Modules that must be importable to write and to verify an export.
    modules: ClassVar[tuple[str, ...]]
    #: Signatures with golden pairs, `serving_default` first.
    golden_signatures: ClassVar[tuple[str, ...]] = ("serving_default", "score")
    #: Dtypes in which weights can be stored.
    weight_dtypes: ClassVar[tuple[str, ...]] = ("float32", "float16", "int8")

    def __init__(
        self,
        trained: TrainedModel,
        *,
        search: Search | SearchSettings | None = None,
        limits: TextLimits | None = None,
        weights: str = "float32",
    ) -> None:
        super().__init__(trained)
        self.weights: str = require_choice("weights", weights, self.weight_dtypes)
        model, kind = trained.model, type(trained.model).__name__
        if reads_trees(model.config):
            raise self.cannot("dependency trees as inputs (tree_positions)")
        module = make_text_module(trained, search, limits)
        if not isinstance(module, GenerationModule):
            raise self.cannot(f"a {kind}, which writes no text")
        self.module: Any = module
        #: The model in memory; of one that was trained with packed documents, the unpacked copy.
        self.model: Any = module.model
        self.search: Search = module.searches["serving_default"]
        for side, tokenizer in self.tokenizers.items():
            if tokenizer.registered_name not in _TOKENIZERS:
                what = f"the {tokenizer.registered_name!r} tokenizer of the {side}"
                raise self.cannot(what, "Train with a 'sentencepiece' tokenizer, or with 'bytes'.")
        self.check()
        self.require_modules()

    def check(self) -> None:
        """Raises a `UserError` from `cannot` if the runtime cannot express model or search."""

    @property
    def tokenizers(self) -> dict[str, Any]:
        """The tokenizers by side, "source" and "target"."""
        return {"source": self.module.source_tokenizer, "target": self.module.target_tokenizer}

    @abc.abstractmethod
    def convert(self, directory: pathlib.Path, weights: str) -> None:
        """Writes the files of the runtime.

        Args:
            directory: an existing directory.
            weights: dtype in which the weights are stored.
        """

    def golden_search(self) -> Search:
        """Returns the search whose answers the export must give; by default greedy search.

        Searches with several hypotheses differ between runtimes.
        """
        search = self.search
        return GreedySearch(
            length_penalty=search.length_penalty,
            lengths=search.lengths,
            constraints=search.constraints,
        )

    def cannot(self, what: str, fix: str = "Export as a SavedModel.") -> UserError:
        """Returns the `UserError` for something that the runtime cannot express."""
        return UserError(f"{self.runtime} cannot express {what}.", fix=fix)

    def write(self, directory: pathlib.Path, name: str, version: int) -> None:
        golden = self._golden_pairs()
        content = {
            **described_export(self.trained, self.module, name, version),
            "export_format": self.registered_name,
            "weights": described_weights(self.trained.model, "float32", None),
            "golden": golden,
        }
        content["created_with"] |= {
            name: importlib.metadata.version(name) for name in self.packages
        }
        if self.weights == "float32":
            self._write_checked(directory, content)
            return
        # The conversion is right if the answers with exact weights are.
        with tempfile.TemporaryDirectory() as exact:
            self._write_checked(pathlib.Path(exact), content)
        self.write_files(directory, self.weights)
        content["weights"] = described_weights(self.trained.model, self.weights, None)
        write_manifest(directory, content)
        rows = self.replay(directory)
        for row in rows:
            if "error" in row.got:
                raise _other_answers(self.runtime, row)
        content["weights"]["difference"] = _difference(rows)
        # From now on, the export must answer as it does here.
        pairs = zip(golden, rows, strict=True)
        content["golden"] = [{**pair, "outputs": row.got} for pair, row in pairs]
        write_manifest(directory, content)

    def _write_checked(self, directory: pathlib.Path, content: dict[str, Any]) -> None:
        """Writes an export with exact weights, whose answers must be those of the model."""
        self.write_files(directory)
        write_manifest(directory, content)
        for row in self.replay(directory):
            if not row.ok:
                raise _other_answers(self.runtime, row)

    def write_files(self, directory: pathlib.Path, weights: str = "float32") -> None:
        """Writes all files of the export but the manifest.

        Args:
            directory: an existing directory.
            weights: dtype in which the weights are stored. Default "float32".
        """
        self.convert(directory, weights)
        settings = self.settings()
        for side, tokenizer in self.tokenizers.items():
            name = None
            if tokenizer.file_name is not None:
                is_shared = self.trained.tokenizers.is_shared
                name = f"{'shared' if is_shared else side}.{tokenizer.file_name.rpartition('.')[2]}"
                (directory / name).write_bytes(tokenizer.to_bytes())
            settings[side] = {"kind": tokenizer.registered_name, "file": name}
        text = json.dumps(settings, indent=2, allow_nan=False)
        (directory / "settings.json").write_text(f"{text}\n", encoding="utf-8")
        shutil.copyfile(_RUNNERS / "texts.py", directory / "texts.py")
        shutil.copyfile(self._runner(), directory / RUNNER)

    def settings(self) -> dict[str, Any]:
        """Returns what `run.py` needs to know, for JSON."""
        module, search = self.module, self.search
        values = {"no_repeat_ngram": 0, "forbidden_ids": []}
        for constraint in search.constraints:
            if isinstance(constraint, NoRepeatNgram):
                values["no_repeat_ngram"] = constraint.size
            elif isinstance(constraint, ForbiddenTokens):
                values["forbidden_ids"] = sorted(constraint.ids)
        return {
            "task": "translate" if module.input_name == "source" else "continue",
            "special_ids": dataclasses.asdict(module.special_ids),
            "tokens": module.limits.tokens,
            "scored_tokens": module.scored_tokens,
            "position_limit": self.trained.model.position_limit,
            "lengths": dataclasses.asdict(search.lengths),
            "search": {
                "beams": search.beams if isinstance(search, BeamSearch) else 1,
                "length_penalty": search.length_penalty,
                **values,
            },
        }

    def _golden_pairs(self) -> list[dict[str, Any]]:
        """Returns the golden pairs: the answers of the model in memory."""
        module = make_text_module(self.trained, self.golden_search(), self.module.limits)
        requests = example_requests(module, self.trained.examples, self.golden_signatures)
        golden = golden_pairs(module, requests)
        if module.searches["serving_default"] != self.search:
            golden[0]["inputs"]["beams"] = 1
        return golden

    @classmethod
    def _runner(cls) -> pathlib.Path:
        return _RUNNERS / f"run_{cls.registered_name}.py"

    @classmethod
    def require_modules(cls) -> None:
        """Raises a `UserError` if the runtime is not installed."""
        missing = [name for name in cls.modules if importlib.util.find_spec(name) is None]
        if missing:
            extra = f"pip install 'keras-transformer-tf[{cls.registered_name}]'"
            problem = f"{cls.runtime} needs the Python module {missing[0]}, which is not installed."
            raise UserError(problem, fix=f"Install it: {extra}")

    @classmethod
    def replay(cls, directory: str | pathlib.Path) -> list[GoldenRow]:
        """Returns the result of every golden pair, run in a sandboxed process.

        Args:
            directory: directory of the export.
        """
        cls.require_modules()
        directory = pathlib.Path(directory).absolute()
        manifest = read_manifest(directory)
        tolerance = TOLERANCES[manifest["weights"]["dtype"]]
        specs = [importlib.util.find_spec(name) for name in ("numpy", *cls.modules)]
        origins = [spec.origin for spec in specs if spec is not None and spec.origin is not None]
        done = run_sandboxed(
            cls._runner(),  # never the program in the export, which anybody may have written
            [str(directory), "--golden"],
            readable=[_RUNNERS, directory],
            library_directories=sorted({str(pathlib.Path(each).parents[1]) for each in origins}),
        )
        golden = manifest["golden"]
        try:
            answers = [json.loads(line) for line in done.stdout.splitlines()]
        except ValueError:
            answers = []
        if done.returncode or len(answers) != len(golden):
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
            reason = lines[-1] if lines else f"its process ended with {done.returncode}"
            raise refused(directory, f"{cls.runtime} cannot run it: {reason}.", COPY_AGAIN)
        return [
            compare_answer(pair, answer, tolerance)
            for pair, answer in zip(golden, answers, strict=True)
        ]

    @classmethod
    def verify(cls, copy: PrivateCopy) -> Verification:
        original, directory, manifest, total_bytes = copy
        rows = cls.replay(directory)
        for number, row in enumerate(rows, 1):
            if not row.ok:
                which = f"golden pair {number} of {len(rows)}, signature {row.signature}"
                problem = f"{which}, {described_difference(row)}"
                raise refused(directory, problem, "Export the model again.")
        versions = manifest["created_with"].items()
        written = ", ".join(f"{each} {version}" for each, version in versions if version)
        weights = manifest["weights"]
        installed = ", ".join(f"{each} {importlib.metadata.version(each)}" for each in cls.packages)
        details = {
            "version": f"{original.name} in {original.absolute().parent}",
            "manifest": f"{manifest['kind']} {manifest['name']!r}, format {manifest['format']}",
            "files": f"{len(manifest['files'])} files, {total_bytes:,} bytes: sha256 unchanged",
            "versions": f"made with {written}",
            "weights": f"{weights['dtype']}, {weights['parameters']:,} parameters",
            "golden pairs": f"{len(rows)} replayed with {installed}: equal",
        }
        checks = tuple(Check(name, True, detail) for name, detail in details.items())
        return Verification(original, checks, manifest, total_bytes, tuple(rows))


def _other_answers(runtime: str, row: GoldenRow) -> RuntimeError:
    return RuntimeError(
        f"The model in {runtime} gives different answers from the model in memory: "
        f"{row.difference}. Nothing was written."
    )


def _difference(rows: Sequence[GoldenRow]) -> dict[str, Any]:
    """Returns how answers with stored weights differ from those of the model in memory."""
    difference: dict[str, Any] = {}
    for row in rows:
        before, after = row.expected, row.got
        if "text" in before:
            pairs = zip(before["text"], after["text"], strict=True)
            difference["texts"] = len(before["text"])
            difference["texts_changed"] = sum(old != new for old, new in pairs)
        if "log_probability" in before:
            pairs = zip(before["log_probability"], after["log_probability"], strict=True)
            largest = max((abs(old - new) for old, new in pairs), default=0.0)
            difference["largest_difference_of_log_probabilities"] = largest
    return difference
