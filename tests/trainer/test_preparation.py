"""Data of a recipe: corpora, vocabularies, batches, and what is reported about them."""

import pathlib

import numpy as np
import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.data import DocumentBatches, PackedBatches, PairBatches
from keras_transformer.trainer.preparation import prepare_data
from keras_transformer.trainer.progress import TrainingReport
from keras_transformer.trainer.recipes import load_recipe
from keras_transformer.trainer.run_directory import RunDirectory
from tests.phrases import make_pairs

RECIPE = """
name: phrases
task: translation
data: {train: train.tsv, validation: validation.tsv, test: {last: [validation.tsv]}}
text: {tokenizer: bytes}
model: {size: tiny, hidden_dim: 16}
batches: {tokens: 600, max_length: 64, max_buckets: 3}
training: {steps: 20}
evaluation: {sentences: 3}
"""


class KeepingReport(TrainingReport):
    """Records stages and messages."""

    def __init__(self):
        self.stages, self.said = [], []

    def stage(self, text):
        self.stages.append(text)

    def say(self, text):
        self.said.append(text)


@pytest.fixture
def prepare(tmp_path, monkeypatch):
    """Prepares the recipe with some keys replaced; returns data and report."""
    monkeypatch.chdir(tmp_path)
    lines = ["\t".join(pair) + "\n" for pair in make_pairs()[::5]]
    (tmp_path / "train.tsv").write_text("".join(lines[8:]), encoding="utf-8")
    (tmp_path / "validation.tsv").write_text("".join(lines[:8]), encoding="utf-8")
    (tmp_path / "train.txt").write_text("a text\n\nanother text\n" * 20, encoding="utf-8")
    (tmp_path / "recipe.yaml").write_text(RECIPE, encoding="utf-8")

    def prepared(*overrides, is_writer=True):
        recipe = load_recipe("recipe.yaml", overrides)
        run = RunDirectory("run", is_writer)
        run.path.mkdir(exist_ok=True)
        report = KeepingReport()
        return prepare_data(recipe, run, report), report

    return prepared


def test_prepared_data_has_everything_that_a_training_reads(prepare):
    data, report = prepare()
    assert isinstance(data.batches, PairBatches)
    assert data.batches.report().examples == 42
    assert data.validation_batches.report().examples == 8
    assert data.tokenizers.is_shared
    assert data.validation_texts == make_pairs()[:15:5]
    assert data.tests == {"last": make_pairs()[:40:5]}
    assert [stage.partition(" ")[0] for stage in report.stages] == [
        "Opening", "Reading", "Reading", "Reading", "Learning", "Tokenizing", "Tokenizing"
    ]  # fmt: skip


def test_prepared_data_is_found_again(prepare):
    first, _ = prepare()
    again, report = prepare()
    assert not [stage for stage in report.stages if stage.startswith(("Reading", "Learning"))]
    assert report.said == []
    assert again.batches.fingerprint() == first.batches.fingerprint()


@pytest.mark.parametrize("name", ["train", "validation"])
def test_corpus_changed_before_the_first_checkpoint_is_read_again(prepare, name):
    first, _ = prepare("text.tokenizer=wordpiece", "text.vocabulary_size=120")
    path = pathlib.Path(f"{name}.tsv")
    path.write_text("один\tдва\n" * 3 + path.read_text(encoding="utf-8"), encoding="utf-8")
    again, report = prepare("text.tokenizer=wordpiece", "text.vocabulary_size=120")
    assert f"Reading {name}.tsv" in report.stages
    is_known = "д" in "".join(again.tokenizers.source.vocabulary())
    assert is_known == (name == "train")
    assert again.batches.fingerprint() != first.batches.fingerprint() or name == "validation"
    _, report = prepare("text.tokenizer=wordpiece", "text.vocabulary_size=120")
    assert not [stage for stage in report.stages if stage.startswith(("Reading", "Learning"))]


def test_vocabulary_is_not_learned_again_after_a_checkpoint(prepare):
    """Resuming then reports that the checkpoint does not fit the data."""
    prepare()
    pathlib.Path("run/checkpoints/step_00000004").mkdir(parents=True)
    pathlib.Path("train.tsv").write_text("one\tother\n" * 9, encoding="utf-8")
    _, report = prepare()
    assert not [stage for stage in report.stages if stage.startswith(("Reading", "Learning"))]


def test_worker_that_does_not_see_the_files_of_the_first_is_refused(prepare):
    with pytest.raises(UserError, match=r"run: .* first worker"):
        prepare(is_writer=False)
    data, _ = prepare()
    others, _ = prepare(is_writer=False)
    assert others.batches.fingerprint() == data.batches.fingerprint()


def test_vocabularies_of_source_and_target_are_learned_separately(prepare):
    data, report = prepare(
        "text.tokenizer=sentencepiece", "text.vocabulary_size=300", "text.shared=false"
    )
    assert not data.tokenizers.is_shared
    stages = [stage for stage in report.stages if "Learning" in stage]
    assert stages == [
        "Learning a vocabulary of 300 source ids",
        "Learning a vocabulary of 300 target ids",
    ]


@pytest.mark.parametrize(
    ("settings", "sampled"),
    [
        (["sampling=0"], []),
        (["sampling=0.5"], ["source"]),
        (["sampling=0.5", "sampled=both"], ["source", "target"]),
    ],
)
def test_sampled_sides_are_segmented_at_random(prepare, settings, sampled):
    text = ["text.tokenizer=sentencepiece", "text.vocabulary_size=300", "text.options={model: bpe}"]
    data, _ = prepare(*text, *(f"text.{setting}" for setting in settings))
    cut, uncut = _tokens_of_an_epoch(data.batches), _tokens_of_the_corpus(data.batches.cache)
    assert [side for side in cut if cut[side] > uncut[side]] == sampled
    # Validation does not depend on chance.
    measured = data.validation_batches
    assert _tokens_of_an_epoch(measured) == _tokens_of_the_corpus(measured.cache)


def _tokens_of_an_epoch(batches):
    """Returns the number of tokens of each side in an epoch, end included."""
    epoch = [batches.batch(0, number) for number in range(len(batches))]
    return {
        "source": sum(np.count_nonzero(inputs["source"]) for inputs, *_ in epoch),
        "target": sum(np.count_nonzero(labels) for _, labels, *_ in epoch),
    }


def _tokens_of_the_corpus(cache):
    lengths = sum(lengths.sum(axis=0) for lengths in cache.iterate_lengths())
    return dict(zip(cache.columns, lengths + len(cache), strict=True))


def test_long_training_examples_are_reported_and_validation_is_complete(prepare):
    data, report = prepare("batches.max_length=24")
    kept = data.batches.report().examples
    assert kept < 42
    (said,) = report.said
    assert f"{42 - kept} of 42 training examples" in said
    assert "batches.max_length=24" in said
    assert data.validation_batches.report().examples == 8


def test_batches_that_are_too_small_are_reported_with_keys_of_the_recipe(prepare):
    with pytest.raises(UserError, match=r"`batches\.tokens`"):
        prepare("batches.tokens=10")


@pytest.mark.parametrize(("packed", "kind"), [("true", PackedBatches), ("false", DocumentBatches)])
def test_language_model_has_batches_of_documents(prepare, packed, kind):
    data, _ = prepare(
        "task=language_model",
        "data={train: train.txt, format: blank-line-documents}",
        f"batches.packed={packed}",
        "evaluation={}",
    )
    assert type(data.batches) is kind
    assert data.validation_batches is None
    assert data.validation_texts == []
    assert data.tests == {}
