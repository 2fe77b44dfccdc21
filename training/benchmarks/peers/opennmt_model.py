"""Transformer of OpenNMT-tf with the dimensions of the workload, and the mapping of ids.

OpenNMT-tf has the ids 0 for padding, 1 for START, 2 for END, and the last one for unknown tokens.
"""

import common as c
import numpy as np
import opennmt
import tensorflow as tf

tf.config.threading.set_intra_op_parallelism_threads(c.THREADS)
tf.config.threading.set_inter_op_parallelism_threads(c.THREADS)
#: For each id of the workload the one of OpenNMT-tf, and the reverse.
to_opennmt = np.arange(c.VOCABULARY_SIZE, dtype=np.int32) - 1
to_opennmt[[c.PADDING, c.UNKNOWN, c.START, c.END]] = 0, c.VOCABULARY_SIZE - 1, 1, 2
from_opennmt = np.argsort(to_opennmt)


def write_vocabulary() -> str:
    """Writes the file of the vocabulary and returns its path."""
    path = c.DATA / "opennmt.vocabulary"
    tokens = ["<blank>", "<s>", "</s>", *(f"t{number}" for number in range(4, c.VOCABULARY_SIZE))]
    path.write_text("\n".join(tokens) + "\n", encoding="utf-8")
    return str(path)


def build(config, params=None, tables=None):
    """Returns an initialized model.

    Args:
        config: name of the dimensions.
        params: parameters of OpenNMT-tf.
        tables: position encodings of encoder and decoder. Default: sinusoids.
    """
    wanted = c.BENCH_MODELS[config]
    made = 0

    class TablePositions(opennmt.layers.PositionEncoder):
        """Positions from a given table. The first instance is the encoder's."""

        def __init__(self, **settings):
            nonlocal made
            super().__init__(**settings)
            if tables is None:
                table = c.sine_positions(64, wanted.hidden_dim)
            else:
                table = tables[min(made, 1)]
            self.table = tf.constant(table)
            made += 1

        def _encode(self, positions, depth):
            return tf.gather(self.table, tf.convert_to_tensor(positions) - 1)

    model = opennmt.models.Transformer(
        num_layers=wanted.num_layers,
        num_units=wanted.hidden_dim,
        num_heads=wanted.num_heads,
        ffn_inner_dim=wanted.intermediate_dim,
        dropout=wanted.dropout,
        attention_dropout=0.0,
        ffn_dropout=0.0,
        pre_norm=False,
        position_encoder_class=TablePositions,
        share_embeddings=opennmt.models.EmbeddingsSharingLevel.ALL,
    )
    path = write_vocabulary()
    vocabularies = {"source_vocabulary": path, "target_vocabulary": path}
    model.initialize(vocabularies, params=params or {})
    return model


def features(ids):
    """Returns ids as OpenNMT-tf takes them, with the lengths without padding."""
    return {"ids": ids, "length": tf.math.count_nonzero(ids, axis=1, dtype=tf.int32)}
