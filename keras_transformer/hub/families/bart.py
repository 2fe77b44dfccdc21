"""BART: encoder-decoders for summaries and other rewriting."""

from keras_transformer.hub.bart_like import BartLikeFamily
from keras_transformer.hub.family import register_family


@register_family("bart")
class BartFamily(BartLikeFamily):
    """BART models.

    Lewis et al. 2020, "BART: Denoising Sequence-to-Sequence Pre-training for Natural Language
    Generation, Translation, and Comprehension".
    """

    normalize_embeddings = True
