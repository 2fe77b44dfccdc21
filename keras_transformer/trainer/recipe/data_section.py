"""The recipe's `data`: where the examples come from."""

import dataclasses
import re
from collections.abc import Mapping

from keras_transformer.checks import (
    require_boolean,
    require_choice,
    require_mapping,
    require_positive_integer,
    require_text,
)
from keras_transformer.trainer.recipe.section import Section, or_null, setting, with_dotted_names

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
    from keras_transformer.data.report.open_corpus import KINDS

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
            `keras_transformer.data.report.open_corpus`.
        cache: a directory for tokenised corpora, to share them among runs; null keeps them in the
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
        from keras_transformer.data.report.open_corpus import guess_kind

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
        from keras_transformer.data.corpora.corpus import find_column_set
        from keras_transformer.data.report.open_corpus import guess_kind

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
