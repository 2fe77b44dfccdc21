"""Tokenizers inside a SavedModel, loaded in a process without this package."""

import json
import subprocess
import sys

import tensorflow as tf

TEXTS = ["Deutschland (Deutsch)", "", "  two  spaces ", "日本 한국", "👩‍👩‍👧‍👦 <s> [UNK]", "▁x\n"]
KINDS = ("bytes", "unigram", "wordpiece", "pretrained_sentencepiece", "bert", "byte_pair")
LOAD = """
import json, sys
import tensorflow as tf

texts = tf.constant(json.loads(sys.argv[1]))
answers = {}

def ask(name, path):
    answer = tf.saved_model.load(path).serve(texts)
    # As servers and the C API run it.
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        graph = tf.compat.v1.saved_model.load(session, ["serve"], path)
        signature = graph.signature_def["serving_default"]
        feeds = {signature.inputs["texts"].name: texts.numpy()}
        in_session = session.run({k: v.name for k, v in signature.outputs.items()}, feeds)
    for key, value in answer.items():
        if value.numpy().tolist() != in_session[key].tolist():
            raise SystemExit(f"{name}: {key} differs between function and session")
    answers[name] = [
        answer["ids"].numpy().tolist(),
        [text.decode() for text in answer["back"].numpy()],
        [token.decode() for token in answer["tokens"].numpy().ravel()],
    ]

paths = json.loads(sys.argv[2])
ask("bytes", paths.pop("bytes"))
if "tensorflow_text" in sys.modules:
    raise SystemExit("the byte tokenizer needed tensorflow_text")
import tensorflow_text
for name, path in paths.items():
    ask(name, path)
if "keras_transformer" in sys.modules:
    raise SystemExit("keras_transformer was imported")
print(json.dumps(answers))
"""


class Server(tf.Module):
    """Module that uses a tokenizer as an exported model does."""

    def __init__(self, tokenizer):
        super().__init__()
        self.tokenizer = tokenizer

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="texts")])
    def serve(self, texts):
        ids = self.tokenizer.tokenize(texts)
        padded = ids.to_tensor()
        back = self.tokenizer.detokenize(padded)
        return {"ids": padded, "back": back, "tokens": self.tokenizer.tokens(padded)}


def test_saved_model_without_package_gives_same_ids(tokenizers, tmp_path):
    tokenizers = {name: tokenizers[name] for name in KINDS}
    paths = {}
    for name, tokenizer in tokenizers.items():
        server = Server(tokenizer)
        paths[name] = str(tmp_path / name)
        tf.saved_model.save(server, paths[name], signatures=server.serve)
    run = subprocess.run(
        [sys.executable, "-c", LOAD, json.dumps(TEXTS), json.dumps(paths)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    answers = json.loads(run.stdout)
    assert answers.keys() == tokenizers.keys()
    for name, tokenizer in tokenizers.items():
        ids = tokenizer.tokenize(TEXTS)
        padded = ids.to_tensor()
        assert answers[name] == [
            padded.numpy().tolist(),
            [text.decode() for text in tokenizer.detokenize(ids).numpy()],
            [token.decode() for token in tokenizer.tokens(padded).numpy().ravel()],
        ]


def test_saved_model_of_bytes_uses_only_core_operations(tokenizers, tmp_path):
    server = Server(tokenizers["bytes"])
    tf.saved_model.save(server, str(tmp_path), signatures=server.serve)
    graph = tf.function(server.serve).get_concrete_function(tf.TensorSpec([None], tf.string)).graph
    functions = graph.as_graph_def().library.function
    operations = {node.op for function in functions for node in function.node_def}
    names = {function.signature.name for function in functions}
    unknown = [op for op in operations - names if not hasattr(tf.raw_ops, op)]
    assert operations
    assert not unknown
