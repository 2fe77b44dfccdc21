"""Pairs in two parallel text files: line n of one belongs to line n of the other."""

import itertools
import os
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from keras_transformer._utils.errors import UserError
from keras_transformer._utils.types import Path
from keras_transformer.data.corpora.corpus import (
    TOO_LONG,
    BadRecordError,
    ReadingRules,
    Tally,
)
from keras_transformer.data.corpora.file_corpus import Paths, TextFileCorpus, find_files
from keras_transformer.data.corpora.formats import register_format


@register_format("parallel")
class ParallelCorpus(TextFileCorpus):
    """Pairs in parallel files: line n of a source file belongs to line n of its target file.

    Args:
        source: A path, a pattern such as `"train.*.de.gz"`, or a list of them. Files that match a
            pattern are used in sorted order.
        target: The same for the target side. The first source file belongs to the first target
            file, and so on; the two files of a pair must have the same number of lines.
        rules: A `ReadingRules`.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     german, english = pathlib.Path(folder, "train.de"), pathlib.Path(folder, "train.en")
    ...     _ = german.write_text("Guten Tag\\nDanke\\n")
    ...     _ = english.write_text("Good day\\nThank you\\n")
    ...     list(ParallelCorpus(source=german, target=english))
    [('Guten Tag', 'Good day'), ('Danke', 'Thank you')]
    """

    title: ClassVar[str] = "two text files, source and target, one pair per line"
    columns: tuple[str, ...] = ("source", "target")
    #: Unit in which a source file is counted, and type of its examples.
    source_unit: ClassVar[str] = "line"
    source_type: ClassVar[type] = str

    def __init__(self, source: Paths, target: Paths, rules: ReadingRules = ReadingRules()) -> None:
        sources, targets = find_files("source", source), find_files("target", target)
        if len(sources) != len(targets):
            raise UserError(
                f"source files: {len(sources):,}, but target files: {len(targets):,} "
                f"({targets[0]} first).",
                where=sources[0],
                fix="Give one target file for each source file.",
            )
        self._pairs_of_files = tuple(zip(sources, targets, strict=True))
        super().__init__(sources + targets, rules)
        self._warnings = [
            f"{source} and {target} are the same file: the model would learn to copy."
            for source, target in self._pairs_of_files
            if os.path.samefile(source, target)
        ]

    @classmethod
    def claims(cls, files: Iterable[Path]) -> bool:
        return super().claims(list(files)[:1])

    @classmethod
    def find_columns(cls, files: Iterable[Path], **options: Any) -> tuple[str, ...]:
        cls._source_and_target(files)
        return cls.columns

    @classmethod
    def open(cls, files: Iterable[Path], rules: ReadingRules, **options: Any) -> "ParallelCorpus":
        return cls(*cls._source_and_target(files), rules=rules)

    @classmethod
    def _source_and_target(cls, files: Iterable[Path]) -> list[Path]:
        files = list(files)
        if len(files) != 2:
            raise UserError(
                f"The format {cls.registered_name} takes two files, the source and the target; got "
                f"{len(files)} ({', '.join(map(str, files[:3]))}).",
                fix="For several files on each side give two patterns in quotes, such as "
                "'train.*.de' 'train.*.en'.",
            )
        return files

    def read_source(self, path: str, tally: Tally) -> Iterator[Any]:
        """Yields a source, `BadRecordError` or `TOO_LONG` for each line of the target file."""
        return self.lines(path, tally)

    def records(self, tally: Tally) -> Iterator[Any]:
        tally.warnings.extend(self._warnings)
        for source, target in self._pairs_of_files:
            yield from self._aligned_files(source, target, tally)

    def _aligned_files(self, source: str, target: str, tally: Tally) -> Iterator[Any]:
        sources, targets = self.read_source(source, tally), self.lines(target, tally)
        for number, pair in enumerate(itertools.zip_longest(sources, targets), start=1):
            if type(pair[1]) is str and type(pair[0]) is self.source_type:
                yield pair
            elif None in pair:
                # One generator has ended; the other has yielded this line and may have more.
                shorter = number - 1
                longer = number + sum(1 for _ in itertools.chain(sources, targets))
                counts = (shorter, longer) if pair[0] is None else (longer, shorter)
                unit, (left, right) = self.source_unit, counts
                raise UserError(
                    f"{unit} count {left:,}, but {target}: line count {right:,}.",
                    where=source,
                    fix=f"{unit.capitalize()} n of one file must belong to line n of the other: "
                    "find what is missing.",
                )
            else:  # a bad side is reported rather than one that is too long
                yield next((side for side in pair if isinstance(side, BadRecordError)), TOO_LONG)
