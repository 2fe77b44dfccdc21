"""Pairs of which the source is parsed: CoNLL-U, and a line of text for each sentence."""

from keras_transformer.data.corpora.conllu_sentences import read_sentences
from keras_transformer.data.corpora.dependency_tree import DependencyTree
from keras_transformer.data.corpora.parallel import ParallelCorpus
from keras_transformer.data.corpora.tally import TOO_LONG, Tally


class ConlluCorpus(ParallelCorpus):
    """Pairs with a parsed source: sentence n of a CoNLL-U file goes with line n of a text file.

    The source's text is its words with a space between them, words in the sense of the format (see
    `read_sentences`): what the tree is about. `trees` gives the trees, for `TreeBatches`, and
    `parsed_examples` what a model that reads trees is given as strings.

    Args:
        source: A path of CoNLL-U, a pattern, or a list of them.
        target: The same for files of text. The first goes with the first source file, and so on.
        rules: A `ReadingRules`. With `on_bad_line="skip"` a sentence with a flaw is left out
            together with its target.

    Example:

    >>> import pathlib, tempfile
    >>> words = "1 Hunde _ _ _ _ 2 _ _ _", "2 schlafen _ _ _ _ 0 _ _ _", ""
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     german, english = pathlib.Path(folder, "de.conllu"), pathlib.Path(folder, "en.txt")
    ...     _ = german.write_text("\\n".join(words).replace(" ", "\\t"))
    ...     _ = english.write_text("Dogs sleep\\n")
    ...     corpus = ConlluCorpus(source=german, target=english)
    ...     list(corpus), [tree.depths() for tree in corpus.trees()]
    ([('Hunde schlafen', 'Dogs sleep')], [(2, 1)])
    """

    source_unit = "sentence"

    def read(self, tally):
        for tree, target in self._parsed(tally):
            yield tree.text, target

    def trees(self):
        """Yields the `DependencyTree` of each example, in the order of the examples."""
        for tree, _ in self._parsed(Tally()):
            yield tree

    def parsed_examples(self):
        """Yields the examples with their sources as CoNLL-U, see `DependencyTree.conllu`."""
        for tree, target in self._parsed(Tally()):
            yield tree.conllu, target

    def read_source(self, path, tally):
        for tree in read_sentences(self.lines(path, tally), tally):
            is_tree = isinstance(tree, DependencyTree)
            is_long = is_tree and len(tree.text) > self.rules.max_characters
            yield TOO_LONG if is_long else tree

    def _parsed(self, tally):
        """Yields tree and target of each example, after leaving out what the rules say."""
        for record in self.records(tally):
            if record is TOO_LONG:
                tally.too_long += 1
            elif not isinstance(record, tuple):
                tally.refuse(record, self.rules)
            elif not record[1] or record[1].isspace():
                tally.blank_lines += 1
            else:
                yield record
