"""One block of the encoder."""

import keras

from keras_transformer.layers.transformer_block import TransformerBlock


@keras.saving.register_keras_serializable(package="keras_transformer")
class EncoderBlock(TransformerBlock):
    """Self-attention over the whole sequence, then a feed-forward network.

    Vaswani et al. 2017, "Attention Is All You Need", section 3.1. The mechanism is any that is
    registered in `keras_transformer.layers.MECHANISMS`.

    Masking: padding is hidden by the implicit Keras mask of `inputs`, which the output carries on.

    Args: see `TransformerBlock`.

    Call arguments:
        inputs: `[B, T, M]`.
        attention_mask, relations: see `MultiHeadAttention`.
        return_weights: whether to return the attention weights `[B, H, T, T]` as well.

    Example:

    >>> x = keras.Input((None, 64))
    >>> y = EncoderBlock(num_heads=4, feed_forward_width=256, dropout=0.1)(x)
    >>> keras.Model(x, y).output_shape
    (None, None, 64)
    """

    def call(
        self,
        inputs,
        attention_mask=None,
        return_weights=False,
        relations=None,
        mask=None,  # Keras puts the implicit mask of `inputs` here when it is the only tensor …
        inputs_mask=None,  # … and here when it is not.
        training=None,
    ):
        outputs, weights = self.attend(
            self.self_attention,
            self.self_attention_residual,
            inputs,
            training,
            attention_mask=attention_mask,
            query_mask=inputs_mask if mask is None else mask,
            return_weights=return_weights,
            relations=relations,
        )
        outputs = self.feed(outputs, training)
        return (outputs, *weights) if return_weights else outputs

    def compute_output_spec(
        self, inputs, attention_mask=None, return_weights=False, relations=None, **kwargs
    ):
        return self.self_attention.compute_output_spec(
            inputs,
            attention_mask=attention_mask,
            return_weights=return_weights,
            relations=relations,
        )

    def compute_output_shape(self, inputs_shape):
        return inputs_shape
