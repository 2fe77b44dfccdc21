"""The list of allowed operations: all exist, none is dangerous, and our models need no others."""

import pathlib
import re

import pytest
import tensorflow as tf
import tensorflow_text
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow.python.framework import op_def_registry

from keras_transformer.export import allowed_ops
from keras_transformer.export.allowed_ops import check_ops
from keras_transformer.layers.attention import MECHANISMS
from keras_transformer.models import Transformer
from keras_transformer.text import (
    BertTokenizer,
    BytePairTokenizer,
    ByteTokenizer,
    SpecialIds,
    learn_tokenizer,
)
from keras_transformer.text.byte_pair_model import BYTE_CHARACTERS, byte_pair_model
from tests.export.small_export import TEXTS

NOWHERE = pathlib.Path("nowhere")


def test_allowed_ops_all_exist():
    missing = [op for op in allowed_ops.ALLOWED if op_def_registry.get(op) is None]
    assert not missing
    assert all(hasattr(tf.raw_ops, op) for op in allowed_ops.CORE)


def test_tensorflow_text_ops_are_outside_core():
    libraries = pathlib.Path(tensorflow_text.__file__).parent.rglob("*.so")
    content = b"".join(path.read_bytes() for path in libraries)
    assert content
    for op in allowed_ops.TENSORFLOW_TEXT:
        assert not hasattr(tf.raw_ops, op)
        assert op.encode() in content


def test_allowed_ops_have_no_file_or_address_argument():
    suspicious = re.compile("file|path|directory|address|url|descriptor|command")
    for op in allowed_ops.ALLOWED:
        definition = op_def_registry.get(op)
        names = [part.name for part in (*definition.attr, *definition.input_arg)]
        assert not [name for name in names if suspicious.search(name)], op


def test_stateful_allowed_ops_are_known_by_name():
    """TensorFlow marks all others as stateless."""
    stateful = {op for op in allowed_ops.ALLOWED if op_def_registry.get(op).is_stateful}
    known = (
        allowed_ops.VARIABLES_AND_TABLES | allowed_ops.CONTROL_FLOW | allowed_ops.TENSORFLOW_TEXT
    )
    assert stateful <= known


def test_outside_core_lists_tensorflow_text_ops():
    assert allowed_ops.outside_core({"MatMul": 3, "SentencepieceOp": 1}) == ["SentencepieceOp"]


def meta_graph_of(function):
    """Returns the graph of a traced function, as a SavedModel holds it."""
    return meta_graph_pb2.MetaGraphDef(graph_def=function.graph.as_graph_def())


def small_transformer(attention):
    sizes = {"hidden_dim": 8, "intermediate_dim": 16, "num_heads": 2}
    layers = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    # A mechanism that cannot be causal is used in the encoder alone.
    decoder = None if MECHANISMS[attention].supports_causal else "scaled_dot_product"
    mechanisms = {"attention": attention, "decoder_attention": decoder}
    return Transformer(vocabulary_size=40, **mechanisms, **sizes, **layers)


@pytest.mark.parametrize("attention", sorted(MECHANISMS))
def test_check_ops_allows_every_attention_mechanism(attention):
    model = small_transformer(attention)

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)])
    def first_logits(source):
        state = model.initial_state(model.encode(source), 9)
        return model.step(source[:, 0], state)[0]

    ops = check_ops(NOWHERE, meta_graph_of(first_logits.get_concrete_function()))
    assert {"MatMul", "Softmax"} <= ops.ops.keys()
    assert ops.outside_core == []


@pytest.mark.filterwarnings("ignore:The .* vocabulary has:UserWarning")
def test_check_ops_allows_every_tokenizer():
    def silent(stage, done, total):
        """Shows no progress."""

    special_ids, tokens = SpecialIds(0, 1, 1, 1), ["<pad>", "?", *BYTE_CHARACTERS]
    byte_pairs = byte_pair_model(tokens, [], without_text=(0, 1))
    options = {"normalizes": True, "adds_space": True, "whole_words": True, "pattern": "llama3"}
    corpus = ["eins zwei drei vier", "fünf sechs sieben acht neun zehn"] * 20
    tokenizers = [
        (ByteTokenizer(), False),
        (learn_tokenizer("sentencepiece", corpus, 300, progress=silent), True),
        (learn_tokenizer("wordpiece", corpus, 80, progress=silent), True),
        (BertTokenizer(["<pad>", "?", "a"], special_ids, clean_up=True), True),
        (BytePairTokenizer(byte_pairs, len(tokens), special_ids, **options), True),
    ]
    for tokenizer, needs_text in tokenizers:

        @tf.function(input_signature=[TEXTS])
        def there_and_back(text, tokenizer=tokenizer):
            return tokenizer.detokenize(tokenizer.tokenize(text).to_tensor())

        ops = check_ops(NOWHERE, meta_graph_of(there_and_back.get_concrete_function()))
        assert bool(ops.outside_core) == needs_text
