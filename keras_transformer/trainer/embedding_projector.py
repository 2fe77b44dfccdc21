"""Token embeddings for TensorBoard's projector, labeled with the vocabulary."""

import io
import os
import pathlib
from collections.abc import Sequence

import numpy as np

from keras_transformer._utils.errors import UserError
from keras_transformer._utils.files import atomic_file
from keras_transformer.inference.attention_maps import split_mark
from keras_transformer.layers import TokenEmbedding
from keras_transformer.text import Tokenizer, TokenizerPair
from keras_transformer.trainer.callbacks import LoggingCallback, Logs
from keras_transformer.trainer.loggers.logger import TRAIN
from keras_transformer.trainer.loggers.tensorboard import event_writer

#: The projector computes t-SNE and UMAP for at most 10,000 points; it would sample a larger table.
#: The first ids of a learned vocabulary are its most frequent pieces, and those are kept.
MAX_TOKENS = 10_000


class EmbeddingProjector(LoggingCallback):
    """Writes each table of token embeddings for TensorBoard's projector when training ends.

    The files are in `train`: numbers, labels, and the configuration that names them. The first
    10,000 tokens of a vocabulary are written.

    Args:
        log_dir: The directory that is given to TensorBoard, or one of many inside it.
        tokenizers: A `TokenizerPair`, or a `Tokenizer` for both sides.
    """

    def __init__(
        self, log_dir: str | os.PathLike[str], tokenizers: Tokenizer | TokenizerPair
    ) -> None:
        super().__init__(log_dir)
        self.log_dir: pathlib.Path = pathlib.Path(log_dir)
        is_single = isinstance(tokenizers, Tokenizer)
        self.tokenizers: TokenizerPair = TokenizerPair(tokenizers) if is_single else tokenizers

    def on_train_begin(self, logs: Logs = None) -> None:
        # Mistakes are reported before training, not after it.
        tables = self._tables()
        if not tables:
            raise UserError(
                f"The model '{self.model.name}' has no `TokenEmbedding` to project.",
                fix="Leave out the `EmbeddingProjector`.",
            )
        for layer, tokenizer in tables:
            tokenizer.require_vocabulary_size(layer.vocabulary_size, f"The layer '{layer.name}'")

    def on_train_end(self, logs: Logs = None) -> None:
        from google.protobuf import text_format
        from tensorboard.plugins.projector import ProjectorConfig  # pyright: ignore

        config = ProjectorConfig()
        directory = self.log_dir / TRAIN
        event_writer(directory)  # the projector searches directories that contain events
        for layer, tokenizer in self._tables():
            vectors = np.asarray(layer.embeddings)[:MAX_TOKENS].astype("float32")
            content = io.StringIO()
            # Nine digits distinguish all float32 numbers.
            np.savetxt(content, vectors, fmt="%.9g", delimiter="\t")
            entry = config.embeddings.add(
                tensor_name=layer.name,
                tensor_path=f"{layer.name}.tsv",
                metadata_path=f"{layer.name}_tokens.tsv",
                tensor_shape=vectors.shape,
            )
            with atomic_file(directory / entry.tensor_path) as file:
                file.write(content.getvalue())
            with atomic_file(directory / entry.metadata_path) as file:
                file.write(make_labels(tokenizer.vocabulary()[:MAX_TOKENS]))
        # Last, because it names the other files.
        with atomic_file(directory / "projector_config.pbtxt") as file:
            file.write(text_format.MessageToString(config))
        super().on_train_end(logs)

    def _tables(self) -> list[tuple[TokenEmbedding, Tokenizer]]:
        """Returns the model's embeddings, each with the tokenizer of its ids."""
        return [
            (layer, self.tokenizers.source if "source" in layer.name else self.tokenizers.target)
            for layer in self.model.layers
            if isinstance(layer, TokenEmbedding)
        ]


def make_labels(tokens: Sequence[str]) -> str:
    r"""Returns the table of labels that the projector reads: a token and its id in each line.

    >>> print(make_labels(["<end>", "▁Haus", "\t"]), end="")
    token	id
    <end>	0
    ␣Haus	1
    \t	2
    """
    rows = (f"{''.join(split_mark(token))}\t{number}\n" for number, token in enumerate(tokens))
    return "token\tid\n" + "".join(rows)
