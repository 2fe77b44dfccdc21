"""Recurrent sequence to sequence: what translated before Transformers did."""

import dataclasses

import keras

from keras_transformer.checks import require_boolean, require_choice, require_even
from keras_transformer.layers.recurrence import CELLS
from keras_transformer.models.embedding_tables import make_tables
from keras_transformer.models.output_head import OutputHead
from keras_transformer.models.recurrent_decoder import RecurrentDecoder
from keras_transformer.models.recurrent_encoder import RecurrentEncoder
from keras_transformer.models.source_config import SourceConfig
from keras_transformer.models.source_model import SourceModel

#: Sizes by name. `depth` is the number of layers of encoder and decoder each.
RECURRENT_PRESETS = {
    # Of the widths of the Transformers of that name, with as many layers as such widths repay.
    "tiny": {"depth": 1, "width": 128},
    "small": {"depth": 2, "width": 256},
    # Britz et al. 2017, "Massive Exploration of Neural Machine Translation Architectures", table 7
    "base": {"depth": 4, "width": 512},
    # Luong et al. 2015, section 4.1
    "big": {"depth": 4, "width": 1000, "dropout": 0.2},
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecurrentSeq2SeqConfig(SourceConfig):
    """Settings of a `RecurrentSeq2Seq`.

    Attributes: those of `SourceConfig`, and
        cell: "lstm" or "gru".
        coverage_attention: whether the attention is told what it has attended to before, see
            `AttentionRecurrence`; the papers do so with attention="additive". What it costs to go
            there again is another setting, `coverage_weight`.
    """

    cell: str = "lstm"
    coverage_attention: bool = False

    presets = RECURRENT_PRESETS

    def __post_init__(self):
        super().__post_init__()
        require_choice("cell", self.cell, CELLS)
        require_boolean("coverage_attention", self.coverage_attention)
        if self.coverage_attention:
            self.require_usable("attention", is_cached=True, is_cross=True, has_marked_keys=True)
        require_even("width", self.width)  # half for each direction


@keras.saving.register_keras_serializable(package="keras_transformer")
class RecurrentSeq2Seq(SourceModel):
    """Bidirectional recurrent encoder, and a recurrent decoder that attends to what it made.

    Bahdanau et al. 2015, "Neural Machine Translation by Jointly Learning to Align and Translate";
    the decoder, with input feeding, is that of Luong et al. 2015, "Effective Approaches to
    Attention-based Neural Machine Translation". Inputs, outputs and decoding: see `SourceModel`.

    Args:
        config: a `RecurrentSeq2SeqConfig`.
        dtype: dtype policy of all layers, such as "mixed_bfloat16".
        name: of the model.

    Example:

    >>> model = RecurrentSeq2Seq.from_preset("tiny", vocabulary_size=1000, cell="gru")
    >>> state = model.initial_state(model.encode([[5, 6, 7, 3]]), max_length=20)
    >>> logits, state = model.step([2], state)
    >>> logits.shape
    TensorShape([1, 1000])
    """

    config_class = RecurrentSeq2SeqConfig

    def __init__(self, config, dtype=None, **kwargs):
        dtype = self.check(config, dtype)
        tables = make_tables(config, dtype)
        encoder = RecurrentEncoder(config, tables.source, dtype=dtype)
        head = OutputHead(tables.output, dtype, config.copies, config.coverage_weight)
        decoder = RecurrentDecoder(config, tables.target, head, dtype=dtype)
        super().__init__(config, dtype, encoder, decoder, **kwargs)
