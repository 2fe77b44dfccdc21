"""Pegasus: models for summaries."""

from typing import Any, ClassVar

from keras_transformer.hub.bart_like import BartLikeFamily
from keras_transformer.hub.family import register_family


@register_family("pegasus")
class PegasusFamily(BartLikeFamily):
    """Pegasus models.

    Zhang et al. 2020, "PEGASUS: Pre-training with Extracted Gap-sentences for Abstractive
    Summarization".
    """

    positions = "sinusoidal"
    positions_options: ClassVar[dict[str, Any]] = {"interleaved": False}
    normalize_first = True
    unknown_id = 105
