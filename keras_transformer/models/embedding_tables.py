"""The tables of source, target and output: one, two or three."""

from typing import NamedTuple

from keras_transformer.checks import require_choice, require_positive_integer
from keras_transformer.layers import TokenEmbedding


class EmbeddingTables(NamedTuple):
    """The `TokenEmbedding`s of a model with a source; some of them may be one and the same."""

    source: TokenEmbedding
    target: TokenEmbedding
    output: TokenEmbedding


def require_shareable(config):
    """Raises `ValueError` unless a config's vocabularies can share what `share_embeddings` says."""
    require_choice("share_embeddings", config.share_embeddings, ("all", "target", "none"))
    if config.target_vocabulary_size is None:
        return
    require_positive_integer("target_vocabulary_size", config.target_vocabulary_size)
    is_other = config.target_vocabulary_size != config.vocabulary_size
    if config.share_embeddings == "all" and is_other:
        raise ValueError(
            "One table for source and target needs one vocabulary; got vocabulary_size="
            f"{config.vocabulary_size} and target_vocabulary_size="
            f"{config.target_vocabulary_size}. Use share_embeddings='target'."
        )


def make_tables(config, dtype):
    """Makes the `EmbeddingTables` that a config asks for."""

    def table(name, vocabulary_size):
        return TokenEmbedding(
            vocabulary_size, config.width, config.padding_id, name=name, dtype=dtype
        )

    if config.share_embeddings == "all":
        shared = table("embedding", config.vocabulary_size)
        return EmbeddingTables(shared, shared, shared)
    target_size = config.target_vocabulary_size or config.vocabulary_size
    source = table("source_embedding", config.vocabulary_size)
    target = output = table("target_embedding", target_size)
    if config.share_embeddings == "none":
        output = table("output_embedding", target_size)
    return EmbeddingTables(source, target, output)
