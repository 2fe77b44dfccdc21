"""MarianMT of Hugging Face transformers, made from a config without any download."""

import common as c
import torch
from transformers import MarianConfig, MarianMTModel

torch.set_num_threads(c.THREADS)


def build(config: str, dropout: float | None = None) -> MarianMTModel:
    """Returns an untrained model of the dimensions `config`, always with the same weights."""
    model = c.BENCH_MODELS[config]
    settings = MarianConfig(
        vocab_size=model.vocabulary_size,
        d_model=model.hidden_dim,
        encoder_layers=model.num_layers,
        decoder_layers=model.num_layers,
        encoder_ffn_dim=model.intermediate_dim,
        decoder_ffn_dim=model.intermediate_dim,
        encoder_attention_heads=model.num_heads,
        decoder_attention_heads=model.num_heads,
        dropout=model.dropout if dropout is None else dropout,
        attention_dropout=0.0,
        activation_dropout=0.0,
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=64,
        share_encoder_decoder_embeddings=True,
        tie_word_embeddings=True,
        pad_token_id=c.PADDING,
        bos_token_id=c.START,
        eos_token_id=c.END,
        decoder_start_token_id=c.START,
        forced_eos_token_id=None,
        init_std=model.hidden_dim**-0.5,
    )
    torch.manual_seed(0)
    return MarianMTModel(settings)
