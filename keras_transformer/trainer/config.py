"""The sections of a recipe, which document its keys, and the recipe that consists of them.

A recipe is checked when it is created. Paths of files are relative to the current directory.
"""

import dataclasses
import inspect
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

from keras_transformer._utils import checks
from keras_transformer._utils.errors import ArgumentError, UserError
from keras_transformer.text.special_ids import SpecialIds
from keras_transformer.trainer.recipe_conflicts import COLUMNS, conflicts
from keras_transformer.trainer.recipe_file import RecipeError, unknown_key, write_yaml
from keras_transformer.trainer.section import (
    Section,
    check_fields,
    conflict,
    in_section,
    list_of,
    load_registry,
    one_of,
    or_null,
    plain,
    registered,
    require_directory_name,
    require_file_sets,
    require_files,
    require_options,
    require_step_range,
    require_texts,
    setting,
)

if TYPE_CHECKING:
    import keras

    from keras_transformer.decoding import SearchSettings
    from keras_transformer.models.config import ModelConfig
    from keras_transformer.trainer.optimizers import OptimizerConfig

TASKS = tuple(COLUMNS)

# Registries whose names are choices in a recipe. They are imported when a recipe is checked.
_BUILTIN_CORPORA = "keras_transformer.data.builtin:BUILTIN_CORPORA"
_FORMATS = "keras_transformer.data.corpora:FORMATS"
_TOKENIZERS = "keras_transformer.text.registry:registered_tokenizers"
_METRICS = "keras_transformer.metrics:TEXT_METRICS"
_BLEU_TOKENS = "keras_transformer.metrics.bleu:BLEU_TOKENS"
_SCHEDULES = "keras_transformer.schedules:SCHEDULES"
_OPTIMIZERS = "keras_transformer.trainer.optimizers:OPTIMIZERS"
_LOGGERS = "keras_transformer.trainer.loggers:LOGGERS"
_EXPORT_FORMATS = "keras_transformer.export.formats:FORMATS"


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataSection(Section, key="data"):
    """Corpora of the training, validation and test examples.

    Args:
        builtin: Registered built-in corpus with training, validation and test examples, such as
            "dates" (dates in many languages) and "recall" (values after their keys). Default: null.
        builtin_pairs: Number of training pairs of the built-in corpus. Default: 20000.
        train: One or two files or patterns, such as [train.en, train.de] and [a.conllu, a.en].
        validation: Files of the validation examples. Default: none, and no evaluations.
        test: Test corpora, a mapping from names to files. They are evaluated once, after training.
        format: Registered corpus format. Default: null, recognized by the names of the files.
        columns: Names of the columns of TSV files. Default: null, for source and target.
        has_header: Whether the first line of TSV files is a header. Default: false.
        keys: For JSON lines, a mapping from "source" and "target", or "text", to their keys.
        format_options: Further options of the format. Default: none.
        on_bad_line: "error" stops at an unusable line; "skip" leaves it out. Default: "error".
        encoding_errors: Action for bytes that are not UTF-8: "error" stops; "replace" replaces them
            by U+FFFD. Default: "error".
        cache: Directory in which runs share tokenized corpora. Default: null, the run directory.
    """

    builtin: str | None = setting(None, or_null(registered(_BUILTIN_CORPORA)))
    builtin_pairs: int = setting(20_000, checks.require_positive_integer)
    train: tuple[str, ...] = setting((), require_files)
    validation: tuple[str, ...] = setting((), require_files)
    test: Mapping[str, tuple[str, ...]] = setting({}, require_file_sets)
    format: str | None = setting(None, or_null(registered(_FORMATS)))
    columns: tuple[str, ...] | None = setting(None, or_null(list_of(checks.require_text)))
    has_header: bool = setting(False, checks.require_boolean)
    keys: Mapping[str, str] | None = setting(None, or_null(require_texts))
    format_options: Mapping[str, Any] = setting({}, checks.require_mapping)
    on_bad_line: str = setting("error", one_of("error", "skip"))
    encoding_errors: str = setting("error", one_of("error", "replace"))
    cache: str | None = setting(None, or_null(checks.require_text))

    @property
    def has_validation(self) -> bool:
        """True if there are validation examples."""
        return bool(self.builtin or self.validation)

    @property
    def reading_options(self) -> dict[str, Any]:
        """Format and its options, as arguments of `open_corpus` and `find_columns`."""
        names = ("format", "columns", "has_header", "keys")
        return {name: getattr(self, name) for name in names} | dict(self.format_options)

    @property
    def corpora(self) -> dict[str, tuple[str, ...]]:
        """Files of each corpus that is given, by its key in this section."""
        corpora = {"train": self.train, "validation": self.validation}
        corpora |= {f"test.{name}": files for name, files in self.test.items()}
        return {key: files for key, files in corpora.items() if files}

    def conflicts(self) -> Iterator[UserError]:
        if self.builtin and self.corpora:
            key, files = next(iter(self.corpora.items()))
            yield ArgumentError(
                key,
                f"left out with the built-in corpus {self.builtin!r}, which has all examples",
                list(files),
                fix="Or set `data.builtin` to null.",
                related=("builtin",),
            )
        if not self.builtin and not self.train:
            fix = "Name one or two files, or set `data.builtin` to dates."
            yield UserError("no training data.", argument="train", related=("builtin",), fix=fix)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextSection(Section, key="text"):
    """Tokenizer, and how its vocabulary is learned.

    Args:
        tokenizer: "sentencepiece", "wordpiece" or "bytes". Default: "sentencepiece".
        vocabulary_size: Number of ids. Default: 8000, or the fixed size of the tokenizer.
        shared: Whether source and target share one vocabulary. Default: true.
        options: Options of the tokenizer, such as `{model: bpe}`. Default: none.
        maximum_passages: Number of lines, sampled from the corpus, to learn from. Default: 200000.
        sampling: `alpha` of `SentencePieceTokenizer.sample`, which segments the training texts at
            random in each epoch. Common values are 0.2 for a unigram model, where lower is more
            random (Kudo 2018), and 0.1 for a BPE model, where higher is more random (Provilkov et
            al. 2020). Default: 0, for none.
        sampled: Texts that are segmented at random: "source" or "both". Default: "source".
    """

    #: Size of a learned vocabulary by default; that of `keras-transformer data`, too.
    default_size: ClassVar[int] = 8000

    tokenizer: str = setting("sentencepiece", registered(_TOKENIZERS))
    vocabulary_size: int | None = setting(None, or_null(checks.require_positive_integer))
    shared: bool = setting(True, checks.require_boolean)
    options: Mapping[str, Any] = setting({}, checks.require_mapping)
    maximum_passages: int = setting(200_000, checks.require_positive_integer)
    sampling: float = setting(0.0, checks.require_share)
    sampled: str = setting("source", one_of("source", "both"))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.vocabulary_size is None:
            object.__setattr__(self, "vocabulary_size", self._fixed_size() or self.default_size)

    def conflicts(self) -> Iterator[UserError]:
        try:
            size = self._fixed_size()
        except UserError as error:
            if error.argument in (None, "option"):
                yield error.renamed("options")
            else:
                names = [name for name in error.arguments if not hasattr(self, name)]
                yield error.renamed({name: f"options.{name}" for name in names})
            return
        if size is not None and self.vocabulary_size not in (None, size):
            expected = f"{size} for {self.tokenizer!r}"
            yield conflict(self, "vocabulary_size", expected, "tokenizer", fix="Leave it out.")
        if self.sampling and self.tokenizer != "sentencepiece":
            expected = f"0 for {self.tokenizer!r}, which has one segmentation of each text"
            fix = "Or set `text.tokenizer` to sentencepiece."
            yield conflict(self, "sampling", expected, "tokenizer", fix=fix)
        if self.sampling == 1 and self.options.get("model") == "bpe":
            expected = "below 1 for a BPE model, because without any merge pieces are characters"
            yield conflict(self, "sampling", expected, "options")

    def _fixed_size(self) -> int | None:
        """Checks the settings as learning does; returns the vocabulary size if it is fixed."""
        from keras_transformer.text.learning import check_learning

        return check_learning(
            self.tokenizer,
            self.vocabulary_size or self.default_size,
            maximum_passages=self.maximum_passages,
            **self.options,
        )


#: Fields of a model's config that follow from other sections of the recipe and from the tokenizer.
DERIVED: frozenset[str] = frozenset(
    {"vocabulary_size", "target_vocabulary_size", "is_packed"}
    | {f"{field.name}_id" for field in dataclasses.fields(SpecialIds)}
)

#: Kind of model by default.
DEFAULT_KIND = "transformer"


def config_classes(task: str) -> "dict[str, type[ModelConfig]]":
    """Returns the classes of the configs of a task's models, by kind."""
    from keras_transformer import models

    return {
        "translation": {
            "transformer": models.TransformerConfig,
            "recurrent": models.RecurrentSeq2SeqConfig,
            "convolutional": models.ConvolutionalSeq2SeqConfig,
        },
        "language_model": {"transformer": models.LanguageModelConfig},
    }[checks.require_choice("task", task, TASKS)]


def model_keys(task: str) -> tuple[str, ...]:
    """Returns the keys that the section `model` may have for a task, for any kind of model."""
    fields = (name for config in config_classes(task).values() for name in _config_fields(config))
    return tuple(dict.fromkeys(("from", "freeze", "kind", "size", *fields)))


def _config_fields(config: type[Any]) -> tuple[str, ...]:
    names = (field.name for field in dataclasses.fields(config))
    return tuple(name for name in names if name not in DERIVED)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelSection:
    """Settings of the model.

    A recipe gives a `kind` ("transformer", or for translation also "recurrent" or "convolutional"),
    a `size` ("tiny", "small", "base" or "big"; default: the defaults of the config) and fields of
    the kind's config, such as `TransformerConfig`, which replace those of the size.

    With `from`, a run directory, the model starts from the weights and the vocabulary of its model:
    one that was trained before, or imported. Of the settings, only dropout rates can change then.
    With `freeze`, a list of patterns of weights such as [embedding, encoder/block_*], these are
    not trained.

    Args:
        kind: Kind of the model.
        settings: A mapping with all fields of the config except `DERIVED`.
        source: Run directory of the model to start from, the key `from`. Default: None.
        freeze: Patterns of the weights that are not trained. Default: none.
    """

    kind: str
    settings: Mapping[str, Any]
    source: str | None = None
    freeze: tuple[str, ...] = ()

    @property
    def reads_trees(self) -> bool:
        """True if the model reads the dependency trees of its sources."""
        return self.settings.get("tree_positions", "none") != "none"

    @classmethod
    def resolve(cls, values: Mapping[str, Any], task: str, text: TextSection | None) -> Self:
        """Creates the section from the keys and values; `text` is None if it has mistakes."""
        values, kinds = dict(values), config_classes(task)
        try:
            freeze = values.pop("freeze", None) or ()
            if freeze:
                freeze = list_of(checks.require_text)("freeze", freeze)
            if (source := values.pop("from", None)) is not None:
                source = checks.require_text("from", source)
                return cls._resolve_source(source, values, task, freeze)
        except UserError as error:
            raise RecipeError([in_section(error, "model", model_keys(task))]) from error
        if text is not None and not text.shared and task == "translation":
            # Two vocabularies cannot share an embedding table, which is the config's default.
            values.setdefault("share_embeddings", "target")
        try:
            kind = checks.require_choice("kind", values.pop("kind", DEFAULT_KIND), kinds)
            size = values.pop("size", None)
            known = _config_fields(kinds[kind])
            for name, value in values.items():
                if name not in known:
                    problem = f"not a setting of the kind {kind!r}, which has {', '.join(known)}."
                    fix = "Leave it out, or choose another `model.kind`."
                    raise UserError(problem, argument=name, related=("kind",), fix=fix)
                if name.endswith("_options"):
                    checks.require_mapping(name, value)
            values["vocabulary_size"] = 1 if text is None else text.vocabulary_size
            make = kinds[kind] if size is None else partial(kinds[kind].from_size, size)
            config = make(**values)
            if decoder_field := getattr(config, "decoder_field", None):
                # Decoding needs causal attention with a KV cache.
                config.require_usable(decoder_field, causal=True, cache=True)
        except UserError as error:
            raise RecipeError([in_section(error, "model", model_keys(task))]) from error
        except (TypeError, ValueError) as error:  # of a variant that does not raise `UserError`
            raise RecipeError([UserError(str(error), argument="model")]) from error
        settings = {name: plain(getattr(config, name)) for name in known}
        return cls(kind=kind, settings=settings, freeze=freeze)

    @classmethod
    def _resolve_source(
        cls, source: str, values: dict[str, Any], task: str, freeze: tuple[str, ...]
    ) -> Self:
        """Creates the section of a model that starts from the model of a run directory."""
        from keras_transformer.trainer.source_model import SourceModel

        model, kinds = SourceModel.read(source), config_classes(task)
        kind = next((name for name, each in kinds.items() if each is model.config_class), None)
        if kind is None:
            got = model.config_class.__name__.removesuffix("Config")
            problem = f"has a {got}, which is no model for the task {task!r}."
            raise UserError(problem, where=source, argument="from", related=("task",))
        for key, allowed in (("kind", kind), ("size", None)):
            if (value := values.pop(key, allowed)) != allowed:
                raise ArgumentError(key, "left out with `model.from`", value, related=("from",))
        settings = model.settings(_config_fields(kinds[kind]), values)
        return cls(kind=kind, settings=settings, source=source, freeze=freeze)

    def make_config(
        self,
        task: str,
        vocabulary_size: int,
        target_vocabulary_size: int | None = None,
        is_packed: bool = False,
        special_ids: SpecialIds | None = None,
    ) -> "ModelConfig":
        """Returns the config of the model.

        Args:
            task: The task of the recipe.
            vocabulary_size: Number of ids of the source, or of both sides.
            target_vocabulary_size: That of the target. Default: None, for a shared vocabulary.
            is_packed: Whether rows of a language model hold several documents. Default False.
            special_ids: The `SpecialIds` of the tokenizer. Default: those of the config.
        """
        derived: dict[str, Any] = {"vocabulary_size": vocabulary_size}
        if task == "translation":
            derived["target_vocabulary_size"] = target_vocabulary_size
        else:
            derived["is_packed"] = is_packed
        for name, number in dataclasses.asdict(special_ids or SpecialIds()).items():
            derived[f"{name}_id"] = number
        return config_classes(task)[self.kind](**derived, **plain(self.settings))

    def to_dictionary(self) -> dict[str, Any]:
        """Returns kind and settings as types that JSON and YAML have."""
        source = {} if self.source is None else {"from": self.source}
        freeze = {"freeze": list(self.freeze)} if self.freeze else {}
        return {**source, **freeze, "kind": self.kind, **plain(self.settings)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class BatchesSection(Section, key="batches"):
    """Sizes and shapes of batches.

    Args:
        tokens: Maximum tokens per batch and side, padding included. Default: 4096, as in fairseq.
        max_length: Maximum tokens of a sequence, end included; length of packed rows. Default: 256.
        too_long: "skip" leaves longer examples out, "truncate" cuts them. Default: "skip".
        max_buckets: Maximum number of shapes of batches, each compiled by XLA. Default: 20.
        accumulate: Number of batches whose gradients are summed in a step. Default: 1.
        packed: Whether a language model's rows are filled with several documents. Default: false.
    """

    tokens: int = setting(4096, checks.require_positive_integer)
    max_length: int = setting(256, checks.require_integer, minimum=2)
    too_long: str = setting("skip", one_of("skip", "truncate"))
    max_buckets: int = setting(20, checks.require_positive_integer)
    accumulate: int = setting(1, checks.require_positive_integer)
    packed: bool = setting(False, checks.require_boolean)

    def conflicts(self) -> Iterator[UserError]:
        if self.tokens < self.max_length:
            expected = f"at least max_length={self.max_length}, the longest sequence in a batch"
            yield conflict(self, "tokens", expected, "max_length")


#: Name of the schedule of a learning rate that does not change; it is not in the registry.
CONSTANT = "constant"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingSection(Section, key="training"):
    """Length of the training and computation of its steps. Defaults: Vaswani et al. 2017, §5.3-5.4.

    Args:
        steps: Number of steps. Either this or `epochs` is required.
        epochs: Number of passes over the training corpus.
        optimizer: One of the registered optimizers, such as "adam" and "adamw". Default: "adam".
        optimizer_options: Hyperparameters of the optimizer, such as `{beta_2: 0.95}`. Default:
            those of the optimizer; for "adam" beta_1 0.9, beta_2 0.98 and epsilon 1e-9.
        clip_norm: Maximum global norm of the gradients. Default: null, for no clipping.
        schedule: "constant", or a registered schedule. Default: "inverse_square_root".
        schedule_options: Further options of the schedule. Default: none.
        learning_rate: Highest learning rate. Default: null, for the default of the schedule;
            for "inverse_square_root" (hidden_dim · warmup_steps)^-0.5, as in the paper.
        warmup_steps: Number of steps in which the rate rises; not for "constant". Default: 4000.
        final_rate: Learning rate at the end, for schedules that have an end. Default: 0.
        label_smoothing: Share of the probability that is spread over all tokens. Default: 0.1.
        r_drop_alpha: Weight α of R-Drop (Liang et al. 2021, "R-Drop: Regularized Dropout for Neural
            Networks", who use 5). Steps take more than twice as long. Default: 0, for none.
        precision: "float32", "mixed_bfloat16", or "mixed_float16". Default: "float32".
        xla: Whether XLA compiles the step, once for each shape of batches. Default: false.
        ema: Momentum of the exponential moving average of the weights. Default: 0, for none.
        deterministic: Whether weights are reproducible bit for bit; slower on GPUs. Default: true.
        distribution: "none", "mirrored" (all GPUs of this machine), "multi_worker" (the workers in
            TF_CONFIG), or "auto" (chosen by what is available). Default: "auto".
        loggers: Registered loggers. Default: [jsonl, tensorboard].
    """

    steps: int | None = setting(None, or_null(checks.require_positive_integer))
    epochs: int | None = setting(None, or_null(checks.require_positive_integer))
    optimizer: str = setting("adam", registered(_OPTIMIZERS))
    optimizer_options: Mapping[str, Any] = setting({}, checks.require_mapping)
    clip_norm: float | None = setting(None, or_null(checks.require_positive))
    schedule: str = setting("inverse_square_root", registered(_SCHEDULES, CONSTANT))
    schedule_options: Mapping[str, Any] = setting({}, checks.require_mapping)
    learning_rate: float | None = setting(None, or_null(checks.require_positive))
    warmup_steps: int = setting(4000, checks.require_integer, minimum=0)
    final_rate: float = setting(0.0, checks.require_not_negative)
    label_smoothing: float = setting(0.1, checks.require_rate)
    r_drop_alpha: float = setting(0.0, checks.require_not_negative)
    precision: str = setting("float32", one_of("float32", "mixed_bfloat16", "mixed_float16"))
    xla: bool = setting(False, checks.require_boolean)
    ema: float = setting(0.0, checks.require_rate)
    deterministic: bool = setting(True, checks.require_boolean)
    distribution: str = setting("auto", one_of("auto", "none", "mirrored", "multi_worker"))
    loggers: tuple[str, ...] = setting(("jsonl", "tensorboard"), list_of(registered(_LOGGERS)))

    def __post_init__(self) -> None:
        super().__post_init__()
        options = dataclasses.asdict(self.optimizer_config())
        object.__setattr__(self, "optimizer_options", options)

    def optimizer_config(self) -> "OptimizerConfig":
        """Returns the hyperparameters of the optimizer."""
        kind = load_registry(_OPTIMIZERS)[self.optimizer]
        require_options("optimizer_options", self.optimizer_options, kind, self.optimizer)
        try:
            return kind(**self.optimizer_options)
        except ArgumentError as error:
            raise in_section(error, "optimizer_options") from error

    def learning_rate_schedule(
        self, hidden_dim: int, total_steps: int
    ) -> "float | keras.optimizers.schedules.LearningRateSchedule":
        """Returns the learning rate, a number or a schedule of Keras.

        Args:
            hidden_dim: Size of the hidden states, on which the default rate depends.
            total_steps: Number of training steps, with which some schedules end.
        """
        options = self.schedule_options
        if self.schedule == CONSTANT:
            require_options("schedule_options", options, lambda: None, CONSTANT)
            return self.learning_rate  # type: ignore[return-value]
        make = load_registry(_SCHEDULES)[self.schedule].for_training
        arguments = {
            "peak_rate": self.learning_rate,
            "warmup_steps": self.warmup_steps,
            "total_steps": total_steps,
            "final_rate": self.final_rate,
            "hidden_dim": hidden_dim,
        }
        require_options("schedule_options", options, make, self.schedule, taken=arguments)
        try:
            return make(**arguments, **options)
        except ArgumentError as error:
            keys = {"peak_rate": "learning_rate", "total_steps": "steps"}
            keys |= {name: f"schedule_options.{name}" for name in options}
            raise error.renamed(keys) from error

    @property
    def has_finite_schedule(self) -> bool:
        """True if the schedule reaches its final rate with the last step."""
        return self.schedule != CONSTANT and load_registry(_SCHEDULES)[self.schedule].is_finite

    def conflicts(self) -> Iterator[UserError]:
        if (self.steps is None) == (self.epochs is None):
            got = "neither" if self.steps is None else f"{self.steps} and {self.epochs}"
            problem = f"exactly one of steps and epochs must be given; got {got}."
            yield UserError(problem, argument="steps", related=("epochs",))
        try:
            self.optimizer_config()
        except UserError as error:
            yield error
        rate, warmup = self.learning_rate, self.warmup_steps
        schedule = None if self.schedule == CONSTANT else load_registry(_SCHEDULES)[self.schedule]
        if rate is None and (schedule is None or schedule.requires_peak_rate):
            expected = f"a number for {self.schedule!r}, such as 1e-3"
            yield conflict(self, "learning_rate", expected, "schedule")
        elif schedule is not None and warmup < schedule.minimum_warmup_steps:
            expected = f"at least {schedule.minimum_warmup_steps} for {self.schedule!r}"
            yield conflict(self, "warmup_steps", expected, "schedule")
        elif self.final_rate and not self.has_finite_schedule:
            expected = f"0 for {self.schedule!r}, which has no end"
            yield conflict(self, "final_rate", expected, "schedule")
        elif rate is not None and self.final_rate > rate:
            yield conflict(self, "final_rate", f"at most learning_rate={rate}", "learning_rate")
        elif self.has_finite_schedule and self.steps and self.steps <= warmup:
            expected = f"more than warmup_steps={warmup}, which are part of them"
            yield conflict(self, "steps", expected, "warmup_steps")
        else:
            try:
                self.learning_rate_schedule(hidden_dim=1, total_steps=warmup + 1)
            except UserError as error:
                yield error


def _require_search(name: str, value: Any) -> dict[str, Any]:
    """Returns all fields of `SearchSettings`: those in `value`, and the defaults."""
    from keras_transformer.decoding import SearchSettings

    known = [field.name for field in dataclasses.fields(SearchSettings)]
    values = checks.require_mapping(name, value)
    mistakes = [unknown_key(name, key, {name: known}) for key in values if key not in known]
    try:
        settings = SearchSettings(**{key: values[key] for key in values if key in known})
        # Creating the searches of the export checks `method`, its settings and the constraints.
        settings.make_both(longest=settings.max_length or settings.min_length)
    except UserError as error:
        raise RecipeError([*mistakes, in_section(error, name, known)]) from error
    if mistakes:
        raise RecipeError(mistakes)
    return plain(dataclasses.asdict(settings))


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluationSection(Section, key="evaluation"):
    """Evaluation of the model during and after training.

    Args:
        every: Number of steps between evaluations. Default: 1000.
        sentences: Number of validation sentences to translate in each evaluation. Default: 500.
        metrics: Text metrics of evaluations and tests, such as [bleu, chrf]. Default: null, for all
            that are registered.
        search: Fields of `SearchSettings`, also for the exported model, whose signature `sample`
            reads `top_k` and `top_p`; `method` must be deterministic. Default: 4 beams and a length
            penalty of 0.6, as in Vaswani et al. 2017, §6.1.
        patience: Number of evaluations without improvement that end training. Default: null, for no
            early stopping.
        metric: Metric of the best evaluation: "loss" or a text metric. Default: "loss".
        bleu_tokens: Tokens that BLEU counts, by sacrebleu's names: "13a" for raw text, "none" for
            text that is tokenized already; also "intl", "zh" and "char". Default: "13a".
        show: Number of translations that are shown after training. Default: 12.
    """

    every: int = setting(1000, checks.require_positive_integer)
    sentences: int = setting(500, checks.require_integer, minimum=0)
    metrics: tuple[str, ...] | None = setting(None, or_null(list_of(registered(_METRICS))))
    search: Mapping[str, Any] = setting({}, _require_search)
    patience: int | None = setting(None, or_null(checks.require_positive_integer))
    metric: str = setting("loss", registered(_METRICS, "loss"))
    bleu_tokens: str = setting("13a", registered(_BLEU_TOKENS))
    show: int = setting(12, checks.require_integer, minimum=0)

    def search_settings(self) -> "SearchSettings":
        """Returns the settings of the search."""
        from keras_transformer.decoding import SearchSettings

        return SearchSettings(**self.search)

    def conflicts(self) -> Iterator[UserError]:
        if self.metric != "loss" and not self.sentences:
            yield conflict(self, "sentences", f"at least 1 for metric={self.metric!r}", "metric")
        if self.metrics is not None and self.metric not in ("loss", *self.metrics):
            expected = f"a list with {self.metric!r}, by which the best evaluation is chosen"
            yield conflict(self, "metrics", expected, "metric")


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckpointsSection(Section, key="checkpoints"):
    """Checkpoints, and the weights that become the model.

    Args:
        every: Number of steps between checkpoints. Default: 1000.
        keep: Number of the latest checkpoints to keep. Default: 5.
        average: Number of the latest checkpoints to average. Default: 5, as in Vaswani et al. 2017.
        final: Weights of the trained model: "average", "last", "best" (by `evaluation.metric`), or
            "ema" (the moving average of `training.ema`). Default: "average".
    """

    every: int = setting(1000, checks.require_positive_integer)
    keep: int = setting(5, checks.require_positive_integer)
    average: int = setting(5, checks.require_positive_integer)
    final: str = setting("average", one_of("average", "best", "last", "ema"))

    def conflicts(self) -> Iterator[UserError]:
        if self.average > self.keep:
            fix = "Keep more checkpoints, or average fewer."
            yield conflict(self, "average", f"at most keep={self.keep}", "keep", fix=fix)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TensorboardSection(Section, key="tensorboard"):
    """Content of TensorBoard's logs.

    Args:
        every: Number of steps between training metrics. Default: 50.
        attention: Number of examples whose attention maps are drawn in each evaluation. Default: 2.
        samples: Number of translations in the table of each evaluation. Default: 10.
        projector: Whether the embeddings are written for the projector. Default: true.
        histograms: Whether to write histograms of the weights, which are large. Default: false.
        profile: First and last step that are profiled, such as [100, 110]. Default: null, for none.
    """

    every: int = setting(50, checks.require_positive_integer)
    attention: int = setting(2, checks.require_integer, minimum=0)
    samples: int = setting(10, checks.require_integer, minimum=0)
    projector: bool = setting(True, checks.require_boolean)
    histograms: bool = setting(False, checks.require_boolean)
    profile: tuple[int, int] | None = setting(None, or_null(require_step_range))


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportSection(Section, key="export"):
    """Export of the trained model.

    Args:
        to: Directory for exports, as DIR/<name>/<version>. Default: null, in the run directory.
        format: Registered export format. Default: "saved_model".
        weights: Type of stored weights: "float32", "float16", "bfloat16" or "int8". Default:
            "float32".
        enabled: Whether the model is exported. Default: true.
    """

    to: str | None = setting(None, or_null(checks.require_text))
    # Checking other names imports the registry, and with it TensorFlow; the default needs no check.
    format: str = setting("saved_model", registered(_EXPORT_FORMATS, "saved_model"))
    weights: str = setting("float32", one_of("float32", "float16", "bfloat16", "int8"))
    enabled: bool = setting(True, checks.require_boolean)

    def settings(self) -> dict[str, Any]:
        """Returns the settings of the format that differ from its defaults."""
        return {} if self.weights == "float32" else {"weights": self.weights}

    def conflicts(self) -> Iterator[UserError]:
        if self.settings() and self.format != "saved_model":
            kind = load_registry(_EXPORT_FORMATS)[self.format]
            if "weights" not in inspect.signature(kind).parameters:
                yield conflict(self, "weights", f"'float32' for {self.format!r}", "format")


#: All sections but `model`, whose keys depend on the task.
PLAIN_SECTIONS: dict[str, type[Section]] = {
    kind.key: kind
    for kind in (
        DataSection,
        TextSection,
        BatchesSection,
        TrainingSection,
        EvaluationSection,
        CheckpointsSection,
        TensorboardSection,
        ExportSection,
    )
}

_REQUIRED = {
    "name": "Give the model a name, such as dates.",
    "task": f"Set it to {' or '.join(TASKS)}.",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """Complete description of a training run.

    Args:
        name: Name of the model, and of the directory of its exports.
        task: "translation", from a source to a target, or "language_model", which continues text.
        seed: Seed of all random numbers. Default: 1.
        data: Corpora.
        text: Tokenizer.
        model: Settings of the model.
        batches: Sizes of batches.
        training: Length, optimizer, learning rate, regularization.
        evaluation: Evaluation during and after training.
        checkpoints: Checkpoints, and the weights that become the model.
        tensorboard: Content of TensorBoard's logs.
        export: Export of the trained model.

    Raises:
        RecipeError: With all mistakes.

    >>> recipe = Recipe.from_dictionary({
    ...     "name": "dates",
    ...     "task": "translation",
    ...     "data": {"builtin": "dates"},
    ...     "model": {"size": "tiny", "dropout": 0.0},
    ...     "training": {"steps": 1000},
    ... })
    >>> recipe.training.warmup_steps, recipe.model.settings["hidden_dim"]
    (4000, 128)
    """

    name: str = setting(dataclasses.MISSING, require_directory_name)
    task: str = setting(dataclasses.MISSING, one_of(*TASKS))
    seed: int = setting(1, checks.require_seed)
    data: DataSection
    text: TextSection
    model: ModelSection
    batches: BatchesSection
    training: TrainingSection
    evaluation: EvaluationSection
    checkpoints: CheckpointsSection
    tensorboard: TensorboardSection
    export: ExportSection

    def __post_init__(self) -> None:
        _, mistakes = check_fields(type(self), vars(self))
        if mistakes or (mistakes := list(conflicts(self))):
            raise RecipeError(mistakes)

    @classmethod
    def from_dictionary(cls, dictionary: Mapping[str, Any]) -> Self:
        """Returns the recipe in a mapping from keys to values, such as a file has."""
        if not isinstance(dictionary, dict):
            problem = f"a recipe must be a mapping from keys to values; got {dictionary!r}."
            raise RecipeError([UserError(problem)])
        values, mistakes = check_fields(cls, dictionary)
        for key, fix in _REQUIRED.items():
            if key not in dictionary:
                mistakes.append(UserError("a value is missing.", argument=key, fix=fix))
        task = values.get("task")
        known = _known_values(dictionary, task, mistakes)
        try:
            _add_defaults_of_source(known)
        except RecipeError as error:
            raise RecipeError([*mistakes, *error.mistakes]) from error
        for key, given in known.items():
            try:
                if key != "model":
                    values[key] = PLAIN_SECTIONS[key](**given)
                elif task is not None:
                    values[key] = ModelSection.resolve(given, task, values.get("text"))
            except RecipeError as error:
                mistakes += error.mistakes
        if mistakes:
            raise RecipeError(mistakes)
        return cls(**values)

    def to_dictionary(self) -> dict[str, Any]:
        """Returns every key with its value, as types that JSON and YAML have."""
        return {
            field.name: value.to_dictionary() if hasattr(value, "to_dictionary") else plain(value)
            for field in dataclasses.fields(self)
            for value in [getattr(self, field.name)]
        }

    def to_yaml(self) -> str:
        """Returns the recipe with all defaults as text that `load_recipe` reads."""
        dictionary = self.to_dictionary()
        head = {key: dictionary.pop(key) for key in ("name", "task", "seed")}
        parts = [head, *({key: section} for key, section in dictionary.items())]
        title = "# The recipe with all its defaults.\n"
        return title + "\n".join(write_yaml(part) for part in parts)


def _add_defaults_of_source(values: dict[str, dict[str, Any]]) -> None:
    """Adds the vocabulary and the search of the model that a recipe starts from.

    Args:
        values: The keys and values of each section.
    """
    source = values.get("model", {}).get("from")
    if not isinstance(source, str):
        return
    from keras_transformer.trainer.source_model import SourceModel

    try:
        model = SourceModel.read(source)
        text = values["text"]
        for key, value in model.vocabulary.items():
            if text.setdefault(key, value) != value:
                raise ArgumentError(
                    f"text.{key}",
                    f"left out or {value!r}, as in model.from={source}",
                    text[key],
                    fix="A model keeps its vocabulary. For another one, train a new model without "
                    "`model.from`.",
                )
    except UserError as error:
        at = error if error.argument and "." in error.argument else in_section(error, "model")
        raise RecipeError([at]) from error
    search = values["evaluation"].get("search")
    if search is None or isinstance(search, dict):
        values["evaluation"]["search"] = {**model.search, **(search or {})}


def _known_values(
    dictionary: Mapping[str, Any], task: str | None, mistakes: list[UserError]
) -> dict[str, dict[str, Any]]:
    """Returns the known keys and values of each section; all others are added to `mistakes`."""
    known = {"": [field.name for field in dataclasses.fields(Recipe)]}
    for section, kind in PLAIN_SECTIONS.items():
        known[section] = [field.name for field in dataclasses.fields(kind)]
    tasks = TASKS if task is None else (task,)
    known["model"] = list(dict.fromkeys(key for name in tasks for key in model_keys(name)))
    given = {}
    for section, keys in known.items():
        values = dictionary if section == "" else dictionary.get(section)
        if values is None:  # left out, or without keys
            values = {}
        if not isinstance(values, dict):
            expected = f"a section with keys such as {', '.join(keys[:3])}"
            mistakes.append(ArgumentError(section, expected, values))
            continue
        mistakes += [unknown_key(section, key, known) for key in values if key not in keys]
        if section:
            given[section] = {key: value for key, value in values.items() if key in keys}
    return given
