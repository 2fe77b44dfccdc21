"""Pictures of the attention scores of each layer, logged at each evaluation."""

import functools
import io
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from keras_transformer._utils.checks import require_positive_integer
from keras_transformer._utils.errors import UserError
from keras_transformer._utils.pictures import default_settings
from keras_transformer.export.modules import parse_conllu, reads_trees, tree_inputs
from keras_transformer.inference.attention_maps import label_of
from keras_transformer.inference.translation import as_tensor
from keras_transformer.text import Tokenizer, TokenizerPair
from keras_transformer.trainer.callbacks import Destination, LoggingCallback, Logs, require_parallel
from keras_transformer.trainer.loggers.logger import VALIDATION

# Two heads of some ten tokens side by side are 400 pixels wide, as TensorBoard shows pictures.
_CELL_PIXELS = 14
_FONT_POINTS = 7.5
_PIXELS_PER_INCH = 100
_GAP_PIXELS = 10
_MARGIN_PIXELS = 4  # between labels and cells
_COLUMNS = 2
_LONGEST_LABEL = 14
_LINE_COLOR = 220  # "gainsboro"


def draw_attention_heads(
    scores: np.ndarray, row_tokens: Sequence[str], column_tokens: Sequence[str]
) -> bytes:
    """Returns a picture of a layer's heads, side by side, as the bytes of a PNG file.

    Each row is one of T tokens that attend, each column one of S tokens that are attended to;
    darker cells have higher scores [H, T, S], the highest of which is above each head.
    """
    from matplotlib import image

    scores = np.asarray(scores, "float32")
    shape = len(row_tokens), len(column_tokens)
    if scores.ndim != 3 or scores.shape[1:] != shape or 0 in scores.shape:
        expected = f"[heads, row tokens, column tokens] = [H, {shape[0]}, {shape[1]}]"
        raise ValueError(f"`scores` must have shape {expected}, none 0; got {scores.shape}.")
    left, top = (
        _draw_labels(tuple(label_of(token, _LONGEST_LABEL) for token in tokens), side)
        for tokens, side in ((row_tokens, "right"), (column_tokens, "left"))
    )
    top = np.rot90(top)  # labels of columns are read from the bottom, beginning at the cells
    heads = [_draw_head(number, head, top) for number, head in enumerate(scores, start=1)]
    width = max(head.shape[1] for head in heads) + _GAP_PIXELS
    heads = [_widened(head, width) for head in heads]
    heads += [np.full_like(heads[0], 255)] * (-len(heads) % _COLUMNS)
    above = len(heads[0]) - len(left)
    left = np.pad(left, ((above, 0), (0, _MARGIN_PIXELS), (0, 0)), constant_values=255)
    starts = range(0, len(heads), _COLUMNS)
    rows = [np.hstack([left, *heads[start : start + _COLUMNS]]) for start in starts]
    content = io.BytesIO()
    image.imsave(content, np.vstack(rows), format="png")
    return content.getvalue()


def _draw_head(number: int, scores: np.ndarray, top: np.ndarray) -> np.ndarray:
    """Returns a picture [height, width, 3] of one head below the labels of its columns."""
    largest = float(scores.max()) or 1.0
    # Two labels, each of which occurs in many pictures and is cached.
    title = [_draw_labels((text,), "left") for text in (f"head {number}", f"≤ {largest:.2f}")]
    parts = [
        np.full((_GAP_PIXELS, 1, 3), 255, np.uint8),
        np.hstack([_widened(title[0], title[0].shape[1] + _GAP_PIXELS), title[1]]),
        top,
        np.full((_MARGIN_PIXELS, 1, 3), 255, np.uint8),
        _draw_cells(scores / largest),
    ]
    width = max(part.shape[1] for part in parts)
    return np.vstack([_widened(part, width) for part in parts])


def _widened(part: np.ndarray, width: int) -> np.ndarray:
    """Returns a picture with white space added on the right."""
    return np.pad(part, ((0, 0), (0, width - part.shape[1]), (0, 0)), constant_values=255)


def _draw_cells(shades: np.ndarray) -> np.ndarray:
    """Returns squares [T · pixels, S · pixels, 3] of shades in [0, 1], [T, S], with grid lines."""
    from matplotlib import colormaps

    colors = colormaps["Blues"](shades, bytes=True)[..., :3]
    cells = colors.repeat(_CELL_PIXELS, axis=0).repeat(_CELL_PIXELS, axis=1)
    cells[_CELL_PIXELS - 1 :: _CELL_PIXELS] = _LINE_COLOR
    cells[:, _CELL_PIXELS - 1 :: _CELL_PIXELS] = _LINE_COLOR
    return cells


@functools.lru_cache(maxsize=512)
def _draw_labels(labels: tuple[str, ...], side: str) -> np.ndarray:
    """Returns a strip [N · pixels, width, 3] of N labels, one per line, aligned at a side."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    height = len(labels) * _CELL_PIXELS
    with default_settings():
        figure = Figure(dpi=_PIXELS_PER_INCH)
        canvas = FigureCanvasAgg(figure)
        texts = [
            # A token such as "$x$" is not a formula.
            figure.text(0, 0, label, fontsize=_FONT_POINTS, ha=side, parse_math=False)
            for label in labels
        ]
        width = max(1, *(int(np.ceil(text.get_window_extent().width)) for text in texts)) + 2
        figure.set_size_inches(width / _PIXELS_PER_INCH, height / _PIXELS_PER_INCH)
        for number, text in enumerate(texts):
            text.set_verticalalignment("center_baseline")
            x = (width - 1) / width if side == "right" else 1 / width
            text.set_position((x, 1 - (number + 0.5) / len(texts)))
        canvas.draw()
        return np.array(canvas.buffer_rgba())[:height, :width, :3]


# The attention scores of all heads take quadratic memory, so long documents are cut to this length.
_MAX_LENGTH = 512


class AttentionMaps(LoggingCallback):
    """Logs pictures of the attention scores for a few examples at each evaluation.

    A picture shows all heads of one layer: each row is a token that the model generates (or, in an
    encoder, reads), each column a token that it attends to. Names are "attention/encoder/layer_1",
    "attention/decoder/layer_1" and "attention/cross/layer_1", as far as the model has them.

    Args:
        logger: A `Logger`, or the directory that is given to TensorBoard.
        tokenizers: A `TokenizerPair`, or a `Tokenizer` for both sides.
        sources: List of strings, in CoNLL-U for a model that reads trees. For a model with one
            input, such as a `LanguageModel`, these are its texts.
        targets: List of translations, one per source. Default: None, for a model with one input.
        max_tokens: Integer. Number of tokens to which longer texts are cut. Default 40.
    """

    def __init__(
        self,
        logger: Destination,
        tokenizers: Tokenizer | TokenizerPair,
        sources: Sequence[str],
        targets: Sequence[str] | None = None,
        max_tokens: int = 40,
    ) -> None:
        super().__init__(logger)
        self.tokenizers: TokenizerPair = TokenizerPair.of(tokenizers)
        require_parallel(sources=sources, **({} if targets is None else {"targets": targets}))
        self.sources: Sequence[str] = sources
        self.targets: Sequence[str] | None = targets
        self.max_tokens: int = require_positive_integer("max_tokens", max_tokens)

    def on_train_begin(self, logs: Logs = None) -> None:
        self._input_texts()  # reports texts that do not fit the model before training starts

    def on_test_end(self, logs: Logs = None) -> None:
        texts = {name: as_tensor(texts) for name, texts in self._input_texts().items()}
        parsed = None
        if reads_trees(self.model.config):
            parsed = parse_conllu(texts["source"], maximum_words=self.model.config.max_length)
            texts["source"] = parsed.texts
        ids = {name: self._ids(name, strings) for name, strings in texts.items()}
        special_ids = self.tokenizers.special_ids
        inputs = {name: ragged.to_tensor(special_ids.padding) for name, ragged in ids.items()}
        if parsed is not None:
            tokenizer = self.tokenizers.source
            sizes = tokenizer.word_sizes(parsed.words)
            inputs |= tree_inputs(tokenizer, inputs["source"], sizes, parsed.heads)
        scores = self.model.attention_weights(**inputs)
        labels = {name: self._labels(name, ragged) for name, ragged in ids.items()}
        if "target" in ids:
            # Rows of the decoder are labeled with the token that is predicted there: the next one.
            ends = tf.fill([ids["target"].nrows(), 1], special_ids.end)
            labels["predicted"] = self._labels("target", tf.concat([ids["target"][:, 1:], ends], 1))
        sides = {
            "encoder": ("source", "source"),
            "decoder": ("predicted", "target"),
            "cross": ("predicted", "source"),
        }
        for kind, of_layers in scores.items():
            rows, columns = (labels[side] for side in sides[kind])
            of_layers = tf.cast(of_layers, tf.float32).numpy()  # [B, N, H, ·, ·]
            for layer in range(of_layers.shape[1]):
                pictures = [
                    draw_attention_heads(heads[:, : len(row), : len(column)], row, column)
                    for heads, row, column in zip(of_layers[:, layer], rows, columns, strict=True)
                ]
                name = f"attention/{kind}/layer_{layer + 1}"
                self.logger.log_images(VALIDATION, self.step, name, pictures)

    def _input_texts(self) -> dict[str, Sequence[str]]:
        """Returns the texts for each input of the model; a packed model gets one text per row."""
        if not hasattr(self.model, "attention_weights"):
            problem = f"The model '{self.model.name}' has no method `attention_weights`."
            fix = "Leave out `AttentionMaps`, or train a model of keras_transformer."
            raise UserError(problem, fix=fix)
        names = [each.name for each in self.model.inputs if each.name in ("source", "target")]
        if (len(names) == 2) != (self.targets is not None):
            given, fix = "sources and targets", "Give its texts as `sources`."
            if self.targets is None:
                given, fix = "sources alone", "Give `targets`, too."
            problem = f"A {type(self.model).__name__} takes {' and '.join(names)}; got {given}."
            raise UserError(problem, fix=fix)
        given_texts = [self.sources] if self.targets is None else [self.sources, self.targets]
        return dict(zip(sorted(names), given_texts, strict=False))

    def _ids(self, name: str, strings: tf.Tensor) -> tf.RaggedTensor:
        """Returns ids as in training: a source ends with `end`, a target begins with `start`."""
        ids = getattr(self.tokenizers, name).tokenize(strings)
        ids = ids[:, : min(self.model.config.max_length, _MAX_LENGTH) - 1]
        special_ids = self.tokenizers.special_ids
        if name == "target":
            return tf.concat([tf.fill([ids.nrows(), 1], special_ids.start), ids], axis=1)
        return tf.concat([ids, tf.fill([ids.nrows(), 1], special_ids.end)], axis=1)

    def _labels(self, name: str, ids: tf.RaggedTensor) -> list[list[str]]:
        vocabulary = getattr(self.tokenizers, name).vocabulary()
        return [[vocabulary[each] for each in row] for row in ids[:, : self.max_tokens].to_list()]
