"""A training as it is described: one frozen object, checked whole before any work starts."""

import dataclasses
import functools
import re
import warnings
from collections.abc import Mapping

from keras_transformer._utils.checks import (
    require_boolean,
    require_choice,
    require_integer,
    require_mapping,
    require_not_negative,
    require_positive,
    require_positive_integer,
    require_rate,
    require_seed,
    require_share,
    require_text,
)
from keras_transformer.trainer.recipe_file import RecipeError, unknown_key, write_yaml


def setting(default, check, **arguments):
    """A field of a section: its default, and a check of `keras_transformer._utils.checks`.

    Args:
        default: what holds where a recipe says nothing.
        check: a function of the field's name and value that returns the value or raises.
        **arguments: what else the check takes.
    """
    metadata = {"check": functools.partial(check, **arguments)}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=dict, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def or_null(check):
    """The same check, of a value that may also be missing."""

    def checked(name, value, **arguments):
        if value is None:
            return None
        try:
            return check(name, value, **arguments)
        except ValueError as error:
            own = f"`{name}` must be "
            raise ValueError(str(error).replace(own, f"{own}null or ", 1)) from error

    return checked


@dataclasses.dataclass(frozen=True, kw_only=True)
class Section:
    """Base of the sections: checks all fields when made, and raises all mistakes together.

    Subclasses name themselves in `key`, declare each field with `setting`, and say in
    `disagreements` which fields do not go together.
    """

    key = ""

    def __post_init__(self):
        values, mistakes = check_fields(type(self), vars(self), prefix=f"{self.key}.")
        for name, value in values.items():
            object.__setattr__(self, name, value)
        if mistakes or (mistakes := list(self.disagreements())):
            raise RecipeError(mistakes)

    def disagreements(self):
        """Yields a line for each mistake that is in no field alone."""
        return ()

    def to_dictionary(self):
        """All fields, as the types that JSON and YAML have."""
        return {field.name: plain(getattr(self, field.name)) for field in dataclasses.fields(self)}


def check_fields(kind, values, prefix=""):
    """Returns the checked values of those fields that are declared with `setting`, and mistakes.

    Args:
        kind: the dataclass.
        values: a mapping from its fields; those that are not in it are not checked.
        prefix: of the names in messages.
    """
    checked, mistakes = {}, []
    for field in dataclasses.fields(kind):
        if field.name in values and "check" in field.metadata:
            try:
                name = prefix + field.name
                checked[field.name] = field.metadata["check"](name, values[field.name])
            except RecipeError as error:
                mistakes.extend(error.mistakes)
            except ValueError as error:
                mistakes.append(str(error))
    return checked, mistakes


def plain(value):
    """The value with lists for tuples, and nothing in it shared with the recipe.

    >>> plain({"files": ("a", "b")})
    {'files': ['a', 'b']}
    """
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def with_dotted_names(message, dotted_names, section):
    """The message of another part of the package, with the names that a recipe has for things.

    >>> with_dotted_names("`hidden_dim` must be even.", {"width": "model.hidden_dim"}, "model")
    '`model.hidden_dim` must be even.'
    >>> with_dotted_names("This has no options.", {}, "text.options")
    '`text.options`: This has no options.'

    Args:
        message: what an error said, with names in backticks.
        dotted_names: a mapping from such names to dotted keys.
        section: the key to name if the message names none.
    """
    names = re.findall(r"`(\w+)`", message)
    if not any(name in dotted_names for name in names):
        return f"`{section}`: {message}"
    return re.sub(r"`(\w+)`", lambda match: f"`{dotted_names.get(match[1], match[1])}`", message)


#: What a corpus must hold for each task.
COLUMNS = {"translation": ("source", "target"), "language_model": ("text",)}


def _require_files(name, value):
    """Returns one or two paths or patterns as a tuple, which is empty if there are none."""
    if value is None:
        return ()
    files = (value,) if isinstance(value, str) else value
    if not isinstance(files, list | tuple) or len(files) > 2:
        raise ValueError(
            f"`{name}` must be a file or pattern, or a list of one or two; got {value!r}. For "
            "several files on a side write a pattern, such as 'train.*.en'."
        )
    return tuple(require_text(name, file) for file in files)


def _require_test_files(name, value):
    files = {}
    for corpus, value_of_corpus in require_mapping(name, value).items():
        if not re.fullmatch(r"[\w-]+", corpus):
            raise ValueError(
                f"`{name}` must give each corpus a name of letters, digits, _ and -; got "
                f"{corpus!r}."
            )
        files[corpus] = _require_files(f"{name}.{corpus}", value_of_corpus)
        if not files[corpus]:
            raise ValueError(f"`{name}.{corpus}` names no files. Name one or two, or leave it out.")
    return files


def _require_columns(name, value):
    if not isinstance(value, list | tuple) or not value:
        raise ValueError(f"`{name}` must be a list of names; got {value!r}.")
    return tuple(require_text(name, column) for column in value)


def _require_keys(name, value):
    keys = require_mapping(name, value)
    return {column: require_text(f"{name}.{column}", key) for column, key in keys.items()}


def _require_kind(name, value):
    from keras_transformer.analysis.data_report.open_corpus import KINDS

    return require_choice(name, value, KINDS)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataSection(Section):
    """Where the examples come from. Files are relative to the current directory.

    Attributes:
        builtin: "dates" for the corpus of the quick start, "recall" for values that are asked for a
            known distance later (see `make_recall`), both with validation and test data of their
            own; or null, and `train` names files.
        builtin_pairs: training pairs of the built-in corpus.
        train: one or two files or patterns; of parallel files, the source and the target. A source
            that ends with .conllu is parsed, and may train a model with `tree_positions`.
        validation: likewise, for the validation loss, BLEU and chrF. Without it there are none.
        test: names and files of corpora that are evaluated once, at the end.
        kind, columns, has_header, keys, on_bad_line, encoding_errors: how to read the files; see
            `keras_transformer.analysis.data_report.open_corpus`.
        cache: a directory for tokenized corpora, to share them among runs; null keeps them in the
            run.
    """

    key = "data"

    builtin: str | None = setting(None, or_null(require_choice), choices=("dates", "recall"))
    builtin_pairs: int = setting(20_000, require_positive_integer)
    train: tuple = setting((), _require_files)
    validation: tuple = setting((), _require_files)
    test: Mapping = setting({}, _require_test_files)
    kind: str | None = setting(None, or_null(_require_kind))
    columns: tuple | None = setting(None, or_null(_require_columns))
    has_header: bool = setting(False, require_boolean)
    keys: Mapping | None = setting(None, or_null(_require_keys))
    on_bad_line: str = setting("error", require_choice, choices=("error", "skip"))
    encoding_errors: str = setting("error", require_choice, choices=("error", "replace"))
    cache: str | None = setting(None, or_null(require_text))

    @property
    def has_validation(self):
        """Whether there is anything to validate on."""
        return bool(self.builtin or self.validation)

    def disagreements(self):
        if self.builtin and (self.train or self.validation or self.test):
            given = next(name for name in ("train", "validation", "test") if getattr(self, name))
            yield (
                f"`data.{given}` and `data.builtin` exclude each other: {self.builtin!r} is a "
                "whole corpus. Set one of them to null, or leave it out."
            )
        if not self.builtin and not self.train:
            yield (
                "`data.train` is missing: name one or two files to learn from, or set "
                "`data.builtin` to dates."
            )

    def disagreements_with(self, task):
        """Yields what does not suit the task, as far as the files' names and `kind` tell."""
        if self.builtin and task != "translation":
            yield (
                f"`data.builtin` must be null for the task {task!r}: {self.builtin!r} holds pairs. "
                "Name files in `data.train`."
            )
        for key, files in self._corpora().items():
            try:
                columns = self._columns_of(files)
            except ValueError as error:
                names = {name: f"data.{name}" for name in ("kind", "columns", "has_header", "keys")}
                yield with_dotted_names(str(error), names, key)
                return
            if columns != COLUMNS[task]:
                needed, held = " and ".join(COLUMNS[task]), " and ".join(columns)
                given = f"{files[0]} holds" if len(files) == 1 else f"{' and '.join(files)} hold"
                advice = "Set"
                if task == "translation" and len(files) == 1:
                    advice = "Name two files, such as [train.en, train.de]; or set"
                yield (
                    f"`{key}` must hold {needed} for the task {task!r}; {given} {held}. {advice} "
                    "`data.kind`, `data.columns` or `data.keys` to what is there, or choose "
                    "another `task`."
                )
                return

    def disagreements_with_trees(self):
        """Yields what has no trees, for a model that reads them."""
        if self.builtin:
            yield (
                f"`model.tree_positions` needs parsed sources, and `data.builtin` {self.builtin!r} "
                "has none. Name CoNLL-U files in `data.train`, or set `model.tree_positions` to "
                "none."
            )
        for key, files in self._corpora().items():
            if not self._is_parsed(files):
                yield (
                    f"`{key}` must have a parsed source where `model.tree_positions` is set, such "
                    f"as [train.conllu, train.en]; got {', '.join(files)}. Set `data.kind` to "
                    "conllu if it is CoNLL-U, or `model.tree_positions` to none."
                )
                return

    def _is_parsed(self, files):
        from keras_transformer.analysis.data_report.open_corpus import guess_kind

        try:
            return (self.kind or guess_kind(files)) == "conllu"
        except ValueError:  # which is told by `disagreements_with`
            return True

    def _corpora(self):
        """The files of each corpus that has some, by key."""
        corpora = {"data.train": self.train, "data.validation": self.validation}
        corpora |= {f"data.test.{name}": files for name, files in self.test.items()}
        return {key: files for key, files in corpora.items() if files}

    def _columns_of(self, files):
        from keras_transformer.analysis.data_report.open_corpus import guess_kind
        from keras_transformer.data.corpora.corpus import find_column_set

        kind = self.kind or guess_kind(files)
        if kind != "tsv" and (self.columns or self.has_header):
            name = "columns" if self.columns else "has_header"
            raise ValueError(f"`{name}` is for TSV files; {files[0]} is of the kind {kind!r}.")
        if kind != "json-lines" and self.keys:
            raise ValueError(f"`keys` is for JSON lines; {files[0]} is of the kind {kind!r}.")
        if kind == "json-lines" and not self.keys:
            raise ValueError(
                f"`keys` is missing: {files[0]} holds JSON lines. Say which of theirs hold the "
                "texts, as {source: en, target: de}."
            )
        if kind in ("parallel", "conllu") and len(files) != 2:
            kinds = {"parallel": "Parallel files", "conllu": "Files with parsed sources"}
            raise ValueError(
                f"{kinds[kind]} are two, a source and a target; got {files[0]!r} alone."
            )
        if kind in ("parallel", "conllu"):
            return COLUMNS["translation"]
        if kind in ("line-documents", "blank-line-documents"):
            return COLUMNS["language_model"]
        name, columns = ("columns", self.columns) if kind == "tsv" else ("keys", tuple(self.keys))
        try:
            return find_column_set(columns or COLUMNS["translation"])
        except ValueError as error:
            raise ValueError(f"`{name}`: {error}") from error


#: That of `keras-transformer data`, so that its report is about the same vocabulary.
DEFAULT_SIZE = 8000


def _require_tokenizer(name, value):
    from keras_transformer.text import registered_tokenizers

    return require_choice(name, value, registered_tokenizers())


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextSection(Section):
    """How strings become ids.

    Attributes:
        tokenizer: "sentencepiece", "wordpiece" or "bytes".
        vocabulary_size: ids to learn, the four special ones included; null is 8,000, or 260 where
            the ids are bytes.
        shared: whether source and target have one vocabulary, as in the paper.
        options: of the tokenizer, such as `{model: bpe}`; see `learn_tokenizer`.
        maximum_passages: a larger corpus is sampled down to so many lines to learn from.
        sampling: how wildly training texts are cut at random, anew in each epoch: `alpha` of
            `SentencePieceTokenizer.sample`; 0 is not at all. Of a unigram model the smaller is the
            wilder (Kudo 2018: 0.2); of a BPE model, the larger (Provilkov et al. 2020: 0.1). Texts
            become longer by it, and epochs slower: Multi30k's by a third at 0.1 of BPE.
        sampled: the texts of a translation that are cut so: "source", or "both", as in the two
            papers. A language model has only one.
    """

    key = "text"

    tokenizer: str = setting("sentencepiece", _require_tokenizer)
    vocabulary_size: int | None = setting(None, or_null(require_positive_integer))
    shared: bool = setting(True, require_boolean)
    options: Mapping = setting({}, require_mapping)
    maximum_passages: int = setting(200_000, require_positive_integer)
    sampling: float = setting(0.0, require_share)
    sampled: str = setting("source", require_choice, choices=("source", "both"))

    def __post_init__(self):
        super().__post_init__()
        if self.vocabulary_size is None:
            object.__setattr__(self, "vocabulary_size", self._fixed_size() or DEFAULT_SIZE)

    def disagreements(self):
        try:
            size = self._fixed_size()
        except ValueError as error:
            names = {name: f"text.{name}" for name in ("vocabulary_size", "maximum_passages")}
            names |= {name: f"text.options.{name}" for name in self.options}
            yield with_dotted_names(str(error), names | {"option": "text.options"}, "text.options")
            return
        if size is not None and self.vocabulary_size not in (None, size):
            yield (
                f"`text.vocabulary_size` must be {size} for {self.tokenizer!r}; got "
                f"{self.vocabulary_size}. Leave it out."
            )
        if self.sampling and self.tokenizer != "sentencepiece":
            yield (
                f"`text.sampling` must be 0 for {self.tokenizer!r}, which cuts each text in one "
                f"way; got {self.sampling}. Or set `text.tokenizer` to sentencepiece."
            )
        if self.sampling == 1 and self.options.get("model") == "bpe":
            yield (
                "`text.sampling` must be below 1 for a BPE model: with all merges left out there "
                "are only letters; got 1.0."
            )

    def _fixed_size(self):
        """The size of a vocabulary that is not learned, or None. Raises what learning would raise.

        It is a rehearsal, so that the tokenizer's own checks run before any corpus is read: one
        that learns asks for the first line, and is stopped there.
        """
        import tensorflow as tf

        from keras_transformer.text import learn_tokenizer

        try:
            # In a graph of its own: TensorFlow must not start before it knows of other workers.
            with warnings.catch_warnings(), tf.Graph().as_default():
                warnings.simplefilter("ignore")
                tokenizer = learn_tokenizer(
                    self.tokenizer,
                    _stop_at_first_line(),
                    self.vocabulary_size or DEFAULT_SIZE,
                    maximum_passages=self.maximum_passages,
                    progress=lambda *_: None,
                    **self.options,
                )
        except _LineWantedError:
            return None
        return tokenizer.vocabulary_size


class _LineWantedError(Exception):
    """A tokenizer is content with its settings and wants to read."""


def _stop_at_first_line():
    raise _LineWantedError
    yield


#: Fields of the configs that follow from the rest of the recipe.
DERIVED = frozenset({"vocabulary_size", "target_vocabulary_size", "padding_id", "is_packed"})

#: The kind of model where a recipe says nothing.
DEFAULT_KIND = "transformer"


def config_classes(task):
    """The classes of the configs of a task's models, by kind."""
    from keras_transformer import models

    return {
        "translation": {
            "transformer": models.TransformerConfig,
            "recurrent": models.RecurrentSeq2SeqConfig,
            "convolutional": models.ConvolutionalSeq2SeqConfig,
        },
        "language_model": {"transformer": models.LanguageModelConfig},
    }[require_choice("task", task, ("translation", "language_model"))]


def model_keys(task):
    """The keys that a recipe's `model` may have, of whatever kind it is."""
    fields = (name for config in config_classes(task).values() for name in _fields(config))
    return tuple(dict.fromkeys(("kind", "preset", *fields)))


def _fields(config):
    names = (field.name for field in dataclasses.fields(config))
    return tuple(name for name in names if name not in DERIVED)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelSection:
    """The model's settings, every one of them.

    A recipe gives a `kind` ("transformer", or for translation "recurrent" or "convolutional"), a
    `preset` ("tiny", "small", "base" or "big"; without one, the defaults of the config) and any
    field of the kind's config, such as `TransformerConfig`. What is kept is what they come to,
    without the preset's name: what stands there is what is built.

    Attributes:
        kind: of the model.
        settings: a mapping from fields of the config; the sizes of vocabularies, the id of padding
            and whether rows are packed are not among them.
    """

    kind: str
    settings: dict

    @property
    def reads_trees(self):
        """Whether the model reads the trees of its source."""
        return self.settings.get("tree_positions", "none") != "none"

    @classmethod
    def resolve(cls, values, task, text):
        """Makes the section from what a recipe says.

        Args:
            values: the recipe's keys and values, all of them known.
            task: "translation" or "language_model".
            text: the `TextSection`, or None if that could not be made.
        """
        values, kinds = dict(values), config_classes(task)
        size = text.vocabulary_size if text is not None else 1
        if text is not None and not text.shared and task == "translation":
            # Two vocabularies cannot share a table, so the default cannot be that they do.
            values.setdefault("share_embeddings", "target")
        try:
            kind = require_choice("kind", values.pop("kind", DEFAULT_KIND), kinds)
            config_kind = kinds[kind]
            _require_known(values, kind, config_kind)
            for name in values:
                if name.endswith("_options"):
                    require_mapping(name, values[name])
            if (preset := values.pop("preset", None)) is not None:
                config = config_kind.preset(preset, vocabulary_size=size, **values)
            else:
                config = config_kind(vocabulary_size=size, **values)
            _require_usable(config)
        except (TypeError, ValueError) as error:
            names = {name: f"model.{name}" for name in model_keys(task)}
            raise RecipeError([with_dotted_names(str(error), names, "model")]) from error
        settings = {name: plain(getattr(config, name)) for name in _fields(config_kind)}
        return cls(kind=kind, settings=settings)

    def make_config(self, task, vocabulary_size, target_vocabulary_size=None, is_packed=False):
        """The config of the model, with what the recipe's other sections and the data decide.

        Args:
            task: "translation" or "language_model".
            vocabulary_size: ids of the source, or of all text.
            target_vocabulary_size: ids of the target, where they are not the source's.
            is_packed: whether a language model's rows hold several documents.
        """
        derived = {"vocabulary_size": vocabulary_size}
        if task == "translation":
            derived["target_vocabulary_size"] = target_vocabulary_size
        else:
            derived["is_packed"] = is_packed
        return config_classes(task)[self.kind](**derived, **plain(self.settings))

    def to_dictionary(self):
        """Kind and settings, as the types that JSON and YAML have."""
        return {"kind": self.kind, **plain(self.settings)}


def _require_known(values, kind, config_kind):
    """Raises if a setting is another kind's."""
    known = _fields(config_kind)
    for name in values:
        if name not in ("preset", *known):
            raise ValueError(
                f"`{name}` is no setting of a model of the kind {kind!r}, which has "
                f"{', '.join(known)}. Leave it out, or choose another `kind`."
            )


def _require_usable(config):
    """Raises if the attention cannot do what decoding will ask of it."""
    if not hasattr(config, "decoder_field"):  # no self-attention: its one use is checked already
        return
    config.require_usable(config.decoder_field, is_causal=True, is_cached=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class BatchesSection(Section):
    """How many tokens at once; see `choose_buckets` and `PackedBatches`.

    Attributes:
        tokens: the budget of a batch: its rows times its longest sequence are never more. 4,096 is
            fairseq's usual one.
        max_length: tokens of the longest sequence, END included; the width of packed rows.
        too_long: "skip" or "truncate" what is longer. Packed documents are cut into pieces instead.
        max_buckets: how many shapes of batches there may be; XLA compiles each by itself.
        accumulate: batches in an update: their gradients are summed first, as if they were one.
        packed: whether a language model's rows hold several documents each.
    """

    key = "batches"

    tokens: int = setting(4096, require_positive_integer)
    max_length: int = setting(256, require_integer, minimum=2)
    too_long: str = setting("skip", require_choice, choices=("skip", "truncate"))
    max_buckets: int = setting(20, require_positive_integer)
    accumulate: int = setting(1, require_positive_integer)
    packed: bool = setting(False, require_boolean)

    def disagreements(self):
        if self.tokens < self.max_length:
            yield (
                "`batches.tokens` must be at least `batches.max_length`, or a batch cannot hold "
                f"the longest sequence; got {self.tokens} and {self.max_length}."
            )


#: Schedules that end at a known update, with `final_rate`.
FINITE_SCHEDULES = ("cosine", "linear")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingSection(Section):
    """How long, and how each update is made. Defaults: Vaswani et al. 2017, §5.3 and §5.4.

    Attributes:
        steps: updates in all; or
        epochs: passes over the corpus. One of the two must be given.
        optimizer: "adam", or "adamw" for a `weight_decay` apart from the gradient (Loshchilov and
            Hutter 2019).
        beta_1, beta_2, epsilon: of Adam.
        weight_decay: of AdamW.
        clip_norm: gradients whose global norm is larger are scaled down to it; null for never.
        schedule: of the learning rate after warm-up: "inverse_square_root", "cosine" or "linear"
            down to `final_rate`; or "constant", which has no warm-up.
        learning_rate: the highest rate. Null is the paper's, (width · warmup_steps)^-0.5, and only
            for "inverse_square_root".
        warmup_steps: updates in which the rate rises to it, unless it is constant.
        final_rate: the rate at the end of "cosine" and "linear".
        label_smoothing: the share of probability that is spread over all tokens.
        consistency: α of R-Drop (Liang et al. 2021, "R-Drop: Regularized Dropout for Neural
            Networks"; the paper's is 5), for small corpora: each batch is predicted twice, with
            other units dropped, and the loss grows with how far the two are apart. It takes more
            than twice the time; 0 is without.
        precision: "float32", "mixed_bfloat16", or "mixed_float16" with loss scaling.
        xla: whether XLA compiles the update. It gains on GPUs; each shape of batches costs some
            seconds of compilation.
        ema: momentum of a moving average of the weights; 0 keeps none.
        deterministic: whether the same recipe gives the same weights, bit for bit; on a GPU it
            costs some speed.
        distribution: "none", "mirrored" (all GPUs of this machine), "multi_worker" (TF_CONFIG names
            the workers), or "auto": whichever of them fits what is there.
    """

    key = "training"

    steps: int | None = setting(None, or_null(require_positive_integer))
    epochs: int | None = setting(None, or_null(require_positive_integer))
    optimizer: str = setting("adam", require_choice, choices=("adam", "adamw"))
    beta_1: float = setting(0.9, require_rate)
    beta_2: float = setting(0.98, require_rate)
    epsilon: float = setting(1e-9, require_positive)
    weight_decay: float = setting(0.0, require_not_negative)
    clip_norm: float | None = setting(None, or_null(require_positive))
    schedule: str = setting(
        "inverse_square_root",
        require_choice,
        choices=("inverse_square_root", "constant", *FINITE_SCHEDULES),
    )
    learning_rate: float | None = setting(None, or_null(require_positive))
    warmup_steps: int = setting(4000, require_integer, minimum=0)
    final_rate: float = setting(0.0, require_not_negative)
    label_smoothing: float = setting(0.1, require_rate)
    consistency: float = setting(0.0, require_not_negative)
    precision: str = setting(
        "float32", require_choice, choices=("float32", "mixed_bfloat16", "mixed_float16")
    )
    xla: bool = setting(False, require_boolean)
    ema: float = setting(0.0, require_rate)
    deterministic: bool = setting(True, require_boolean)
    distribution: str = setting(
        "auto", require_choice, choices=("auto", "none", "mirrored", "multi_worker")
    )

    def disagreements(self):
        if (self.steps is None) == (self.epochs is None):
            got = "neither"
            if self.steps is not None:
                got = f"{self.steps} and {self.epochs}. Set one of them to null"
            yield f"One of `training.steps` and `training.epochs` must be given; got {got}."
        if self.weight_decay and self.optimizer != "adamw":
            yield (
                f"`training.weight_decay` must be 0 for {self.optimizer!r}; got "
                f"{self.weight_decay}. Set `training.optimizer` to adamw."
            )
        yield from self._disagreements_of_schedule()

    def _disagreements_of_schedule(self):
        if self.schedule == "inverse_square_root":
            if self.warmup_steps == 0:
                yield (
                    "`training.warmup_steps` must be at least 1 for 'inverse_square_root', whose "
                    "fall is measured in warm-ups; got 0."
                )
        elif self.learning_rate is None:
            yield (
                f"`training.learning_rate` is missing: {self.schedule!r} needs one, such as 1e-3. "
                "Only 'inverse_square_root' has one by itself."
            )
        if self.schedule in FINITE_SCHEDULES:
            if self.steps is not None and self.steps <= self.warmup_steps:
                yield (
                    "`training.steps` must be more than `training.warmup_steps`, which it "
                    f"includes; got {self.steps} and {self.warmup_steps}."
                )
            if self.learning_rate is not None and self.final_rate > self.learning_rate:
                yield (
                    "`training.final_rate` must not be above `training.learning_rate`; got "
                    f"{self.final_rate} and {self.learning_rate}."
                )
        elif self.final_rate:
            yield (
                f"`training.final_rate` must be 0 for {self.schedule!r}, which has no end; got "
                f"{self.final_rate}. Set `training.schedule` to cosine or linear."
            )


def _require_search(name, value):
    """Returns all fields of `SearchSettings`, those of `value` and the defaults."""
    from keras_transformer.decoding import SearchSettings

    known = [field.name for field in dataclasses.fields(SearchSettings)]
    mistakes = [
        unknown_key(name, key, {name: known})
        for key in require_mapping(name, value)
        if key not in known
    ]
    try:
        settings = _search_settings({key: value[key] for key in value if key in known})
        # Its rules are checked where they are made.
        settings.make(longest=settings.max_length or settings.min_length)
    except (TypeError, ValueError) as error:
        names = {field: f"{name}.{field}" for field in known}
        mistakes.append(with_dotted_names(str(error), names, name))
    if mistakes:
        raise RecipeError(mistakes)
    return plain(dataclasses.asdict(settings))


def _search_settings(values):
    from keras_transformer.decoding import SearchSettings

    forbidden = values.get("forbidden_ids", ())
    if not isinstance(forbidden, list | tuple):
        raise ValueError(f"`forbidden_ids` must be a list of ids; got {forbidden!r}.")
    for number in forbidden:
        require_integer("forbidden_ids", number, minimum=0)
    return SearchSettings(**{**values, "forbidden_ids": tuple(forbidden)})


def _require_bleu_tokens(name, value):
    from keras_transformer.inference import BLEU_TOKENS

    return require_choice(name, value, BLEU_TOKENS)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluationSection(Section):
    """How the model is judged while it learns, and when it has learned enough.

    Attributes:
        every: updates between evaluations.
        sentences: validation sentences that are translated for BLEU and chrF; 0 for none. Of no
            meaning for a language model.
        search: the fields of `SearchSettings`; also those of the exported model. The defaults are
            the paper's (§6.1): 4 beams, length penalty 0.6.
        stop_after: evaluations without an improvement after which training stops; null for never.
        metric: by which "better" is told: "loss", "bleu" or "chrf".
        bleu_tokens: what BLEU counts, by sacrebleu's names: "13a" for texts as people write them,
            "none" for texts that are cut into tokens already; see `evaluate_translations`.
        show: translations that are shown at the end.
    """

    key = "evaluation"

    every: int = setting(1000, require_positive_integer)
    sentences: int = setting(500, require_integer, minimum=0)
    search: Mapping = setting({}, _require_search)
    stop_after: int | None = setting(None, or_null(require_positive_integer))
    metric: str = setting("loss", require_choice, choices=("loss", "bleu", "chrf"))
    bleu_tokens: str = setting("13a", _require_bleu_tokens)
    show: int = setting(12, require_integer, minimum=0)

    def search_settings(self):
        """The `SearchSettings` that `search` stands for."""
        return _search_settings(self.search)

    def disagreements(self):
        if self.metric != "loss" and not self.sentences:
            yield (
                f"`evaluation.sentences` must be at least 1 for `evaluation.metric` "
                f"{self.metric!r}; got 0."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckpointsSection(Section):
    """What is kept, and which weights become the model.

    Attributes:
        every: updates between checkpoints.
        keep: the last so many are kept.
        average: the last so many are averaged at the end, if `final` asks for it; 5 is the paper's
            number for its base models (§6.1).
        final: the weights that become the model: "average", "last", "best" by the evaluation's
            metric, or "ema", the moving average of `training.ema`.
    """

    key = "checkpoints"

    every: int = setting(1000, require_positive_integer)
    keep: int = setting(5, require_positive_integer)
    average: int = setting(5, require_positive_integer)
    final: str = setting("average", require_choice, choices=("average", "best", "last", "ema"))

    def disagreements(self):
        if self.average > self.keep:
            yield (
                "`checkpoints.average` must not be more than `checkpoints.keep`; got "
                f"{self.average} and {self.keep}. Keep more, or average fewer."
            )


def _require_range(name, value):
    """Returns the first and the last of some updates."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ValueError(
            f"`{name}` must be a list of the first and the last update; got {value!r}."
        )
    first, last = (require_positive_integer(name, update) for update in value)
    if first > last:
        raise ValueError(f"`{name}` must not end before it begins; got {value!r}.")
    return first, last


@dataclasses.dataclass(frozen=True, kw_only=True)
class TensorboardSection(Section):
    """What can be watched in TensorBoard.

    Attributes:
        every: updates between scalars.
        attention: examples whose attention maps are drawn at each evaluation; 0 for none.
        samples: translations in the table of each evaluation; 0 for none.
        projector: whether the embeddings are shown with the vocabulary as labels.
        histograms: whether those of the weights are written; they make the logs large.
        profile: the first and the last update to profile, as `[100, 110]`; null for none.
    """

    key = "tensorboard"

    every: int = setting(50, require_positive_integer)
    attention: int = setting(2, require_integer, minimum=0)
    samples: int = setting(10, require_integer, minimum=0)
    projector: bool = setting(True, require_boolean)
    histograms: bool = setting(False, require_boolean)
    profile: tuple | None = setting(None, or_null(_require_range))


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportSection(Section):
    """Where the SavedModel goes.

    Attributes:
        to: the directory of all models: the next version appears as DIR/<name>/<version>. Null is
            inside the run.
        weights: the type they are stored in: "float32", "float16" or "bfloat16".
        enabled: whether there is an export at all.
    """

    key = "export"

    to: str | None = setting(None, or_null(require_text))
    weights: str = setting("float32", require_choice, choices=("float32", "float16", "bfloat16"))
    enabled: bool = setting(True, require_boolean)


TASKS = tuple(COLUMNS)

#: All but `model`, whose keys depend on the task.
PLAIN_SECTIONS = {
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
    "name": "say what the model is called, such as dates",
    "task": f"say what it learns, {' or '.join(TASKS)}",
}


def require_directory_name(name, value):
    """Returns `value` if it can be the name of a directory on every system."""
    require_text(name, value)
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", value):
        raise ValueError(
            f"`{name}` must be at most 100 letters, digits, _, - and ., the first neither - nor .: "
            f"it is the name of a directory; got {value!r}."
        )
    return value


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """All that decides about a training; `load_recipe` reads one from a file.

    Attributes:
        name: of the model, and of the directory of its exports.
        task: "translation", from a source to a target, or "language_model", text that goes on.
        seed: of everything that is random.
        data, text, model, batches, training, evaluation, checkpoints, tensorboard, export: its
            sections; see their classes.

    Example:

    >>> recipe = Recipe.from_dictionary({
    ...     "name": "dates",
    ...     "task": "translation",
    ...     "data": {"builtin": "dates"},
    ...     "model": {"preset": "tiny", "dropout": 0.0},
    ...     "training": {"steps": 1000},
    ... })
    >>> recipe.training.warmup_steps, recipe.model.settings["hidden_dim"]
    (4000, 128)
    """

    name: str = setting(dataclasses.MISSING, require_directory_name)
    task: str = setting(dataclasses.MISSING, require_choice, choices=TASKS)
    seed: int = setting(1, require_seed)
    data: DataSection
    text: TextSection
    model: ModelSection
    batches: BatchesSection
    training: TrainingSection
    evaluation: EvaluationSection
    checkpoints: CheckpointsSection
    tensorboard: TensorboardSection
    export: ExportSection

    def __post_init__(self):
        _, mistakes = check_fields(type(self), vars(self))
        if mistakes or (mistakes := list(self._disagreements())):
            raise RecipeError(mistakes)

    @classmethod
    def from_dictionary(cls, dictionary):
        """Makes a recipe of a mapping from names to values, as `load_recipe` reads it from a file.

        Raises:
            RecipeError: with a line for each thing that is wrong.
        """
        if not isinstance(dictionary, dict):
            raise RecipeError(
                [f"A recipe must be a mapping from keys to values; got {dictionary!r}."]
            )
        values, mistakes = check_fields(cls, dictionary)
        mistakes += [
            f"`{key}` is missing: {advice}."
            for key, advice in _REQUIRED.items()
            if key not in dictionary
        ]
        given = _split(cls, dictionary, mistakes, values.get("task"))
        for key, kind in PLAIN_SECTIONS.items():
            if key in given:
                _collect(values, mistakes, key, lambda kind=kind, key=key: kind(**given[key]))
        if "model" in given and "task" in values:
            _collect(
                values,
                mistakes,
                "model",
                lambda: ModelSection.resolve(given["model"], values["task"], values.get("text")),
            )
        if mistakes:
            raise RecipeError(mistakes)
        return cls(**values)

    def to_dictionary(self):
        """Every key with its value, as the types that JSON and YAML have."""
        return {
            field.name: value.to_dictionary() if hasattr(value, "to_dictionary") else plain(value)
            for field in dataclasses.fields(self)
            for value in [getattr(self, field.name)]
        }

    def to_yaml(self):
        """The recipe as resolved, as a file that `load_recipe` reads."""
        dictionary = self.to_dictionary()
        head = {key: dictionary.pop(key) for key in ("name", "task", "seed")}
        parts = [head, *({key: section} for key, section in dictionary.items())]
        title = "# As resolved: what the recipe did not say has its default.\n"
        return title + "\n".join(write_yaml(part) for part in parts)

    def _disagreements(self):
        """Yields a line for each mistake that is in no section alone."""
        yield from self.data.disagreements_with(self.task)
        if self.task == "translation":
            yield from self._disagreements_of_translation()
        else:
            yield from self._disagreements_of_language_model()
        yield from self._disagreements_of_validation()
        config = self.model.make_config(self.task, vocabulary_size=1)
        for field, limit in config.length_limits().items():
            if limit < self.batches.max_length:
                yield (
                    "`model.max_length` must be at least `batches.max_length` where "
                    f"`model.{field}` is {getattr(config, field)}; got {limit} and "
                    f"{self.batches.max_length}."
                )
        if self.checkpoints.final == "ema" and not self.training.ema:
            yield (
                "`training.ema` must be above 0, such as 0.999, for `checkpoints.final` 'ema'; got "
                f"{self.training.ema}."
            )
        rates = [rate for name, rate in self.model.settings.items() if name.endswith("dropout")]
        if self.training.consistency and not any(rates):
            yield (
                "`model.dropout` must be above 0 for `training.consistency`: without it the two "
                "predictions of a batch are the same; got 0.0."
            )
        profile, steps = self.tensorboard.profile, self.training.steps
        if profile is not None and steps is not None and profile[1] > steps:
            yield (
                f"`tensorboard.profile` must end by `training.steps`; got {list(profile)} and "
                f"{steps}."
            )

    def _disagreements_of_translation(self):
        if self.model.reads_trees:
            yield from self.data.disagreements_with_trees()
        if not self.text.shared and self.model.settings["share_embeddings"] == "all":
            yield (
                "`model.share_embeddings` must be target or none where `text.shared` is false: two "
                "vocabularies cannot share a table; got 'all'."
            )
        if self.batches.packed:
            yield "`batches.packed` must be false for the task 'translation'; got True."

    def _disagreements_of_language_model(self):
        if not self.text.shared:
            yield (
                "`text.shared` must be true for the task 'language_model', which has one "
                "vocabulary; got False."
            )
        if self.batches.packed:
            try:
                self.model.make_config(self.task, vocabulary_size=1, is_packed=True)
            except ValueError as error:
                yield f"`batches.packed`: {error}"
        if self.batches.packed and self.text.sampling:
            yield (
                "`text.sampling` must be 0 for packed rows, whose lengths are fixed; got "
                f"{self.text.sampling}. Or set `batches.packed` to false."
            )
        if self.data.test:
            yield (
                "`data.test` must be left out for the task 'language_model': tests compare "
                f"translations with references; got {', '.join(self.data.test)}. Name the files in "
                "`data.validation`."
            )
        if self.evaluation.metric != "loss":
            yield (
                "`evaluation.metric` must be loss for the task 'language_model', which has no "
                f"references; got {self.evaluation.metric!r}."
            )

    def _disagreements_of_validation(self):
        if self.data.has_validation:
            return
        needing = {
            "`evaluation.stop_after`": self.evaluation.stop_after is not None,
            f"`evaluation.metric` {self.evaluation.metric!r}": self.evaluation.metric != "loss",
            "`checkpoints.final` 'best'": self.checkpoints.final == "best",
        }
        for name, is_needed in needing.items():
            if is_needed:
                yield f"{name} needs validation data. Name files in `data.validation`."


def _split(cls, dictionary, mistakes, task):
    """Returns the known keys and values of each section; of what is wrong, adds to `mistakes`."""
    known = {"": [field.name for field in dataclasses.fields(cls)]}
    for key, kind in PLAIN_SECTIONS.items():
        known[key] = [field.name for field in dataclasses.fields(kind)]
    of_tasks = TASKS if task is None else (task,)
    known["model"] = list(dict.fromkeys(key for name in of_tasks for key in model_keys(name)))
    mistakes += [unknown_key("", key, known) for key in dictionary if key not in known[""]]
    given = {}
    for section in (*PLAIN_SECTIONS, "model"):
        values = dictionary.get(section)
        if values is None:  # left out, or nothing stands below it
            values = {}
        if not isinstance(values, dict):
            names = ", ".join(known[section][:3])
            mistakes.append(
                f"`{section}` must be a section with keys such as {names}; got {values!r}."
            )
            continue
        mistakes += [
            unknown_key(section, key, known) for key in values if key not in known[section]
        ]
        given[section] = {key: value for key, value in values.items() if key in known[section]}
    return given


def _collect(values, mistakes, key, make):
    """Puts what `make` gives into `values`, or its mistakes to the others."""
    try:
        values[key] = make()
    except RecipeError as error:
        mistakes.extend(error.mistakes)
