"""The ops of tensorflow-text that run a SentencePiece model."""

import hashlib

import tensorflow as tf


class SentencePieceOps(tf.Module):
    """A SentencePiece model in the graph.

    It does what `tensorflow_text.SentencepieceTokenizer` does, with one difference. There the model
    belongs to a kernel of TensorFlow's eager runtime and goes with it: after `tf.random.set_seed`,
    which throws the kernels away, every tokenizer fails with "Resource … does not exist". Here the
    model has a name, by which it stays.

    Args:
        model: The bytes of the model.
    """

    def __init__(self, model):
        super().__init__()
        self._model = _ModelResource(model)

    def pieces(self):
        """Returns the pieces in the order of their ids, a string tensor [V]."""
        handle = self._model.resource_handle
        size = _ops().sentencepiece_vocab_size_op(handle)
        return _ops().sentencepiece_id_to_string_op(handle, tf.range(size))

    def split(self, strings):
        """Returns the ids of strings [B], an int32 RaggedTensor [B, None]."""
        values, row_splits = _ops().sentencepiece_tokenize_op(
            self._model.resource_handle,
            strings,
            nbest_size=0,
            alpha=1.0,
            add_bos=False,
            add_eos=False,
            reverse=False,
            out_type=tf.int32,
        )
        return tf.RaggedTensor.from_row_splits(values, row_splits, validate=False)

    def join(self, ids):
        """Returns the strings [B] of ids, an int32 RaggedTensor [B, None]."""
        return _ops().sentencepiece_detokenize_op(
            self._model.resource_handle,
            ids.values,
            ids.row_splits,
            add_bos=False,
            add_eos=False,
            reverse=False,
        )


class _ModelResource(tf.saved_model.experimental.TrackableResource):
    """The model as TensorFlow holds it, made anew wherever a SavedModel is loaded."""

    def __init__(self, model):
        super().__init__()
        self._bytes = model
        # Equal models may share a place; different ones never do.
        self._shared_name = f"sentencepiece_{hashlib.sha256(model).hexdigest()}"
        # Made at once, so that a model that is none is refused here.
        _ = self.resource_handle

    def _create_resource(self):
        return _ops().sentencepiece_op(model=self._bytes, shared_name=self._shared_name)


def _ops():
    from tensorflow_text.python.ops import sentencepiece_tokenizer

    return sentencepiece_tokenizer.gen_sentencepiece_tokenizer
