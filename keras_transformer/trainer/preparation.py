"""Data of a recipe: opens and checks corpora, learns vocabularies, tokenizes, builds batches."""

import dataclasses
import functools
import itertools
import warnings
from collections.abc import Iterable
from typing import Any, Self, cast

from keras_transformer._utils.errors import UserError
from keras_transformer.data import (
    Batches,
    Corpus,
    CorpusSplits,
    DocumentBatches,
    PackedBatches,
    PairBatches,
    TokenCache,
    TreeBatches,
    choose_buckets,
    count_overlaps,
    measure_headroom,
    open_builtin,
    open_corpus,
    tokenize_corpus,
)
from keras_transformer.data.corpora.conllu import ConlluCorpus
from keras_transformer.data.corpora.corpus_report import evaluation_warnings
from keras_transformer.text import Tokenizer, TokenizerPair, learn_tokenizer
from keras_transformer.trainer.config import DataSection, Recipe, TextSection
from keras_transformer.trainer.progress import TrainingReport
from keras_transformer.trainer.run_directory import RunDirectory
from keras_transformer.trainer.section import in_section
from keras_transformer.trainer.source_model import SourceModel


@dataclasses.dataclass(frozen=True)
class PreparedData:
    """Everything that a training reads; sources are CoNLL-U if the model reads trees."""

    tokenizers: TokenizerPair
    batches: Batches
    validation_batches: Batches | None
    #: The first validation examples, as many as are translated or drawn.
    validation_texts: list[tuple[str, ...]]
    #: Examples of each test corpus by name.
    tests: dict[str, list[tuple[str, ...]]]

    def fingerprints(self) -> dict[str, Any]:
        """Returns the fingerprints of training and validation batches by name."""
        batches = {"training": self.batches, "validation": self.validation_batches}
        return {name: each.fingerprint() for name, each in batches.items() if each is not None}


class Corpora(CorpusSplits[Corpus]):
    """The corpora of a recipe."""

    @classmethod
    def of(cls, data: DataSection) -> Self:
        """Opens the corpora of a recipe's section `data`."""
        if data.builtin:
            splits = open_builtin(data.builtin, data.builtin_pairs)
            return cls(splits.train, splits.validation, dict(splits.tests))
        opened = functools.partial(
            open_corpus,
            **data.reading_options,
            on_bad_line=data.on_bad_line,
            encoding_errors=data.encoding_errors,
        )
        return cls(
            opened(list(data.train)),
            opened(list(data.validation)) if data.validation else None,
            {name: opened(list(files)) for name, files in data.test.items()},
        )

    @property
    def evaluated(self) -> dict[str, Corpus]:
        """The corpora of validation and tests by name."""
        corpora = {} if self.validation is None else {"validation": self.validation}
        return corpora | {f"test.{name}": corpus for name, corpus in self.tests.items()}

    def fingerprints(self) -> dict[str, Any]:
        """Returns the fingerprint of each corpus by name."""
        corpora = {"train": self.train, **self.evaluated}
        return {name: corpus.fingerprint() for name, corpus in corpora.items()}

    def check(self, report: TrainingReport) -> None:
        """Reads all corpora once; reports warnings, and raises errors for unusable lines."""
        checked = {}
        for name, corpus in {"train": self.train, **self.evaluated}.items():
            report.stage(f"Reading {corpus.name}")
            checked[name] = corpus.check()
            if name == "train":
                for text in checked[name].warnings:
                    report.say(text)
        for name, overlap in count_overlaps(self.train, self.evaluated).items():
            for text in evaluation_warnings(name, checked[name], overlap):
                report.say(text)


def prepare_data(recipe: Recipe, run: RunDirectory, report: TrainingReport) -> PreparedData:
    """Prepares all data of a training, or finds it in the run directory."""
    builtin = recipe.data.builtin
    report.stage(f"Generating the corpus {builtin}" if builtin else "Opening the corpora")
    corpora = Corpora.of(recipe.data)
    is_new = not run.has_read(corpora.fingerprints())
    if is_new:
        run.require_writer()
        if builtin is None:
            corpora.check(report)
        if recipe.model.source is not None:
            tokenizers = SourceModel.read(recipe.model.source).tokenizers
        else:
            tokenizers = _learn_tokenizers(recipe.text, corpora.train, report)
        run.store_tokenizers(tokenizers)
        run.store_fingerprints(corpora.fingerprints())
    else:
        tokenizers = TokenizerPair.load(run.tokenizers)

    def make_batches(corpus: Corpus, is_training: bool) -> Batches:
        report.stage(f"Tokenizing {corpus.name}")
        cache = tokenize_corpus(
            corpus,
            _by_column(tokenizers, corpus.columns),
            recipe.data.cache or run.cache,
            keep_text=is_training and bool(recipe.text.sampling),
            progress=report.advance,
        )
        return _make_batches(recipe, corpus, cache, tokenizers, is_training)

    batches = make_batches(corpora.train, is_training=True)
    if is_new:
        _report_lengths(recipe, batches, report)
    validation_batches, validation_texts = None, []
    if corpora.validation is not None:
        validation_batches = make_batches(corpora.validation, is_training=False)
        count = max(recipe.evaluation.sentences, recipe.tensorboard.attention)
        validation_texts = list(itertools.islice(model_texts(recipe, corpora.validation), count))
    tests = {name: list(model_texts(recipe, corpus)) for name, corpus in corpora.tests.items()}
    return PreparedData(tokenizers, batches, validation_batches, validation_texts, tests)


def model_texts(recipe: Recipe, corpus: Corpus) -> Iterable[tuple[str, ...]]:
    """Returns the examples of a corpus as strings that the recipe's model takes."""
    # A recipe whose model reads trees has no other corpora.
    return cast(ConlluCorpus, corpus).parsed_examples() if recipe.model.reads_trees else corpus


def _learn_tokenizers(
    section: TextSection, corpus: Corpus, report: TrainingReport
) -> TokenizerPair:
    size = section.vocabulary_size or section.default_size

    def learn(title: str, lines: Iterable[str]) -> Tokenizer:
        report.stage(f"Learning a vocabulary of {size:,} {title}")
        # A warning about too little text is shown to the user.
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            tokenizer = learn_tokenizer(
                section.tokenizer,
                lines,
                size,
                maximum_passages=section.maximum_passages,
                progress=lambda stage, done, total: report.advance(done, total),
                **section.options,
            )
        for warning in caught:
            if issubclass(warning.category, UserWarning):
                report.say(str(warning.message))
        return tokenizer

    if section.shared:
        return TokenizerPair(learn("ids", (text for example in corpus for text in example)))
    return TokenizerPair(
        learn("source ids", (source for source, _ in corpus)),
        learn("target ids", (target for _, target in corpus)),
    )


def _by_column(tokenizers: TokenizerPair, columns: Iterable[str]) -> dict[str, Tokenizer]:
    known = {"source": tokenizers.source, "target": tokenizers.target, "text": tokenizers.target}
    return {column: known[column] for column in columns}


def _make_batches(
    recipe: Recipe, corpus: Corpus, cache: TokenCache, tokenizers: TokenizerPair, is_training: bool
) -> Batches:
    section, text = recipe.batches, recipe.text
    if section.packed:
        options = {"row_length": section.max_length, "tokens": section.tokens}
        return PackedBatches(cache, **options, seed=recipe.seed)
    samplers = {}
    if is_training and text.sampling:
        samplers = {
            column: functools.partial(tokenizer.sample, alpha=text.sampling)
            for column, tokenizer in _by_column(tokenizers, cache.columns).items()
            if column != "target" or text.sampled == "both"
        }
    try:
        table = choose_buckets(
            cache,
            tokens=section.tokens,
            max_length=section.max_length,
            # Every validation example is evaluated: long ones are cut.
            too_long=section.too_long if is_training else "truncate",
            max_buckets=section.max_buckets,
            headroom=measure_headroom(cache, samplers) if samplers else 1.0,
        )
    except UserError as error:
        raise in_section(error, "batches") from error
    options: dict[str, Any] = {"seed": recipe.seed, "samplers": samplers}
    if recipe.model.reads_trees:
        parsed = cast(ConlluCorpus, corpus)
        return TreeBatches(cache, table, parsed, tokenizers.source, **options)
    kind = PairBatches if recipe.task == "translation" else DocumentBatches
    return kind(cache, table, **options)


def _report_lengths(recipe: Recipe, batches: Batches, report: TrainingReport) -> None:
    length, counts = recipe.batches.max_length, batches.report()
    for count, total, action in (
        (counts.skipped, counts.skipped + counts.examples, "left out"),
        (counts.truncated, counts.examples, "cut"),
    ):
        if count:
            report.say(
                f"{count:,} of {total:,} training examples are longer than "
                f"batches.max_length={length} and are {action}."
            )
