"""M2M100 and NLLB: translation between a hundred languages and more."""

from keras_transformer.hub.bart_like import BartLikeFamily
from keras_transformer.hub.family import register_family


@register_family("m2m_100")
class M2M100Family(BartLikeFamily):
    """M2M100 and NLLB-200 models.

    Fan et al. 2021, "Beyond English-Centric Multilingual Machine Translation"; NLLB Team 2022, "No
    Language Left Behind: Scaling Human-Centered Machine Translation".
    """

    positions = "sinusoidal"
    positions_options = {"interleaved": False, "endpoint": True, "first_position": 2}
    normalize_first = True
    output_bias = False
    default_activation = "relu"
    default_scale = True
