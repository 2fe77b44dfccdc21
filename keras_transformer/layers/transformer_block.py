"""What encoder and decoder blocks share: self-attention and a feed-forward network."""

import keras

from keras_transformer.layers.attention.mechanism import serialize_mechanism
from keras_transformer.layers.feed_forward import FeedForward
from keras_transformer.layers.multi_head_attention import MultiHeadAttention
from keras_transformer.layers.residual import Residual


def as_tuple(outputs):
    """What a layer gave, alone or with other things that were asked for, as a tuple."""
    return outputs if isinstance(outputs, tuple) else (outputs,)


class TransformerBlock(keras.layers.Layer):
    """Base of `EncoderBlock` and `DecoderBlock`.

    Args:
        num_heads: H, heads of attention; must divide the model's width M.
        feed_forward_width: F, size of the feed-forward network's inner layer.
        num_key_value_heads: see `MultiHeadAttention`; by default H.
        attention: mechanism of self-attention, a registered name or an instance to take after.
        activation: see `FeedForward`.
        normalization: "layer" or "rms".
        order: "pre" normalises what goes into a sublayer, "post" what comes out of the sum.
        dropout: rate on what each sublayer adds.
        attention_dropout: rate on attention weights.
        activation_dropout: rate on the feed-forward network's inner activations.
        use_bias: whether projections and dense layers have biases.
        epsilon: of the normalisations.
    """

    def __init__(
        self,
        num_heads,
        feed_forward_width,
        num_key_value_heads=None,
        attention="scaled_dot_product",
        activation="relu",
        normalization="layer",
        order="pre",
        dropout=0.0,
        attention_dropout=0.0,
        activation_dropout=0.0,
        use_bias=True,
        epsilon=1e-6,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.feed_forward_width = feed_forward_width
        self.num_key_value_heads = num_key_value_heads
        self.activation = activation
        self.normalization = normalization
        self.order = order
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.activation_dropout = activation_dropout
        self.use_bias = use_bias
        self.epsilon = epsilon
        self.supports_masking = True

        self.self_attention = self._attention("self_attention", attention)
        self.self_attention_residual = self._residual("self_attention_residual")
        self.feed_forward = FeedForward(
            feed_forward_width,
            activation=activation,
            dropout=activation_dropout,
            use_bias=use_bias,
            dtype=self.dtype_policy,
            name="feed_forward",
        )
        self.feed_forward_residual = self._residual("feed_forward_residual")

    def _attention(self, name, mechanism):
        return MultiHeadAttention(
            self.num_heads,
            num_key_value_heads=self.num_key_value_heads,
            mechanism=mechanism,
            dropout=self.attention_dropout,
            use_bias=self.use_bias,
            dtype=self.dtype_policy,
            name=name,
        )

    def _residual(self, name):
        return Residual(
            order=self.order,
            normalization=self.normalization,
            dropout=self.dropout,
            epsilon=self.epsilon,
            dtype=self.dtype_policy,
            name=name,
        )

    def build(self, inputs_shape):
        self.self_attention.build(inputs_shape)
        self.self_attention_residual.build(inputs_shape)
        self.feed_forward.build(inputs_shape)
        self.feed_forward_residual.build(inputs_shape)
        self.built = True

    def attend(self, attention, residual, inputs, training, **kwargs):
        """An attention sublayer in its residual: outputs, and a list of what else was asked for."""
        attended = attention(residual.enter(inputs), training=training, **kwargs)
        change, *extras = as_tuple(attended)
        return residual(inputs, change, training=training), extras

    def feed(self, inputs, training):
        """The feed-forward sublayer in its residual."""
        change = self.feed_forward(self.feed_forward_residual.enter(inputs), training=training)
        return self.feed_forward_residual(inputs, change, training=training)

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "feed_forward_width": self.feed_forward_width,
            "num_key_value_heads": self.num_key_value_heads,
            "attention": serialize_mechanism(self.self_attention.mechanism),
            "activation": self.activation,
            "normalization": self.normalization,
            "order": self.order,
            "dropout": self.dropout,
            "attention_dropout": self.attention_dropout,
            "activation_dropout": self.activation_dropout,
            "use_bias": self.use_bias,
            "epsilon": self.epsilon,
        }
