"""The models that are measured, and how many operations they need."""

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class BenchModel:
    """A Transformer of the paper (post-norm, ReLU, all embeddings one table) of some size.

    Attributes:
        layers: of the encoder, and of the decoder.
        width, intermediate_dim, num_heads, dropout, vocabulary_size: see `TransformerConfig`.

    >>> round(BENCH_MODELS["tiny"].training_flops(source_tokens=1, target_tokens=1) / 1e6, 2)
    14.01
    """

    layers: int
    width: int
    intermediate_dim: int
    num_heads: int
    dropout: float
    vocabulary_size: int = 8000

    def training_flops(self, source_tokens, target_tokens):
        """Floating-point operations of a training step over so many tokens that are not padding.

        Six for each weight that takes part in a matrix product and each token it meets: two in the
        forward pass, four in the backward pass. Logits count, attention scores do not, as is the
        custom for utilization. (Kaplan et al. 2020, "Scaling Laws for Neural Language Models",
        §2.1.)
        """
        square = self.width**2
        feed_forward = 2 * self.width * self.intermediate_dim
        # The keys and values of attention to the source are made once for each source token.
        source = self.layers * (4 * square + feed_forward + 2 * square)
        target = self.layers * (6 * square + feed_forward) + self.width * self.vocabulary_size
        return 6.0 * (source * source_tokens + target * target_tokens)

    def make(self, max_length=64):
        """Returns a `Transformer` of this size, always with the same weights."""
        import keras

        from keras_transformer.models import Transformer, TransformerConfig

        keras.utils.set_random_seed(0)
        settings = dataclasses.asdict(self)
        layers = settings.pop("layers")
        return Transformer(
            TransformerConfig(
                **settings,
                num_encoder_layers=layers,
                num_decoder_layers=layers,
                max_length=max_length,
            )
        )


#: "tiny" for Multi30k as in Wu et al. 2021, "base" as in Vaswani et al. 2017; both with the joint
#: vocabulary of 8,000 with which all contenders are measured.
BENCH_MODELS = {
    "tiny": BenchModel(layers=4, width=128, intermediate_dim=256, num_heads=4, dropout=0.3),
    "base": BenchModel(layers=6, width=512, intermediate_dim=2048, num_heads=8, dropout=0.1),
}
