"""What each head of each layer attends to, as pictures."""

import tensorflow as tf

from keras_transformer.checks import require_positive_integer
from keras_transformer.errors import UserError
from keras_transformer.export.conllu_parsing import parse_conllu
from keras_transformer.export.modules import reads_trees
from keras_transformer.export.tree_translation_module import tree_inputs
from keras_transformer.inference.attention_heads_picture import draw_attention_heads
from keras_transformer.inference.translation import as_tensor
from keras_transformer.text import END_ID, START_ID, Tokenizer, TokenizerPair
from keras_transformer.trainer.tensorboard.event_callback import VALIDATION, EventCallback

# Weights of all heads take memory by the square of a length: of long documents this much is read.
_MOST_READ = 512


class AttentionMaps(EventCallback):
    """Draws the attention of a few examples at each evaluation.

    A picture shows all heads of one layer: each row is a token that the model writes (or, in an
    encoder, reads), each column a token that it can look at. The tags are
    "attention/encoder/layer_1", "attention/decoder/layer_1" and "attention/cross/layer_1", as far
    as the model has them, each with a picture for each example.

    Args:
        log_dir: the directory that is given to TensorBoard.
        tokenizers: a `TokenizerPair`, or a `Tokenizer` for both sides.
        sources: a list of a few strings, in CoNLL-U for a model that reads trees. A model without a
            source or without a target, such as a `LanguageModel`, is shown these texts alone.
        targets: translations of the sources, as many.
        most_tokens: of a longer text the beginning is drawn, as more could not be read.
    """

    def __init__(self, log_dir, tokenizers, sources, targets=None, most_tokens=40):
        super().__init__(log_dir)
        is_single = isinstance(tokenizers, Tokenizer)
        self.tokenizers = TokenizerPair(tokenizers) if is_single else tokenizers
        if isinstance(sources, str) or isinstance(targets, str) or not len(sources):
            raise ValueError(
                f"`sources` and `targets` must be lists of texts; got {sources!r} and {targets!r}."
            )
        if targets is not None and len(targets) != len(sources):
            raise UserError(
                f"There must be as many of each; got {len(sources):,} sources, {len(targets):,} "
                "targets. Find what is missing."
            )
        self.sources, self.targets = sources, targets
        self.most_tokens = require_positive_integer("most_tokens", most_tokens)

    def on_train_begin(self, logs=None):
        self._input_texts()  # what does not fit is said before training, not after a part of it

    def on_test_end(self, logs=None):
        texts = {name: as_tensor(texts) for name, texts in self._input_texts().items()}
        parsed = None
        if reads_trees(self.model.config):
            parsed = parse_conllu(texts["source"], most_words=self.model.config.max_length)
            texts["source"] = parsed.texts
        ids = {name: self._ids(name, strings) for name, strings in texts.items()}
        inputs = {name: ragged.to_tensor() for name, ragged in ids.items()}
        if parsed is not None:
            tokenizer = self.tokenizers.source
            sizes = tokenizer.word_sizes(parsed.words)
            inputs |= tree_inputs(tokenizer, inputs["source"], sizes, parsed.heads)
        weights = self.model.attention_weights(**inputs)
        labels = {name: self._labels(name, ragged) for name, ragged in ids.items()}
        if "target" in ids:
            # Who attends is named by what it writes: the token after the one that it reads.
            ends = tf.fill([ids["target"].nrows(), 1], END_ID)
            labels["written"] = self._labels("target", tf.concat([ids["target"][:, 1:], ends], 1))
        sides = {
            "encoder": ("source", "source"),
            "decoder": ("written", "target"),
            "cross": ("written", "source"),
        }
        with self.writing(VALIDATION):
            for kind, of_blocks in weights.items():
                rows, columns = (labels[side] for side in sides[kind])
                of_blocks = tf.cast(of_blocks, tf.float32).numpy()  # [B, N, H, ·, ·]
                for block in range(of_blocks.shape[1]):
                    pictures = [
                        draw_attention_heads(heads[:, : len(row), : len(column)], row, column)
                        for heads, row, column in zip(
                            of_blocks[:, block], rows, columns, strict=True
                        )
                    ]
                    write_pictures(f"attention/{kind}/layer_{block + 1}", pictures)

    def _input_texts(self):
        """The texts for each of the model's inputs; a packed model gets a document in a row."""
        if not hasattr(self.model, "attention_weights"):
            raise UserError(
                f"The model '{self.model.name}' has no `attention_weights` to draw. Leave out the "
                "`AttentionMaps`, or train a model of keras_transformer."
            )
        names = [each.name for each in self.model.inputs if each.name in ("source", "target")]
        if (len(names) == 2) != (self.targets is not None):
            given = "sources alone" if self.targets is None else "sources and targets"
            raise UserError(
                f"A {type(self.model).__name__} takes {' and '.join(names)}; got {given}. Give "
                f"{'`targets` too' if self.targets is None else 'its texts as `sources`'}."
            )
        return dict(zip(sorted(names), (self.sources, self.targets), strict=False))

    def _ids(self, name, strings):
        """Ragged ids as in training: a source ends with END, a target begins with START."""
        ids = getattr(self.tokenizers, name).tokenize(strings)
        ids = ids[:, : min(self.model.config.max_length, _MOST_READ) - 1]
        special = tf.fill([ids.nrows(), 1], START_ID if name == "target" else END_ID)
        return tf.concat([special, ids] if name == "target" else [ids, special], axis=1)

    def _labels(self, name, ids):
        vocabulary = getattr(self.tokenizers, name).vocabulary()
        return [[vocabulary[each] for each in row] for row in ids[:, : self.most_tokens].to_list()]


def write_pictures(tag, pictures):
    """Writes PNG files as one image summary, in the form of TensorBoard's plugin for images."""
    from tensorboard.plugins.image import metadata

    # It reads how wide and how high they are out of the files themselves.
    size = [b"", b""]
    tf.summary.write(
        tag,
        tf.constant([*size, *pictures]),
        metadata=metadata.create_summary_metadata(display_name=None, description=None),
    )
