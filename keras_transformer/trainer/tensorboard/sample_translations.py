"""What the model makes of a few sentences, to be read."""

import tensorflow as tf

from keras_transformer.checks import require_positive_integer
from keras_transformer.printable import shown
from keras_transformer.trainer.tensorboard.event_callback import VALIDATION, EventCallback

# What Markdown or HTML would take as a sign of their own.
_SIGNS = {ord(sign): f"&#{ord(sign)};" for sign in "\\`*_{}[]()<>#+-.!|&~:\"'="}


class SampleTranslations(EventCallback):
    """Writes a table of sources, references and the model's own translations at each evaluation.

    The sentences are the first ones of the `TranslationQuality`, the same at each evaluation, so
    that one can see them get better.

    Args:
        log_dir: the directory that is given to TensorBoard.
        quality: a `TranslationQuality` that stands before this callback in the list.
        rows: how many sentences there are in the table, at most.
    """

    def __init__(self, log_dir, quality, rows=10):
        super().__init__(log_dir)
        self.quality = quality
        self.rows = require_positive_integer("rows", rows)

    def on_test_end(self, logs=None):
        if self.quality.hypotheses is None:
            raise ValueError(
                "There are no translations yet: `SampleTranslations` must stand after its "
                "`TranslationQuality` in the list of callbacks."
            )
        with self.writing(VALIDATION):
            tf.summary.text("translations", make_table(self.quality.samples(self.rows)))


def make_table(rows):
    """Returns a table in Markdown of rows of source, reference and hypothesis.

    >>> print(make_table([("a|b", "<b>", "*c*")]))
    | source | reference | hypothesis |
    |---|---|---|
    | a&#124;b | &#60;b&#62; | &#42;c&#42; |
    """
    lines = ["| source | reference | hypothesis |", "|---|---|---|"]
    lines += [f"| {' | '.join(map(_escaped, row))} |" for row in rows]
    return "\n".join(lines)


def _escaped(text):
    return shown(text).translate(_SIGNS)
