"""Marian: the translation models of OPUS-MT."""

from typing import Any, ClassVar

from keras_transformer.hub.bart_like import BartLikeFamily, load_output_bias
from keras_transformer.hub.family import register_family
from keras_transformer.hub.reading import ConfigReader, WeightLoader


@register_family("marian")
class MarianFamily(BartLikeFamily):
    """Marian models, such as those of OPUS-MT.

    Junczys-Dowmunt et al. 2018, "Marian: Fast Neural Machine Translation in C++"; Tiedemann &
    Thottingal 2020, "OPUS-MT – Building open translation services for the World".
    """

    positions = "sinusoidal"
    positions_options: ClassVar[dict[str, Any]] = {"interleaved": False}
    unknown_id = 1
    architectures: ClassVar[tuple[str, ...]] = ("MarianMTModel", "MarianModel")

    def embedding_settings(self, config: ConfigReader) -> dict[str, Any]:
        size = config.integer("vocab_size")
        target_size = config.get("decoder_vocab_size") or size
        config.expect("tie_word_embeddings", True)
        if config.boolean("share_encoder_decoder_embeddings", True):
            config.expect("decoder_vocab_size", size, None)
            return {"share_embeddings": "all"}
        return {"share_embeddings": "target", "target_vocabulary_size": target_size}

    def load_embeddings(self, model: Any, weights: WeightLoader) -> None:
        source, target = model.reader.embedding, model.predictor.embedding
        if source is target:
            super().load_embeddings(model, weights)
            return
        weights.assign(source.embeddings, "encoder.embed_tokens.weight")
        weights.same("shared.weight", source.embeddings)
        tied = "decoder.embed_tokens.weight"
        weights.assign(target.embeddings, tied if weights.find(tied) else "lm_head.weight")
        weights.same("lm_head.weight", target.embeddings)
        load_output_bias(target, weights)
