"""The embeddings in space, with the vocabulary as labels."""

import io

import numpy as np

from keras_transformer._utils.errors import UserError
from keras_transformer._utils.files import atomic_file
from keras_transformer.inference.attention_maps import split_mark
from keras_transformer.layers import TokenEmbedding
from keras_transformer.text import Tokenizer, TokenizerPair
from keras_transformer.trainer.tensorboard import TRAIN, EventCallback, event_writer

#: The projector computes t-SNE and UMAP for 10,000 points at most; more would be drawn by others.
#: Where a vocabulary was learned, its first ids are the commonest pieces, and those are kept.
MOST_TOKENS = 10_000


class EmbeddingProjector(EventCallback):
    """Writes each table of token embeddings for TensorBoard's projector, when training ends.

    The files lie in `train`: numbers, labels and the configuration that names them. The first
    10,000 tokens of a vocabulary are shown: the projector lays out no more.

    Args:
        log_dir: the directory that is given to TensorBoard, or one of many inside it.
        tokenizers: a `TokenizerPair`, or a `Tokenizer` for both sides.
    """

    def __init__(self, log_dir, tokenizers):
        super().__init__(log_dir)
        is_single = isinstance(tokenizers, Tokenizer)
        self.tokenizers = TokenizerPair(tokenizers) if is_single else tokenizers

    def on_train_begin(self, logs=None):
        # What does not fit is said before hours of training, not after.
        tables = self._tables()
        if not tables:
            raise UserError(
                f"The model '{self.model.name}' has no `TokenEmbedding` to project. Leave out the "
                "`EmbeddingProjector`."
            )
        for layer, tokenizer in tables:
            tokenizer.require_vocabulary_size(layer.vocabulary_size, f"The layer '{layer.name}'")

    def on_train_end(self, logs=None):
        from google.protobuf import text_format
        from tensorboard.plugins.projector import ProjectorConfig

        config = ProjectorConfig()
        directory = self.log_dir / TRAIN
        event_writer(directory)  # the projector looks where there are events
        for layer, tokenizer in self._tables():
            vectors = np.asarray(layer.embeddings)[:MOST_TOKENS].astype("float32")
            entry = config.embeddings.add(
                tensor_name=layer.name,
                tensor_path=f"{layer.name}.tsv",
                metadata_path=f"{layer.name}_tokens.tsv",
                tensor_shape=vectors.shape,
            )
            with atomic_file(directory / entry.tensor_path) as file:
                file.write(_rows_of_numbers(vectors))
            with atomic_file(directory / entry.metadata_path) as file:
                file.write(make_labels(tokenizer.vocabulary()[:MOST_TOKENS]))
        # Last, as it names the others.
        with atomic_file(directory / "projector_config.pbtxt") as file:
            file.write(text_format.MessageToString(config))
        super().on_train_end(logs)

    def _tables(self):
        """The model's embeddings, each with the tokenizer whose ids it looks up."""
        return [
            (layer, self.tokenizers.source if "source" in layer.name else self.tokenizers.target)
            for layer in self.model.layers
            if isinstance(layer, TokenEmbedding)
        ]


def make_labels(tokens):
    r"""Returns the table of labels that the projector reads: a token and its id in each line.

    >>> print(make_labels(["<end>", "▁Haus", "\t"]), end="")
    token	id
    <end>	0
    ␣Haus	1
    \t	2
    """
    rows = (f"{''.join(split_mark(token))}\t{number}\n" for number, token in enumerate(tokens))
    return "token\tid\n" + "".join(rows)


def _rows_of_numbers(vectors):
    content = io.StringIO()
    # Nine digits tell all numbers of 32 bits apart.
    np.savetxt(content, vectors, fmt="%.9g", delimiter="\t")
    return content.getvalue()
