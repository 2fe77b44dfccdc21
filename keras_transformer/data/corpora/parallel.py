"""Pairs in two parallel files: line n of one goes with line n of the other."""

import itertools
import os

from keras_transformer._utils.errors import UserError
from keras_transformer.data.corpora.corpus import ReadingRules
from keras_transformer.data.corpora.file_corpus import FileCorpus, find_files
from keras_transformer.data.corpora.text_file import TOO_LONG, BadLine


class ParallelCorpus(FileCorpus):
    """Pairs in parallel files: line n of a source file goes with line n of its target file.

    Args:
        source: A path, a pattern such as `"train.*.de.gz"`, or a list of them. Files that a
            pattern matches are taken in sorted order.
        target: The same for the other side. The first source file goes with the first target
            file, and so on; each two must have the same number of lines.
        rules: A `ReadingRules`.

    Example:

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     german, english = pathlib.Path(folder, "train.de"), pathlib.Path(folder, "train.en")
    ...     _ = german.write_text("Guten Tag\\nDanke\\n")
    ...     _ = english.write_text("Good day\\nThank you\\n")
    ...     list(ParallelCorpus(source=german, target=english))
    [('Guten Tag', 'Good day'), ('Danke', 'Thank you')]
    """

    columns = ("source", "target")
    #: What a source file is counted in.
    source_unit = "line"

    def __init__(self, source, target, rules=ReadingRules()):
        sources, targets = find_files("source", source), find_files("target", target)
        if len(sources) != len(targets):
            raise UserError(
                f"{sources[0]}: source files: {len(sources):,}, but target files: {len(targets):,} "
                f"({targets[0]} first). Give one target file for each source file."
            )
        self._pairs_of_files = tuple(zip(sources, targets, strict=True))
        super().__init__(sources + targets, rules)
        self._warnings = [
            f"{source} and {target} are the same file: the model would learn to copy."
            for source, target in self._pairs_of_files
            if os.path.samefile(source, target)
        ]

    def settings(self):
        return {}

    def records(self, tally):
        tally.warnings.extend(self._warnings)
        for source, target in self._pairs_of_files:
            yield from self._pairs(source, target, tally)

    def read_source(self, path, tally):
        """Yields what goes with a line of the target file, a `BadLine` or `TOO_LONG`."""
        return self.lines(path, tally)

    def _pairs(self, source, target, tally):
        sources, targets = self.read_source(source, tally), self.lines(target, tally)
        for number, pair in enumerate(itertools.zip_longest(sources, targets), start=1):
            flaws = [side for side in pair if side is TOO_LONG or isinstance(side, BadLine)]
            if None in pair:
                # One generator has ended; the other has given this line and may have more.
                shorter = number - 1
                longer = number + sum(1 for _ in itertools.chain(sources, targets))
                counts = (shorter, longer) if pair[0] is None else (longer, shorter)
                raise UserError(
                    f"{source}: {self.source_unit} count {counts[0]:,}, but {target}: line count "
                    f"{counts[1]:,}. {self.source_unit.capitalize()} n of one must go with line n "
                    "of the other: find what is missing."
                )
            elif flaws:
                yield next((flaw for flaw in flaws if isinstance(flaw, BadLine)), TOO_LONG)
            else:
                yield pair
