"""The settings of the models with a source that are no Transformers."""

import dataclasses

from keras_transformer.models.embedding_tables import require_shareable
from keras_transformer.models.output_head import require_usable_output
from keras_transformer.models.sequence_config import SequenceConfig


@dataclasses.dataclass(frozen=True, kw_only=True)
class SourceConfig(SequenceConfig):
    """Settings of models that attend to their source and to nothing else.

    Attributes: those of `SequenceConfig`, and
        target_vocabulary_size: number of target tokens, where they are not the source's.
        encoder_layers, decoder_layers: numbers of layers.
        attention: mechanism of the attention to the source, by its registered name. It is used as
            it is, with one head and without projections.
        attention_options: its settings.
        share_embeddings: which tables are one: "all" (source, target and output), "target" (target
            and output) or "none".
        copies: whether tokens of the source can be copied, see `PointerGenerator`; needs one
            vocabulary for both, as `share_embeddings="all"` does.
        coverage_weight: of the loss for attending to the same place again, see `CoverageLoss`; 0
            for none.
    """

    target_vocabulary_size: int | None = None
    encoder_layers: int = 4
    decoder_layers: int = 4
    attention: str = "scaled_dot_product"
    attention_options: dict = dataclasses.field(default_factory=dict)
    share_embeddings: str = "all"
    copies: bool = False
    coverage_weight: float = 0.0

    depth_fields = ("encoder_layers", "decoder_layers")
    mechanism_fields = ("attention",)

    def __post_init__(self):
        super().__post_init__()
        require_shareable(self)
        require_usable_output(self)
        self.require_usable("attention", is_cached=True, is_cross=True)
