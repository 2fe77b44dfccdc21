"""From a recipe to batches: corpora opened and checked, vocabulary learned, texts tokenized."""

import dataclasses
import functools
import itertools
import shutil
import warnings

from keras_transformer._utils.errors import UserError
from keras_transformer.analysis.data_report.open_corpus import open_corpus
from keras_transformer.analysis.data_report.report import validation_warnings
from keras_transformer.data import (
    Batches,
    DocumentBatches,
    PackedBatches,
    PairBatches,
    TreeBatches,
    choose_buckets,
    count_overlap,
    make_dates,
    make_recall,
    room_for_samples,
    tokenize_corpus,
)
from keras_transformer.losses.cross_entropy import TokenCrossEntropy
from keras_transformer.models import (
    ConvolutionalSeq2Seq,
    LanguageModel,
    RecurrentSeq2Seq,
    Transformer,
)
from keras_transformer.text import TokenizerPair, learn_tokenizer
from keras_transformer.trainer.attention_maps import AttentionMaps
from keras_transformer.trainer.embedding_projector import EmbeddingProjector
from keras_transformer.trainer.optimizers import make_optimizer
from keras_transformer.trainer.tensorboard import (
    HyperParameters,
    ProfileSteps,
    SampleTranslations,
    TrainingScalars,
    WeightHistograms,
)
from keras_transformer.trainer.training_loop import TrainingLoop
from keras_transformer.trainer.translation_quality import TranslationQuality

#: The models that are trained by recipes, by the classes of their configs.
MODELS = {
    model.config_class: model
    for model in (Transformer, RecurrentSeq2Seq, ConvolutionalSeq2Seq, LanguageModel)
}


def make_model(recipe, tokenizers):
    """Makes the untrained model of a recipe, for a vocabulary that was learned."""
    config = recipe.model.make_config(
        recipe.task,
        tokenizers.source.vocabulary_size,
        None if tokenizers.is_shared else tokenizers.target.vocabulary_size,
        is_packed=recipe.batches.packed,
    )
    return MODELS[type(config)](config, dtype=recipe.training.precision)


def make_loop(recipe, model, batches, updates, accumulate):
    """Compiles a recipe's model and returns the `TrainingLoop` that trains it.

    Args:
        recipe: the `Recipe`.
        model: what `make_model` gave.
        batches: the training `Batches`.
        updates: how many there will be, for schedules that end.
        accumulate: batches in an update.
    """
    section = recipe.training
    optimizer = make_optimizer(section, model.config.hidden_dim, updates)
    model.compile(optimizer, TokenCrossEntropy(section.label_smoothing), jit_compile=False)
    return TrainingLoop(
        model,
        batches,
        accumulate=accumulate,
        jit_compile=section.xla,
        consistency=section.consistency,
    )


def make_quality(recipe, data, model):
    """Makes what judges translations in a training, or None if there is nothing to translate.

    Args:
        recipe: the `Recipe`.
        data: its `PreparedData`.
        model: what `make_model` gave.
    """
    if recipe.task != "translation":
        return None
    count = recipe.evaluation.sentences
    pairs = data.validation_texts[:count] or next(iter(data.tests.values()), [])
    if not pairs:
        return None
    sources, references = map(list, zip(*pairs, strict=True))
    quality = TranslationQuality(
        data.tokenizers,
        sources,
        references,
        recipe.evaluation.search_settings(),
        recipe.evaluation.bleu_tokens,
    )
    quality.set_model(model)
    return quality


def make_callbacks(recipe, run, data, quality):
    """Yields what writes TensorBoard's logs.

    Args:
        recipe: the `Recipe`.
        run: its `RunDirectory`.
        data: its `PreparedData`.
        quality: what `make_quality` gave.
    """
    section, directory = recipe.tensorboard, run.tensorboard
    texts = data.validation_texts
    values = {
        name: value
        for name, value in recipe.to_dictionary().items()
        if name in ("model", "text", "batches", "training", "seed")
    }
    yield HyperParameters(directory, values, name=run.path.name)
    is_translated = quality is not None and texts and recipe.evaluation.sentences
    if is_translated:
        yield quality
    # It is told about the updates that are due, and of no others.
    yield TrainingScalars(directory, every=None)
    if is_translated and section.samples:
        yield SampleTranslations(directory, quality, rows=section.samples)
    if section.attention and texts:
        columns = list(zip(*texts[: section.attention], strict=True))
        yield AttentionMaps(directory, data.tokenizers, *map(list, columns))
    if section.projector:
        yield EmbeddingProjector(directory, data.tokenizers)
    if section.histograms:
        yield WeightHistograms(directory)
    if section.profile:
        yield ProfileSteps(directory, *section.profile)


@dataclasses.dataclass(frozen=True)
class PreparedData:
    """All that a training reads.

    Attributes:
        tokenizers: the `TokenizerPair`; of a language model both are the same.
        batches: the training `Batches`.
        validation_batches: those of the validation corpus, or None.
        validation_texts: the first validation examples, tuples of strings; as many as are to be
            translated or looked at.
        tests: for each test corpus its examples, a list of tuples of strings, by name.

    The sources among these strings are CoNLL-U where the model reads trees.
    """

    tokenizers: TokenizerPair
    batches: Batches
    validation_batches: Batches | None
    validation_texts: list
    tests: dict


@dataclasses.dataclass(frozen=True)
class Corpora:
    """The corpora that a recipe names: training, validation (or None), and tests by name."""

    train: object
    validation: object
    tests: dict

    @classmethod
    def of(cls, data):
        """Opens them; `data` is the recipe's section."""
        if data.builtin == "dates":
            dates = make_dates(training_pairs=data.builtin_pairs)
            tests = {"unseen dates": dates.test, "unseen languages": dates.held_out}
            return cls(dates.train, dates.validation, tests)
        if data.builtin == "recall":
            recall = make_recall(training_pairs=data.builtin_pairs)
            tests = {f"distance_{distance}": each for distance, each in recall.tests.items()}
            return cls(recall.train, recall.validation, tests)
        opened = functools.partial(
            open_corpus,
            kind=data.kind,
            columns=data.columns,
            has_header=data.has_header,
            keys=data.keys,
            on_bad_line=data.on_bad_line,
            encoding_errors=data.encoding_errors,
        )
        return cls(
            opened(list(data.train)),
            opened(list(data.validation)) if data.validation else None,
            {name: opened(list(files)) for name, files in data.test.items()},
        )

    def fingerprints(self):
        """The fingerprint of each, by its name."""
        corpora = {"train": self.train, "validation": self.validation}
        corpora |= {f"test.{name}": corpus for name, corpus in self.tests.items()}
        return {name: each.fingerprint() for name, each in corpora.items() if each is not None}

    def check(self, report):
        """Reads all of them once; tells what deserves a look, raises what cannot be used."""
        report.stage(f"Reading {self.train.name}")
        for text in self.train.check().warnings:
            report.say(text)
        for corpus in filter(None, [self.validation, *self.tests.values()]):
            report.stage(f"Reading {corpus.name}")
            checked = corpus.check()
            for text in validation_warnings(checked, count_overlap(self.train, corpus)):
                report.say(text)


def prepare_data(recipe, run, report):
    """Makes all that a training reads, or finds it in the run's directory.

    Args:
        recipe: the `Recipe`.
        run: its `RunDirectory`.
        report: a `TrainingReport`.
    """
    builtin = recipe.data.builtin
    report.stage(f"Making the corpus {builtin}" if builtin else "Opening the corpora")
    corpora = Corpora.of(recipe.data)
    is_new = not run.tokenizers.exists() or not run.has_read(corpora.fingerprints())
    if is_new:
        run.require_writer()
        if recipe.data.builtin is None:
            corpora.check(report)
        tokenizers = _learn_tokenizers(recipe, corpora.train, report)
        shutil.rmtree(run.tokenizers, ignore_errors=True)  # of corpora that have changed since
        tokenizers.save(run.tokenizers)
        run.store_fingerprints(corpora.fingerprints())
    tokenizers = TokenizerPair.load(run.tokenizers)
    directory = recipe.data.cache or run.cache
    tokenize = functools.partial(_tokenize, recipe, tokenizers, directory, report)
    batches = _make_batches(
        recipe, tokenize(corpora.train, keep_text=True), tokenizers, corpora.train
    )
    validation_batches = None
    validation_texts = []
    if corpora.validation is not None:
        validation_batches = _make_validation_batches(
            recipe, tokenize(corpora.validation), tokenizers, corpora.validation
        )
        count = max(recipe.evaluation.sentences, recipe.tensorboard.attention)
        validation_texts = list(itertools.islice(model_texts(recipe, corpora.validation), count))
    if is_new:
        _tell_about_length(recipe, batches.report(), report)
    tests = {name: list(model_texts(recipe, corpus)) for name, corpus in corpora.tests.items()}
    return PreparedData(tokenizers, batches, validation_batches, validation_texts, tests)


def _learn_tokenizers(recipe, corpus, report):
    def learn(what, lines):
        report.stage(f"Learning a vocabulary of {recipe.text.vocabulary_size:,} {what}")
        # The warning that there was less to learn is for the user, not for a log.
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            tokenizer = learn_tokenizer(
                recipe.text.tokenizer,
                lines,
                recipe.text.vocabulary_size,
                maximum_passages=recipe.text.maximum_passages,
                progress=lambda stage, done, total: report.advance(done, total),
                **recipe.text.options,
            )
        for warning in caught:
            if issubclass(warning.category, UserWarning):
                report.say(str(warning.message))
        return tokenizer

    if recipe.text.shared:
        return TokenizerPair(learn("ids", (text for example in corpus for text in example)))
    return TokenizerPair(
        learn("ids for the source", (source for source, _ in corpus)),
        learn("ids for the target", (target for _, target in corpus)),
    )


def _tokenize(recipe, tokenizers, directory, report, corpus, keep_text=False):
    report.stage(f"Tokenizing {corpus.name}")
    return tokenize_corpus(
        corpus,
        _of_columns(tokenizers, corpus.columns),
        directory,
        keep_text=keep_text and bool(recipe.text.sampling),
        progress=report.advance,
    )


def _of_columns(tokenizers, columns):
    known = {"source": tokenizers.source, "target": tokenizers.target, "text": tokenizers.target}
    return {column: known[column] for column in columns}


def model_texts(recipe, corpus):
    """The examples of a corpus as strings that the recipe's model takes: an iterable of tuples."""
    return corpus.parsed_examples() if recipe.model.reads_trees else corpus


def _make_batches(recipe, cache, tokenizers, corpus):
    section = recipe.batches
    if section.packed:
        return PackedBatches(
            cache, width=section.max_length, tokens=section.tokens, seed=recipe.seed
        )
    samplers = _make_samplers(recipe.text, cache.columns, tokenizers)
    room = room_for_samples(cache, samplers) if samplers else 1.0
    table = _choose_table(section, cache, section.too_long, room)
    return _in_buckets(recipe, cache, table, tokenizers, corpus, samplers)


def _make_samplers(section, columns, tokenizers):
    if not section.sampling:
        return {}
    columns = [name for name in columns if name != "target" or section.sampled == "both"]
    return {
        column: functools.partial(tokenizer.sample, alpha=section.sampling)
        for column, tokenizer in _of_columns(tokenizers, columns).items()
    }


def _make_validation_batches(recipe, cache, tokenizers, corpus):
    if recipe.batches.packed:
        return _make_batches(recipe, cache, tokenizers, corpus)
    # No example may be missing from what is measured.
    table = _choose_table(recipe.batches, cache, "truncate")
    return _in_buckets(recipe, cache, table, tokenizers, corpus)


def _in_buckets(recipe, cache, table, tokenizers, corpus, samplers=None):
    if recipe.model.reads_trees:
        return TreeBatches(
            cache, table, corpus, tokenizers.source, seed=recipe.seed, samplers=samplers
        )
    kind = PairBatches if recipe.task == "translation" else DocumentBatches
    return kind(cache, table, seed=recipe.seed, samplers=samplers)


def _choose_table(section, cache, too_long, room=1.0):
    try:
        return choose_buckets(
            cache,
            tokens=section.tokens,
            max_length=section.max_length,
            too_long=too_long,
            max_buckets=section.max_buckets,
            room=room,
        )
    except UserError as error:
        names = ("tokens", "max_length")
        message = str(error)
        for name in names:
            message = message.replace(f"`{name}`", f"`batches.{name}`")
        raise UserError(message) from error


def _tell_about_length(recipe, batches, report):
    length = recipe.batches.max_length
    if batches.skipped:
        report.say(
            f"{batches.skipped:,} of {batches.skipped + batches.examples:,} training examples are "
            f"longer than batches.max_length={length} and are left out."
        )
    if batches.truncated:
        report.say(
            f"{batches.truncated:,} of {batches.examples:,} training examples are longer than "
            f"batches.max_length={length} and are cut."
        )
