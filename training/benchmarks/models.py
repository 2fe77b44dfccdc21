"""Dimensions of the models that are measured, and their number of operations."""

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keras_transformer import Transformer


@dataclasses.dataclass(frozen=True, kw_only=True)
class BenchModel:
    """Dimensions of a Transformer as in the paper: post-norm, ReLU, one table of embeddings.

    Attributes:
        num_layers: Integer. Number of layers of the encoder, and of the decoder.
        hidden_dim: Integer. Size of the hidden states.
        intermediate_dim: Integer. Inner size of the feed-forward networks.
        num_heads: Integer. Number of attention heads.
        dropout: Float. Dropout rate.
        vocabulary_size: Integer. Default 8000.

    >>> round(BENCH_MODELS["tiny"].training_flops(source_tokens=1, target_tokens=1) / 1e6, 2)
    14.01
    """

    num_layers: int
    hidden_dim: int
    intermediate_dim: int
    num_heads: int
    dropout: float
    vocabulary_size: int = 8000

    def training_flops(self, source_tokens: int, target_tokens: int) -> float:
        """Returns the floating-point operations of a training step, padding not counted.

        Six per token and weight of a matrix product: two in the forward pass and four in the
        backward pass. Logits are counted, attention scores are not, as is usual for model FLOPs
        utilization. (Kaplan et al. 2020, "Scaling Laws for Neural Language Models", section 2.1.)
        """
        square = self.hidden_dim**2
        feed_forward = 2 * self.hidden_dim * self.intermediate_dim
        # Keys and values of cross-attention are computed once per source token.
        source = self.num_layers * (4 * square + feed_forward + 2 * square)
        target = self.num_layers * (6 * square + feed_forward)
        target += self.hidden_dim * self.vocabulary_size
        return 6.0 * (source * source_tokens + target * target_tokens)

    def make(self, max_length: int = 64) -> "Transformer":
        """Returns a `Transformer` of these dimensions, always with the same initial weights."""
        import keras

        from keras_transformer.models import Transformer

        keras.utils.set_random_seed(0)
        settings = dataclasses.asdict(self)
        num_layers = settings.pop("num_layers")
        return Transformer(
            **settings,
            num_encoder_layers=num_layers,
            num_decoder_layers=num_layers,
            max_length=max_length,
        )


#: "tiny" is the model of Wu et al. 2021 for Multi30k, "base" that of Vaswani et al. 2017, both with
#: the joint vocabulary of 8,000 pieces with which all libraries are measured.
BENCH_MODELS = {
    "tiny": BenchModel(
        num_layers=4, hidden_dim=128, intermediate_dim=256, num_heads=4, dropout=0.3
    ),
    "base": BenchModel(
        num_layers=6, hidden_dim=512, intermediate_dim=2048, num_heads=8, dropout=0.1
    ),
}
