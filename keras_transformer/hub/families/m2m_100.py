"""M2M100 and NLLB: translation between a hundred languages and more."""

from typing import Any

from keras_transformer.hub.bart_like import BartLikeFamily
from keras_transformer.hub.family import register_family
from keras_transformer.hub.reading import ConfigReader


@register_family("m2m_100")
class M2M100Family(BartLikeFamily):
    """M2M100 and NLLB-200 models.

    Fan et al. 2021, "Beyond English-Centric Multilingual Machine Translation"; NLLB Team 2022, "No
    Language Left Behind: Scaling Human-Centered Machine Translation".
    """

    positions = "sinusoidal"
    normalize_first = True
    output_bias = False
    default_activation = "relu"
    default_scale = True

    def settings(self, config: ConfigReader) -> dict[str, Any]:
        settings = super().settings(config)
        # As in fairseq, the exponents i / (M/2 - 1) of the wavelengths reach 1, whereas ours,
        # 2i / M, do not, and positions are counted from the padding id plus one.
        pairs = settings["hidden_dim"] // 2
        options = {
            "interleaved": False,
            "max_wavelength": 10_000 ** (pairs / max(pairs - 1, 1)),
            "first_position": config.integer("pad_token_id") + 1,
        }
        return {**settings, "positions_options": options}
