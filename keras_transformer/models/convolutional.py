"""Convolutional sequence to sequence: words know each other through windows."""

import dataclasses

import keras

from keras_transformer.checks import require_choice, require_positive_integer
from keras_transformer.layers.positions import SCHEMES
from keras_transformer.models.convolutional_decoder import ConvolutionalDecoder
from keras_transformer.models.convolutional_encoder import ConvolutionalEncoder
from keras_transformer.models.embedding_tables import make_tables
from keras_transformer.models.output_head import OutputHead
from keras_transformer.models.source_config import SourceConfig
from keras_transformer.models.source_model import SourceModel

#: Sizes by name. `depth` is the number of blocks of encoder and decoder each.
CONVOLUTIONAL_PRESETS = {
    # Of the width of the Transformer of that name.
    "tiny": {"depth": 4, "width": 128},
    # Gehring et al. 2017, section 5.6, for summaries
    "small": {"depth": 6, "width": 256},
    # Gehring et al. 2017, section 5.1, for WMT'16 English to Romanian
    "base": {"depth": 20, "width": 512},
    # As deep as their model for WMT'14 English to German, whose widths run from 512 to 2048.
    "big": {"depth": 15, "width": 768},
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConvolutionalSeq2SeqConfig(SourceConfig):
    """Settings of a `ConvolutionalSeq2Seq`.

    Attributes: those of `SourceConfig`, and
        kernel_width: number of tokens in a window. The paper's 3.
        positions: scheme added to the embeddings, by its registered name; or "none".
    """

    kernel_width: int = 3
    positions: str = "learned"

    presets = CONVOLUTIONAL_PRESETS

    def __post_init__(self):
        super().__post_init__()
        require_positive_integer("kernel_width", self.kernel_width)
        require_choice("positions", self.positions, (*SCHEMES, "none"))

    @property
    def position_scheme(self):
        """The scheme that `positions` stands for, or None."""
        return None if self.positions == "none" else self.positions


@keras.saving.register_keras_serializable(package="keras_transformer")
class ConvolutionalSeq2Seq(SourceModel):
    """Convolutions in encoder and decoder, with attention to the source in each decoder block.

    Gehring et al. 2017, "Convolutional Sequence to Sequence Learning". A word is seen through the
    windows that it is in: n blocks of a `kernel_width` k reach n·(k - 1) + 1 tokens, and only the
    attention to the source reaches further. Inputs, outputs and decoding: see `SourceModel`.

    Args:
        config: a `ConvolutionalSeq2SeqConfig`.
        dtype: dtype policy of all layers, such as "mixed_bfloat16".
        name: of the model.

    Example:

    >>> model = ConvolutionalSeq2Seq.from_preset("tiny", vocabulary_size=1000, kernel_width=5)
    >>> state = model.initial_state(model.encode([[5, 6, 7, 3]]), max_length=20)
    >>> logits, state = model.step([2], state)
    >>> logits.shape
    TensorShape([1, 1000])
    """

    config_class = ConvolutionalSeq2SeqConfig

    def __init__(self, config, dtype=None, **kwargs):
        dtype = self.check(config, dtype)
        tables = make_tables(config, dtype)
        encoder = ConvolutionalEncoder(config, tables.source, dtype=dtype)
        head = OutputHead(tables.output, dtype, config.copies, config.coverage_weight)
        decoder = ConvolutionalDecoder(config, tables.target, head, dtype=dtype)
        super().__init__(config, dtype, encoder, decoder, **kwargs)
