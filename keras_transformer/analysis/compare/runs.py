"""Runs of a comparison: the directory of a run, its training, and its measurements."""

import dataclasses
import itertools
import json
import os
import pathlib
import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Self

import keras

from keras_transformer._utils.errors import UserError
from keras_transformer._utils.files import atomic_file
from keras_transformer._utils.process import peak_memory
from keras_transformer.data.corpora.conllu import conllu_text
from keras_transformer.export.run_manifest import RunManifest
from keras_transformer.inference import evaluate_translations, load, translate_lines
from keras_transformer.text import TokenizerPair
from keras_transformer.trainer import train
from keras_transformer.trainer.building import TrainingParts
from keras_transformer.trainer.config import Recipe
from keras_transformer.trainer.preparation import Corpora, model_texts
from keras_transformer.trainer.progress import TrainingReport
from keras_transformer.trainer.recipes import load_recipe, recipe_difference
from keras_transformer.trainer.run_directory import CORPORA, METRICS


class ComparedRun:
    """Directory of a model that is trained with a seed, within that of the comparison."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: pathlib.Path = pathlib.Path(path)
        #: The run's recipe with all defaults.
        self.recipe_file: pathlib.Path = self.path / "recipe.yaml"
        #: The training's own directory, a `RunDirectory`.
        self.run_directory: pathlib.Path = self.path / "run"
        #: Speed and memory, written by `SpeedLog`.
        self.speed: pathlib.Path = self.path / "speed.jsonl"
        #: All measurements. If the file exists, the run is not repeated.
        self.measured: pathlib.Path = self.path / "measured.json"

    @classmethod
    def of(cls, output: str | os.PathLike[str], model: str, seed: int) -> Self:
        """Returns the run of a model and a seed in the directory of a comparison."""
        return cls(pathlib.Path(output, model, f"seed_{seed}"))

    def require_recipe(self, recipe: Recipe) -> None:
        """Raises a `UserError` if the run was started with another recipe."""
        if not self.recipe_file.exists():
            return
        if differences := recipe_difference(load_recipe(self.recipe_file), recipe):
            raise self._started_with(f"another recipe: {'; '.join(map(str, differences))}.")

    def require_data(self, fingerprints: Mapping[str, Any]) -> None:
        """Raises a `UserError` if the run has read corpora with other fingerprints."""
        read = read_json(self.run_directory / CORPORA)
        if read is None:  # it has not read any yet
            return
        changed = [name for name in fingerprints if read.get(name) != fingerprints[name]]
        if changed:
            names = f"data.{', data.'.join(changed)}"
            raise self._started_with(f"other contents of the files of {names}.")

    def _started_with(self, difference: str) -> UserError:
        return UserError(
            f"this run was started with {difference}",
            where=self.path,
            fix="Undo the change, choose another directory with --output, or remove this one to "
            "repeat the run.",
        )

    def curve(self) -> list[tuple[int, float]]:
        """Returns (step, loss) for validation, or for training if there is no validation."""
        RunManifest.read(self.run_directory).check(METRICS)
        text = (self.run_directory / METRICS).read_text(encoding="utf-8")
        lines = [json.loads(line) for line in text.splitlines()]
        validation = [line for line in lines if line["split"] == "validation"]
        return [(line["step"], line["loss"]) for line in validation or lines]


def write_json(path: pathlib.Path, content: Any) -> None:
    """Writes a file of the comparison."""
    with atomic_file(path) as file:
        file.write(json.dumps(content, indent=1) + "\n")


def read_json(path: pathlib.Path) -> Any:
    """Returns the content of a file of the comparison, or None if there is no such file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        fix = "Remove it; the same command writes it again."
        raise UserError(f"damaged ({error}).", where=path, fix=fix) from error


class SpeedLog(keras.callbacks.Callback):
    """Callback that appends speed and memory to a file of JSON lines, during and after a training.

    Every process of an interrupted run traces the model first. The first line of each process is
    marked, and its speed is not counted. At the end, test sets have been translated as well, so the
    memory of that line counts only if there is no other line.
    """

    def __init__(self, path: pathlib.Path) -> None:
        super().__init__()
        self._path = path
        self._is_first = True

    def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
        speed = (logs or {})["tokens_per_second"]
        self._write(at="step", tokens_per_second=speed, is_first=self._is_first)
        self._is_first = False

    def on_train_end(self, logs: Mapping[str, float] | None = None) -> None:
        self._write(at="end")

    def _write(self, **line: Any) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**line, "peak_memory_mb": peak_memory()}) + "\n")

    def summary(self) -> dict[str, float | None]:
        """Returns the median of tokens per second and the maximum of memory, None if unknown."""
        text = self._path.read_text(encoding="utf-8") if self._path.exists() else ""
        # The last line may be incomplete, if the process was killed.
        lines = [json.loads(line) for line in text.splitlines() if line.endswith("}")]
        steps = [line for line in lines if line["at"] == "step"]
        counted = [line for line in steps if not line["is_first"]] or steps
        rates = [line["tokens_per_second"] for line in counted]
        memory = [line["peak_memory_mb"] for line in steps or lines]
        return {
            "tokens_per_second": statistics.median(rates) if rates else None,
            "peak_memory_mb": max(memory, default=None),
        }


def measure_run(
    run: ComparedRun, report: TrainingReport | None = None, parts: TrainingParts | None = None
) -> None:
    """Trains a model, or resumes its training, and stores the measurements.

    The memory is that of this process, which should be a new one. `report` and `parts` are those of
    `keras_transformer.trainer.train`.
    """
    recipe = load_recipe(run.recipe_file)
    speed = SpeedLog(run.speed)
    result = train(recipe, run.run_directory, report=report, callbacks=[speed], parts=parts)
    if result is None:  # in workers other than the first
        return
    measured = {
        "parameters": result.parameters,
        "steps": result.steps,
        "validation": result.validation,
        "tests": {
            name: {"sentences": test.sentences, **test.metrics}
            for name, test in result.tests.items()
        },
        **speed.summary(),
        "by_length": _measure_lengths(recipe, run) if recipe.task == "translation" else [],
    }
    write_json(run.measured, measured)


def _measure_lengths(recipe: Recipe, run: ComparedRun) -> list[dict[str, Any]]:
    """Returns quality by source length, of a test set without a distance or of validation."""
    corpora = Corpora.of(recipe.data)
    tests = [corpus for name, corpus in corpora.tests.items() if distance_of_test(name) is None]
    limit = None if tests else recipe.evaluation.sentences
    corpus = tests[0] if tests else corpora.validation
    pairs = [] if corpus is None else list(itertools.islice(model_texts(recipe, corpus), limit))
    if not pairs:
        return []
    sources, references = map(list, zip(*pairs, strict=True))
    search = dataclasses.asdict(recipe.evaluation.search_settings())
    translations = translate_lines(load(run.run_directory).with_search(**search), sources)
    hypotheses = [translation.text for translation in translations]
    tokenizer = TokenizerPair.load(run.run_directory / "tokenizers").source
    lengths = tokenizer.tokenize(list(map(conllu_text, sources))).row_lengths().numpy().tolist()
    bleu_tokens = recipe.evaluation.bleu_tokens
    return quality_by_length(lengths, sources, hypotheses, references, bleu_tokens)


def distance_of_test(name: str) -> int | None:
    """Returns the distance in the name of a test set, or None.

    >>> distance_of_test("distance_64"), distance_of_test("unseen dates")
    (64, None)
    """
    found = re.fullmatch(r"distance_(\d+)", name)
    return int(found[1]) if found else None


def quality_by_length(
    lengths: Sequence[int],
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[str],
    bleu_tokens: str = "13a",
) -> list[dict[str, Any]]:
    """Returns the text metrics for groups of sources with similar lengths.

    The groups have similar numbers of sources. Sources of the same length are in the same group.
    A group has its shortest and longest length (`least`, `most`), the number of `sentences`, and
    all text metrics by name.

    Args:
        lengths: Lengths of the sources in tokens.
        sources: The sources.
        hypotheses: Their translations.
        references: Their reference translations.
        bleu_tokens: Tokenization of BLEU, as in `evaluate_translations`.
    """
    groups = []
    for least, most in length_groups(lengths):
        rows = [number for number, length in enumerate(lengths) if least <= length <= most]
        evaluation = evaluate_translations(
            *([texts[row] for row in rows] for texts in (sources, hypotheses, references)),
            worst=0,
            bleu_tokens=bleu_tokens,
        )
        sizes = {"least": least, "most": most, "sentences": evaluation.sentences}
        groups.append({**sizes, **evaluation.metrics})
    return groups


def length_groups(lengths: Sequence[int], most_groups: int = 6) -> list[tuple[int, int]]:
    """Returns the shortest and the longest length of each group.

    >>> length_groups([3, 3, 3, 4, 5, 6, 7, 8, 9, 12, 40, 41])
    [(3, 3), (4, 5), (6, 7), (8, 9), (12, 40), (41, 41)]
    """
    groups, left = [], sorted(lengths)
    while left:
        wanted = -(-len(left) // (most_groups - len(groups)))
        most = left[wanted - 1]
        groups.append((int(left[0]), int(most)))
        left = [length for length in left if length > most]
    return groups
