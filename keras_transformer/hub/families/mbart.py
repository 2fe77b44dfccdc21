"""mBART and mBART-50: multilingual translation models."""

from keras_transformer.hub.bart_like import BartLikeFamily
from keras_transformer.hub.family import register_family


@register_family("mbart")
class MBartFamily(BartLikeFamily):
    """mBART models.

    Liu et al. 2020, "Multilingual Denoising Pre-training for Neural Machine Translation"; Tang et
    al. 2020, "Multilingual Translation with Extensible Multilingual Pretraining and Finetuning".
    """

    normalize_first = True
    normalize_embeddings = True
