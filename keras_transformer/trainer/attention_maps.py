"""What each head of each layer attends to, as pictures."""

import functools
import io

import numpy as np
import tensorflow as tf

from keras_transformer._utils.checks import require_positive_integer
from keras_transformer._utils.errors import UserError
from keras_transformer.export.modules import parse_conllu, reads_trees, tree_inputs
from keras_transformer.inference.attention_maps import label_of, plain_settings
from keras_transformer.inference.translation import as_tensor
from keras_transformer.text import END_ID, START_ID, Tokenizer, TokenizerPair
from keras_transformer.trainer.tensorboard import VALIDATION, EventCallback

# Two heads of some ten tokens side by side are as wide as TensorBoard shows a picture, 400 dots.
_CELL_DOTS = 14
_FONT_POINTS = 7.5
_DOTS_PER_INCH = 100
_GAP_DOTS = 10
_MARGIN_DOTS = 4  # between labels and cells
_COLUMNS = 2
_LONGEST_LABEL = 14
_LINE_COLOUR = 220  # "gainsboro", as in the picture of one alignment


def draw_attention_heads(weights, row_tokens, column_tokens):
    """Returns the picture of a layer's heads, side by side, as the bytes of a PNG file.

    Each row is a token that attends, each column one that is attended to; the darker, the more. The
    darkest cell of each head has the weight that is written above it. Labels are drawn once for all
    pictures with the same tokens, so that many layers take little time.

    Args:
        weights: of all heads, [H, T, S].
        row_tokens: T strings, as a tokenizer's vocabulary has them.
        column_tokens: S strings.
    """
    from matplotlib import image

    weights = np.asarray(weights, "float32")
    shape = len(row_tokens), len(column_tokens)
    if weights.ndim != 3 or weights.shape[1:] != shape or 0 in weights.shape:
        raise ValueError(
            "`weights` must have shape [heads, row tokens, column tokens] = [H, "
            f"{shape[0]}, {shape[1]}], none of them 0; got {weights.shape}."
        )
    left = _draw_labels(tuple(map(_short, row_tokens)), "right")
    # Turned, so that they are read from below, beginning at the cells.
    top = np.rot90(_draw_labels(tuple(map(_short, column_tokens)), "left"))
    heads = [_draw_head(number, head, top) for number, head in enumerate(weights, start=1)]
    width = max(head.shape[1] for head in heads) + _GAP_DOTS
    heads = [_widened(head, width) for head in heads]
    heads += [np.full_like(heads[0], 255)] * (-len(heads) % _COLUMNS)
    left = np.vstack([np.full((len(heads[0]) - len(left), left.shape[1], 3), 255, np.uint8), left])
    left = _widened(left, left.shape[1] + _MARGIN_DOTS)
    rows = [
        np.hstack([left, *heads[start : start + _COLUMNS]])
        for start in range(0, len(heads), _COLUMNS)
    ]
    content = io.BytesIO()
    image.imsave(content, np.vstack(rows), format="png")
    return content.getvalue()


def _short(token):
    return label_of(token, _LONGEST_LABEL)


def _draw_head(number, weights, top):
    """A picture [height, width, 3] of one head below the labels of its columns."""
    largest = float(weights.max()) or 1.0
    # In two parts, each of which is the same in many pictures.
    title = [_draw_labels((text,), "left") for text in (f"head {number}", f"≤ {largest:.2f}")]
    parts = [
        np.full((_GAP_DOTS, 1, 3), 255, np.uint8),
        np.hstack([_widened(title[0], title[0].shape[1] + _GAP_DOTS), title[1]]),
        top,
        np.full((_MARGIN_DOTS, 1, 3), 255, np.uint8),
        _draw_cells(weights / largest),
    ]
    width = max(part.shape[1] for part in parts)
    return np.vstack([_widened(part, width) for part in parts])


def _widened(part, width):
    """The same with white at its right."""
    return np.pad(part, ((0, 0), (0, width - part.shape[1]), (0, 0)), constant_values=255)


def _draw_cells(shades):
    """Squares [T · dots, S · dots, 3] of shades from 0 to 1 [T, S], with lines between them."""
    from matplotlib import colormaps

    colors = colormaps["Blues"](shades, bytes=True)[..., :3]
    cells = colors.repeat(_CELL_DOTS, axis=0).repeat(_CELL_DOTS, axis=1)
    cells[_CELL_DOTS - 1 :: _CELL_DOTS] = _LINE_COLOUR
    cells[:, _CELL_DOTS - 1 :: _CELL_DOTS] = _LINE_COLOUR
    return cells


@functools.lru_cache(maxsize=512)
def _draw_labels(labels, side):
    """A strip [N · dots, width, 3] of N labels one below the other, aligned at a side."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    height = len(labels) * _CELL_DOTS
    with plain_settings():
        figure = Figure(dpi=_DOTS_PER_INCH)
        canvas = FigureCanvasAgg(figure)
        texts = [
            # A token such as "$x$" is no formula.
            figure.text(0, 0, label, fontsize=_FONT_POINTS, ha=side, parse_math=False)
            for label in labels
        ]
        width = max(1, *(int(np.ceil(text.get_window_extent().width)) for text in texts)) + 2
        figure.set_size_inches(width / _DOTS_PER_INCH, height / _DOTS_PER_INCH)
        for number, text in enumerate(texts):
            text.set_verticalalignment("center_baseline")
            text.set_position(
                (
                    (width - 1) / width if side == "right" else 1 / width,
                    1 - (number + 0.5) / len(texts),
                )
            )
        canvas.draw()
        return np.array(canvas.buffer_rgba())[:height, :width, :3]


# Weights of all heads take memory by the square of a length: of long documents this much is read.
_MOST_READ = 512


class AttentionMaps(EventCallback):
    """Draws the attention of a few examples at each evaluation.

    A picture shows all heads of one layer: each row is a token that the model writes (or, in an
    encoder, reads), each column a token that it can look at. The tags are
    "attention/encoder/layer_1", "attention/decoder/layer_1" and "attention/cross/layer_1", as far
    as the model has them, each with a picture for each example.

    Args:
        log_dir: the directory that is given to TensorBoard.
        tokenizers: a `TokenizerPair`, or a `Tokenizer` for both sides.
        sources: a list of a few strings, in CoNLL-U for a model that reads trees. A model without a
            source or without a target, such as a `LanguageModel`, is shown these texts alone.
        targets: translations of the sources, as many.
        most_tokens: of a longer text the beginning is drawn, as more could not be read.
    """

    def __init__(self, log_dir, tokenizers, sources, targets=None, most_tokens=40):
        super().__init__(log_dir)
        is_single = isinstance(tokenizers, Tokenizer)
        self.tokenizers = TokenizerPair(tokenizers) if is_single else tokenizers
        if isinstance(sources, str) or isinstance(targets, str) or not len(sources):
            raise ValueError(
                f"`sources` and `targets` must be lists of texts; got {sources!r} and {targets!r}."
            )
        if targets is not None and len(targets) != len(sources):
            raise UserError(
                f"There must be as many of each; got {len(sources):,} sources, {len(targets):,} "
                "targets. Find what is missing."
            )
        self.sources, self.targets = sources, targets
        self.most_tokens = require_positive_integer("most_tokens", most_tokens)

    def on_train_begin(self, logs=None):
        self._input_texts()  # what does not fit is said before training, not after a part of it

    def on_test_end(self, logs=None):
        texts = {name: as_tensor(texts) for name, texts in self._input_texts().items()}
        parsed = None
        if reads_trees(self.model.config):
            parsed = parse_conllu(texts["source"], most_words=self.model.config.max_length)
            texts["source"] = parsed.texts
        ids = {name: self._ids(name, strings) for name, strings in texts.items()}
        inputs = {name: ragged.to_tensor() for name, ragged in ids.items()}
        if parsed is not None:
            tokenizer = self.tokenizers.source
            sizes = tokenizer.word_sizes(parsed.words)
            inputs |= tree_inputs(tokenizer, inputs["source"], sizes, parsed.heads)
        weights = self.model.attention_weights(**inputs)
        labels = {name: self._labels(name, ragged) for name, ragged in ids.items()}
        if "target" in ids:
            # Who attends is named by what it writes: the token after the one that it reads.
            ends = tf.fill([ids["target"].nrows(), 1], END_ID)
            labels["written"] = self._labels("target", tf.concat([ids["target"][:, 1:], ends], 1))
        sides = {
            "encoder": ("source", "source"),
            "decoder": ("written", "target"),
            "cross": ("written", "source"),
        }
        with self.writing(VALIDATION):
            for kind, of_blocks in weights.items():
                rows, columns = (labels[side] for side in sides[kind])
                of_blocks = tf.cast(of_blocks, tf.float32).numpy()  # [B, N, H, ·, ·]
                for block in range(of_blocks.shape[1]):
                    pictures = [
                        draw_attention_heads(heads[:, : len(row), : len(column)], row, column)
                        for heads, row, column in zip(
                            of_blocks[:, block], rows, columns, strict=True
                        )
                    ]
                    write_pictures(f"attention/{kind}/layer_{block + 1}", pictures)

    def _input_texts(self):
        """The texts for each of the model's inputs; a packed model gets a document in a row."""
        if not hasattr(self.model, "attention_weights"):
            raise UserError(
                f"The model '{self.model.name}' has no `attention_weights` to draw. Leave out the "
                "`AttentionMaps`, or train a model of keras_transformer."
            )
        names = [each.name for each in self.model.inputs if each.name in ("source", "target")]
        if (len(names) == 2) != (self.targets is not None):
            given = "sources alone" if self.targets is None else "sources and targets"
            raise UserError(
                f"A {type(self.model).__name__} takes {' and '.join(names)}; got {given}. Give "
                f"{'`targets` too' if self.targets is None else 'its texts as `sources`'}."
            )
        return dict(zip(sorted(names), (self.sources, self.targets), strict=False))

    def _ids(self, name, strings):
        """Ragged ids as in training: a source ends with END, a target begins with START."""
        ids = getattr(self.tokenizers, name).tokenize(strings)
        ids = ids[:, : min(self.model.config.max_length, _MOST_READ) - 1]
        special = tf.fill([ids.nrows(), 1], START_ID if name == "target" else END_ID)
        return tf.concat([special, ids] if name == "target" else [ids, special], axis=1)

    def _labels(self, name, ids):
        vocabulary = getattr(self.tokenizers, name).vocabulary()
        return [[vocabulary[each] for each in row] for row in ids[:, : self.most_tokens].to_list()]


def write_pictures(tag, pictures):
    """Writes PNG files as one image summary, in the form of TensorBoard's plugin for images."""
    from tensorboard.plugins.image import metadata

    # It reads how wide and how high they are out of the files themselves.
    size = [b"", b""]
    tf.summary.write(
        tag,
        tf.constant([*size, *pictures]),
        metadata=metadata.create_summary_metadata(display_name=None, description=None),
    )
