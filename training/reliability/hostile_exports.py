"""Attacks `verify` and the loader with exports that were made to do harm, and counts the results.

  python -m training.reliability.hostile_exports saved_models/dates
  python -m training.reliability.hostile_exports saved_models/dates --races 20

Each attack changes a copy of an honest export, and then its manifest, so that all checksums fit.
The table shows the attacks that were refused by the checks that run nothing of the graph, those
that were stopped when the golden pairs ran in the sandbox, and those that succeeded: a file that
was written, a process of this program that ended, or an export that passed. The exit code is 1 if
one succeeded. A race replaces the export by a hostile one while it is loaded.
"""

import argparse
import collections
import os
import pathlib
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from training.reliability.sealing import MANIFEST, seal_export

GRAPH, INDEX = "saved_model.pb", "variables/variables.index"
DATA = "variables/variables.data-00000-of-00001"

#: The changes of a `MetaGraphDef` by name. "{path}" is where an attack would write.
GRAPH_ATTACKS: dict[str, Callable[[Any, bytes], object]] = {}
#: The changes of the decoded index: keys and `BundleEntryProto`s.
INDEX_ATTACKS: dict[str, Callable[[dict[str, Any]], object]] = {}
#: The changes of the files of an export.
FILE_ATTACKS: dict[str, Callable[[pathlib.Path], object]] = {}


def _graph_attack(change: Callable[[Any, bytes], object]) -> Callable[[Any, bytes], object]:
    GRAPH_ATTACKS[change.__name__] = change
    return change


def _index_attack(change: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, Any]], object]:
    INDEX_ATTACKS[change.__name__] = change
    return change


def _file_attack(change: Callable[[pathlib.Path], object]) -> Callable[[pathlib.Path], object]:
    FILE_ATTACKS[change.__name__] = change
    return change


# Parts of a graph.


def _name(tensor_name: str) -> str:
    return tensor_name.partition(":")[0]


def _node(meta_graph: Any, tensor_name: str) -> Any:
    name = _name(tensor_name)
    return next(node for node in meta_graph.graph_def.node if node.name == name)


def _called(meta_graph: Any, tensor_name: str) -> Any:
    """Returns the function that a node calls."""
    name = _node(meta_graph, tensor_name).attr["f"].func.name
    functions = meta_graph.graph_def.library.function
    return next(function for function in functions if function.signature.name == name)


def _saving(meta_graph: Any) -> Any:
    return _called(meta_graph, meta_graph.saver_def.save_tensor_name)


def _restoring(meta_graph: Any) -> Any:
    return _called(meta_graph, meta_graph.saver_def.restore_op_name)


def _answering(meta_graph: Any) -> Any:
    """Returns the function of a signature."""
    signature = meta_graph.signature_def["serving_default"]
    return _called(meta_graph, next(iter(signature.outputs.values())).name)


def _constant(nodes: Any, name: str, text: bytes) -> str:
    """Adds a constant text to nodes, and returns its name."""
    node = nodes.add(name=name, op="Const")
    node.attr["dtype"].type = 7
    node.attr["value"].tensor.dtype = 7
    node.attr["value"].tensor.tensor_shape.SetInParent()
    node.attr["value"].tensor.string_val.append(text)
    return name


def _model(nodes: Any, content: bytes) -> str:
    """Adds constant bytes, as models of tokenizers are, and returns the name of the node."""
    node = nodes.add(name="junk_model", op="Const")
    node.attr["dtype"].type = 4
    node.attr["value"].tensor.dtype = 4
    node.attr["value"].tensor.tensor_shape.dim.add(size=len(content))
    node.attr["value"].tensor.tensor_content = content
    return "junk_model"


# What a loader runs.


@_graph_attack
def local_variables_without_objects(meta_graph: Any, path: bytes) -> None:
    """The loader of old graphs runs the initializers of this collection: here, the saver."""
    meta_graph.ClearField("object_graph_def")
    del meta_graph.signature_def["__saved_model_init_op"]
    del meta_graph.collection_def["saved_model_main_op"]
    local_variables_that_save(meta_graph, path)


@_graph_attack
def local_variables_that_save(meta_graph: Any, path: bytes) -> None:
    from tensorflow.core.framework import variable_pb2

    nodes = meta_graph.graph_def.node
    saving = _node(meta_graph, meta_graph.saver_def.save_tensor_name)
    saving.input[0] = _constant(nodes, "elsewhere", path)
    variable = next(node.name for node in nodes if node.op == "VarHandleOp")
    definition = variable_pb2.VariableDef(
        variable_name=f"{variable}:0", initializer_name=saving.name, is_resource=True
    )
    collection = meta_graph.collection_def["local_variables"]
    collection.bytes_list.value.append(definition.SerializeToString())


@_graph_attack
def no_objects(meta_graph: Any, path: bytes) -> None:
    meta_graph.ClearField("object_graph_def")


@_graph_attack
def initialization_that_saves(meta_graph: Any, path: bytes) -> None:
    output = meta_graph.signature_def["__saved_model_init_op"].outputs["__saved_model_init_op"]
    output.name = meta_graph.saver_def.save_tensor_name


@_graph_attack
def initialization_that_restores(meta_graph: Any, path: bytes) -> None:
    output = meta_graph.signature_def["__saved_model_init_op"].outputs["__saved_model_init_op"]
    output.name = meta_graph.saver_def.restore_op_name


@_graph_attack
def initialization_that_waits_for_the_saver(meta_graph: Any, path: bytes) -> None:
    output = meta_graph.signature_def["__saved_model_init_op"].outputs["__saved_model_init_op"]
    node = _node(meta_graph, output.name)
    node.input.append(f"^{_name(meta_graph.saver_def.save_tensor_name)}")


@_graph_attack
def initialization_that_answers(meta_graph: Any, path: bytes) -> None:
    outputs = meta_graph.signature_def["serving_default"].outputs
    output = meta_graph.signature_def["__saved_model_init_op"].outputs["__saved_model_init_op"]
    output.name = next(iter(outputs.values())).name


def _main_op(key: str) -> Callable[[Any, bytes], object]:
    def change(meta_graph: Any, path: bytes) -> None:
        saving = _name(meta_graph.saver_def.save_tensor_name)
        meta_graph.collection_def[key].node_list.value.append(saving)

    change.__name__ = f"collection_{key}"
    return _graph_attack(change)


for _key in ("saved_model_main_op", "legacy_init_op", "table_initializer", "init_op"):
    _main_op(_key)


@_graph_attack
def training_signature(meta_graph: Any, path: bytes) -> None:
    output = meta_graph.signature_def["__saved_model_train_op"].outputs["__saved_model_train_op"]
    output.name = meta_graph.saver_def.save_tensor_name


@_graph_attack
def asset(meta_graph: Any, path: bytes) -> None:
    entry = meta_graph.asset_file_def.add(filename="../../../../etc/hostname")
    entry.tensor_info.name = _constant(meta_graph.graph_def.node, "asset", b"") + ":0"


@_graph_attack
def asset_object(meta_graph: Any, path: bytes) -> None:
    meta_graph.object_graph_def.nodes.add().asset.asset_file_def_index = 0


@_graph_attack
def collection_of_assets(meta_graph: Any, path: bytes) -> None:
    collection = meta_graph.collection_def["saved_model_assets"]
    collection.any_list.value.add(type_url="type.googleapis.com/tensorflow.AssetFileDef")


@_graph_attack
def table_from_a_file(meta_graph: Any, path: bytes) -> None:
    _answering(meta_graph).node_def.add(name="table", op="InitializeTableFromTextFileV2")


@_graph_attack
def object_that_restores_itself(meta_graph: Any, path: bytes) -> None:
    objects = meta_graph.object_graph_def
    saving = _saving(meta_graph).signature.name
    objects.concrete_functions[saving].SetInParent()
    function = objects.nodes.add()
    function.bare_concrete_function.concrete_function_name = saving
    number = len(objects.nodes) - 1
    objects.nodes[0].saveable_objects["x"].restore_function = number
    objects.nodes[0].saveable_objects["x"].save_function = number


@_graph_attack
def object_with_a_saver(meta_graph: Any, path: bytes) -> None:
    meta_graph.object_graph_def.nodes[0].registered_saver = "Custom.saver"


@_graph_attack
def object_of_another_class(meta_graph: Any, path: bytes) -> None:
    node = next(
        node
        for node in meta_graph.object_graph_def.nodes
        if node.WhichOneof("kind") == "user_object"
    )
    node.user_object.identifier = "_tf_keras_model"
    node.user_object.metadata = "{}"


@_graph_attack
def object_of_a_registered_class(meta_graph: Any, path: bytes) -> None:
    meta_graph.object_graph_def.nodes[0].registered_name = "Custom.Class"


@_graph_attack
def object_without_end(meta_graph: Any, path: bytes) -> None:
    meta_graph.object_graph_def.nodes[0].children.add(node_id=10**6, local_name="x")


@_graph_attack
def function_with_an_argument_of_another_class(meta_graph: Any, path: bytes) -> None:
    functions = meta_graph.object_graph_def.concrete_functions
    name = sorted(functions)[0]
    value = functions[name].canonicalized_input_signature.tuple_value.values.add()
    value.type_spec_value.type_spec_class_name = "os.system"


# The saver.


@_graph_attack
def saver_with_a_constant_path(meta_graph: Any, path: bytes) -> None:
    saving = _saving(meta_graph)
    constant = _constant(saving.node_def, "elsewhere", path)
    for node in saving.node_def:
        if node.op == "ShardedFilename":
            node.input[0] = f"{constant}:output:0"


@_graph_attack
def merging_into_a_constant_path(meta_graph: Any, path: bytes) -> None:
    saving = _saving(meta_graph)
    constant = _constant(saving.node_def, "elsewhere", path)
    for node in saving.node_def:
        if node.op == "MergeV2Checkpoints":
            node.input[1] = f"{constant}:output:0"


@_graph_attack
def restoring_from_a_constant_path(meta_graph: Any, path: bytes) -> None:
    restoring = _restoring(meta_graph)
    constant = _constant(restoring.node_def, "elsewhere", path)
    for node in restoring.node_def:
        if node.op == "RestoreV2":
            node.input[0] = f"{constant}:output:0"


@_graph_attack
def restoring_that_saves(meta_graph: Any, path: bytes) -> None:
    meta_graph.saver_def.restore_op_name = _name(meta_graph.saver_def.save_tensor_name)


@_graph_attack
def restoring_that_writes_a_file(meta_graph: Any, path: bytes) -> None:
    restoring = _restoring(meta_graph)
    name = _constant(restoring.node_def, "elsewhere", path)
    node = restoring.node_def.add(name="write", op="WriteFile")
    node.input.extend([f"{name}:output:0"] * 2)


@_graph_attack
def file_name_that_is_constant(meta_graph: Any, path: bytes) -> None:
    node = _node(meta_graph, meta_graph.saver_def.filename_tensor_name)
    node.op = "PlaceholderWithDefault"
    node.input.append(_constant(meta_graph.graph_def.node, "elsewhere", path))


@_graph_attack
def signature_that_calls_the_saver(meta_graph: Any, path: bytes) -> None:
    node = _answering(meta_graph).node_def.add(name="call", op="StatefulPartitionedCall")
    node.attr["f"].func.name = _saving(meta_graph).signature.name


@_graph_attack
def signature_that_is_the_saver(meta_graph: Any, path: bytes) -> None:
    output = next(iter(meta_graph.signature_def["serving_default"].outputs.values()))
    output.name = meta_graph.saver_def.save_tensor_name


@_graph_attack
def gradient_that_is_the_saver(meta_graph: Any, path: bytes) -> None:
    meta_graph.graph_def.library.registered_gradients.add(
        gradient_func=_saving(meta_graph).signature.name, registered_op_type="CustomGradient-1"
    )


@_graph_attack
def gradient_of_a_function(meta_graph: Any, path: bytes) -> None:
    meta_graph.graph_def.library.gradient.add(
        function_name=_answering(meta_graph).signature.name,
        gradient_func=_answering(meta_graph).signature.name,
    )


@_graph_attack
def gradient_of_an_op(meta_graph: Any, path: bytes) -> None:
    meta_graph.graph_def.library.registered_gradients.add(
        gradient_func=_answering(meta_graph).signature.name, registered_op_type="MatMul"
    )


# Operations, their attributes and their constant inputs.


def _op(op: str) -> Callable[[Any, bytes], object]:
    def change(meta_graph: Any, path: bytes) -> None:
        _answering(meta_graph).node_def.add(name="added", op=op)

    change.__name__ = f"op_{op}"
    return _graph_attack(change)


for _each in (
    *("ReadFile", "WriteFile", "PyFunc", "EagerPyFunc", "PrintV2", "ImmutableConst", "RemoteCall"),
    *("TextLineDataset", "Abort", "XlaCallModule", "Recv", "SaveV2", "RestoreV2", "SaveSlices"),
    *("PhraseTokenize", "FastBertNormalize", "AssignVariableOp", "MutableHashTableV2"),
    *("QuantizedMatMul", "DecodeProtoV2", "LoadAndRemapMatrix", "UnknownOp"),
):
    _op(_each)


@_graph_attack
def junk_wordpiece_model(meta_graph: Any, path: bytes) -> None:
    nodes = _answering(meta_graph).node_def
    model = _model(nodes, bytes(range(256)) * 16)
    node = nodes.add(name="tokenize", op="FastWordpieceTokenizeWithOffsets")
    node.input.extend([f"{_constant(nodes, 'text', b'a')}:output:0", f"{model}:output:0"])


@_graph_attack
def empty_wordpiece_model(meta_graph: Any, path: bytes) -> None:
    nodes = _answering(meta_graph).node_def
    node = nodes.add(name="tokenize", op="FastWordpieceTokenizeWithOffsets")
    text = _constant(nodes, "text", b"a")
    node.input.extend([f"{text}:output:0", f"{_model(nodes, b'')}:output:0"])


@_graph_attack
def computed_wordpiece_model(meta_graph: Any, path: bytes) -> None:
    nodes = _answering(meta_graph).node_def
    nodes.add(name="fill", op="Fill")
    node = nodes.add(name="tokenize", op="FastWordpieceTokenizeWithOffsets")
    node.input.extend([f"{_constant(nodes, 'text', b'a')}:output:0", "fill:output:0"])


@_graph_attack
def junk_sentencepiece_model(meta_graph: Any, path: bytes) -> None:
    import hashlib

    content = b"\x0a\x05\x0a\x03abc"
    node = meta_graph.graph_def.node.add(name="junk", op="SentencepieceOp")
    node.attr["model"].s = content
    node.attr["shared_name"].s = b"sentencepiece_" + hashlib.sha256(content).hexdigest().encode()


@_graph_attack
def device_of_another_machine(meta_graph: Any, path: bytes) -> None:
    _answering(meta_graph).node_def[0].device = "/job:worker/task:1/device:CPU:0"


@_graph_attack
def settings_with_servers(meta_graph: Any, path: bytes) -> None:
    from tensorflow.core.protobuf import config_pb2

    config = config_pb2.ConfigProto()
    config.cluster_def.job.add(name="worker").tasks[0] = "192.0.2.1:2222"
    output = next(iter(meta_graph.signature_def["serving_default"].outputs.values()))
    _node(meta_graph, output.name).attr["config_proto"].s = config.SerializeToString()


@_graph_attack
def another_executor(meta_graph: Any, path: bytes) -> None:
    output = next(iter(meta_graph.signature_def["serving_default"].outputs.values()))
    _node(meta_graph, output.name).attr["executor_type"].s = b"OTHER"


@_graph_attack
def another_dtype(meta_graph: Any, path: bytes) -> None:
    node = _answering(meta_graph).node_def.add(name="added", op="Identity")
    node.attr["T"].type = 11  # qint8


@_graph_attack
def another_encoding(meta_graph: Any, path: bytes) -> None:
    node = _answering(meta_graph).node_def.add(name="added", op="UnicodeTranscode")
    node.attr["input_encoding"].s = b"UTF-7,swaplfnl"


@_graph_attack
def function_in_an_attribute(meta_graph: Any, path: bytes) -> None:
    node = _answering(meta_graph).node_def.add(name="added", op="Identity")
    node.attr["f"].func.name = _saving(meta_graph).signature.name


@_graph_attack
def function_that_replaces_others(meta_graph: Any, path: bytes) -> None:
    _answering(meta_graph).attr["api_implements"].s = b"upper"


@_graph_attack
def function_with_the_name_of_an_op(meta_graph: Any, path: bytes) -> None:
    meta_graph.graph_def.library.function.add().signature.name = "MatMul"


@_graph_attack
def two_functions_of_one_name(meta_graph: Any, path: bytes) -> None:
    meta_graph.graph_def.library.function.add().CopyFrom(_answering(meta_graph))


@_graph_attack
def two_nodes_of_one_name(meta_graph: Any, path: bytes) -> None:
    nodes = _answering(meta_graph).node_def
    nodes.add().CopyFrom(nodes[0])


@_graph_attack
def constant_of_terabytes(meta_graph: Any, path: bytes) -> None:
    node = _answering(meta_graph).node_def.add(name="large", op="Const")
    node.attr["dtype"].type = 1
    node.attr["value"].tensor.dtype = 1
    node.attr["value"].tensor.tensor_shape.dim.add(size=1 << 40)
    node.attr["value"].tensor.float_val.append(1.0)


@_graph_attack
def constant_of_negative_size(meta_graph: Any, path: bytes) -> None:
    constant_of_terabytes(meta_graph, path)
    tensor = _answering(meta_graph).node_def[-1].attr["value"].tensor
    tensor.tensor_shape.dim[0].size = -(1 << 62)


@_graph_attack
def constant_of_a_variant(meta_graph: Any, path: bytes) -> None:
    node = _answering(meta_graph).node_def.add(name="variant", op="Const")
    node.attr["value"].tensor.dtype = 21
    node.attr["value"].tensor.variant_val.add(type_name="tensorflow::TensorList")


@_graph_attack
def no_signature_of_the_contract(meta_graph: Any, path: bytes) -> None:
    del meta_graph.signature_def["serving_default"]


@_graph_attack
def signature_without_golden_pair(meta_graph: Any, path: bytes) -> None:
    signature = meta_graph.signature_def["serving_default"]
    meta_graph.signature_def["extra"].CopyFrom(signature)


@_graph_attack
def signature_of_another_function(meta_graph: Any, path: bytes) -> None:
    """A server would answer with another function than `verify` has called."""
    signatures = meta_graph.signature_def
    first, second = (next(iter(signatures[name].outputs.values())) for name in ("encode", "score"))
    node, other = _node(meta_graph, first.name), _node(meta_graph, second.name)
    node.attr["f"].func.name = other.attr["f"].func.name


@_graph_attack
def function_that_calls_itself(meta_graph: Any, path: bytes) -> None:
    function = _answering(meta_graph)
    node = function.node_def.add(name="again", op="PartitionedCall")
    node.attr["f"].func.name = function.signature.name


@_graph_attack
def calls_without_end(meta_graph: Any, path: bytes) -> None:
    library = meta_graph.graph_def.library
    for number in range(200):
        function = library.function.add()
        function.signature.name = f"level_{number}"
        node = function.node_def.add(name="deeper", op="PartitionedCall")
        node.attr["f"].func.name = f"level_{number + 1}"
    library.function.add().signature.name = "level_200"


# The index of the weights.


def _weight(entries: dict[str, Any]) -> Any:
    return next(entry for key, entry in entries.items() if not key.startswith("_"))


@_index_attack
def weight_outside_of_the_file(entries: dict[str, Any]) -> None:
    _weight(entries).offset = 1 << 50


@_index_attack
def weight_of_negative_size(entries: dict[str, Any]) -> None:
    _weight(entries).size = -1


@_index_attack
def weight_of_a_huge_shape(entries: dict[str, Any]) -> None:
    _weight(entries).shape.dim[0].size = 1 << 60


@_index_attack
def weight_of_another_dtype(entries: dict[str, Any]) -> None:
    _weight(entries).dtype = 21  # variant


@_index_attack
def weight_in_another_file(entries: dict[str, Any]) -> None:
    _weight(entries).shard_id = 7


@_index_attack
def weight_in_slices(entries: dict[str, Any]) -> None:
    _weight(entries).slices.add().extent.add(start=0, length=1 << 60)


@_index_attack
def objects_that_are_a_weight(entries: dict[str, Any]) -> None:
    entries["_CHECKPOINTABLE_OBJECT_GRAPH"].CopyFrom(_weight(entries))


# Files.


@_file_attack
def pipe_in_place_of_weights(directory: pathlib.Path) -> None:
    (directory / DATA).unlink()
    os.mkfifo(directory / DATA)


@_file_attack
def pipe_in_place_of_the_graph(directory: pathlib.Path) -> None:
    (directory / GRAPH).unlink()
    os.mkfifo(directory / GRAPH)


@_file_attack
def pipe_in_place_of_the_manifest(directory: pathlib.Path) -> None:
    (directory / MANIFEST).unlink()
    os.mkfifo(directory / MANIFEST)


@_file_attack
def link_to_a_device(directory: pathlib.Path) -> None:
    (directory / DATA).unlink()
    (directory / DATA).symlink_to("/dev/zero")


@_file_attack
def second_form_of_the_graph(directory: pathlib.Path) -> None:
    shutil.copyfile(directory / GRAPH, directory / "saved_model.pbtxt")


@_file_attack
def cut_index(directory: pathlib.Path) -> None:
    content = (directory / INDEX).read_bytes()
    (directory / INDEX).write_bytes(content[: len(content) // 2])


@_file_attack
def index_with_a_block_outside(directory: pathlib.Path) -> None:
    content = bytearray((directory / INDEX).read_bytes())
    content[-48:-44] = b"\xff\xff\xff\x7f"
    (directory / INDEX).write_bytes(content)


@_file_attack
def golden_pairs_of_one_signature(directory: pathlib.Path) -> None:
    import json

    manifest = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
    manifest["golden"] = manifest["golden"][:1]
    (directory / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")


def all_attacks() -> Iterator[tuple[str, Callable[[pathlib.Path, bytes], None]]]:
    """Yields the name of each attack, and the function that changes and seals an export."""
    for name, change in GRAPH_ATTACKS.items():
        yield name, lambda directory, path, change=change: attack_graph(directory, change, path)
    for name, change in INDEX_ATTACKS.items():
        yield name, lambda directory, path, change=change: attack_index(directory, change)
    for name, change in FILE_ATTACKS.items():
        yield name, lambda directory, path, change=change: attack_files(directory, change)


def attack_graph(
    directory: pathlib.Path, change: Callable[[Any, bytes], object], path: bytes = b"written"
) -> None:
    """Changes the graph of an export, and seals the export.

    Args:
        directory: directory of the export.
        change: one of `GRAPH_ATTACKS`.
        path: where the attack would write.
    """
    from tensorflow.core.protobuf import saved_model_pb2

    saved_model = saved_model_pb2.SavedModel.FromString((directory / GRAPH).read_bytes())
    change(saved_model.meta_graphs[0], path)
    (directory / GRAPH).write_bytes(saved_model.SerializeToString())
    seal_export(directory)


def attack_index(directory: pathlib.Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Changes the index of the weights of an export, whose sums fit, and seals the export.

    Args:
        directory: directory of the export.
        change: one of `INDEX_ATTACKS`.
    """
    from tensorflow.core.protobuf import tensor_bundle_pb2

    items = list(table_items((directory / INDEX).read_bytes()))
    entries = {
        key.decode(): tensor_bundle_pb2.BundleEntryProto.FromString(value)
        for key, value in items[1:]
    }
    change(entries)
    changed = [(key.encode(), entry.SerializeToString()) for key, entry in entries.items()]
    (directory / INDEX).write_bytes(make_table([items[0], *changed]))
    seal_export(directory)


def attack_files(directory: pathlib.Path, change: Callable[[pathlib.Path], object]) -> None:
    """Changes the files of an export, and seals it if they are all regular files.

    Args:
        directory: directory of the export.
        change: one of `FILE_ATTACKS`.
    """
    change(directory)
    entries = [entry for entry in directory.rglob("*") if not entry.is_dir()]
    if all(entry.is_file() and not entry.is_symlink() for entry in entries):
        seal_export(directory)


def table_items(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yields the keys and values of a table of LevelDB."""
    from keras_transformer.export.variables_index import read_table

    yield from read_table(content)


def make_table(items: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Returns a table of LevelDB, with one block of data, whose sums fit."""
    content = bytearray()

    def add(rows: Sequence[tuple[bytes, bytes]]) -> bytes:
        """Adds a block, in which all keys are whole, and returns its place."""
        from keras_transformer.export.variables_index import masked_crc32c

        block, places = bytearray(), []
        for key, value in rows:
            places.append(len(block))
            block += _varint(0) + _varint(len(key)) + _varint(len(value)) + key + value
        for place in places or [0]:
            block += place.to_bytes(4, "little")
        block += (len(places) or 1).to_bytes(4, "little")
        handle = _varint(len(content)) + _varint(len(block))
        block += b"\0"
        content.extend(block + masked_crc32c(bytes(block)).to_bytes(4, "little"))
        return handle

    data = add(items)
    metadata = add([])
    index = add([(b"\xff", data)])
    footer = metadata + index
    return bytes(content) + footer.ljust(40, b"\0") + bytes.fromhex("57fb808b247547db")


def _varint(number: int) -> bytes:
    groups = bytearray()
    while number > 127:
        groups.append(number & 127 | 128)
        number >>= 7
    return bytes([*groups, number])


class Outcome(NamedTuple):
    """Result of an attack.

    Attributes:
        kind: "refused", "stopped in the sandbox" or "succeeded".
        detail: the message, or what happened.
    """

    kind: str
    detail: str


def try_attack(
    honest: pathlib.Path, attack: Callable[[pathlib.Path, bytes], None], place: pathlib.Path
) -> Outcome:
    """Attacks `verify_export` with a copy of an honest export.

    Args:
        honest: a version directory.
        attack: one of `all_attacks`.
        place: an empty directory.
    """
    from keras_transformer._utils.errors import UserError
    from keras_transformer.export import verify_export

    directory, victim = place / "name" / "1", place / "victim"
    shutil.copytree(honest, directory)
    victim.mkdir()
    attack(directory, os.fsencode(victim / "written"))
    try:
        verify_export(directory)
        outcome = Outcome("succeeded", "it passed all checks")
    except UserError as error:
        is_stopped = "not loadable" in error.problem or error.problem.startswith("golden pair")
        outcome = Outcome("stopped in the sandbox" if is_stopped else "refused", error.problem)
    except Exception as error:
        outcome = Outcome("succeeded", f"an error of the program: {error!r}")
    if any(victim.iterdir()):
        return Outcome("succeeded", "it wrote a file")
    return outcome


def race(honest: pathlib.Path, place: pathlib.Path, count: int) -> collections.Counter[str]:
    """Loads an export while another thread replaces its graph all the time; counts the results.

    Args:
        honest: a version directory.
        place: an empty directory.
        count: how often it is loaded.
    """
    from keras_transformer import load
    from keras_transformer._utils.errors import UserError

    directory, victim = place / "name" / "1", place / "victim"
    shutil.copytree(honest, directory)
    shutil.copytree(honest, place / "hostile")
    victim.mkdir()
    path = os.fsencode(victim / "written")
    attack_graph(place / "hostile", GRAPH_ATTACKS["local_variables_without_objects"], path)
    graphs = [(place / "hostile" / GRAPH).read_bytes(), (directory / GRAPH).read_bytes()]
    is_over = threading.Event()

    def swap() -> None:
        while not is_over.is_set():
            for content in graphs:
                (place / "new").write_bytes(content)
                (place / "new").replace(directory / GRAPH)

    swapping = threading.Thread(target=swap)
    swapping.start()
    results: collections.Counter[str] = collections.Counter()
    try:
        for _ in range(count):
            try:
                load(directory)
                results["the honest one was loaded"] += 1
            except UserError:
                results["refused"] += 1
            results["a file was written"] += any(victim.iterdir())
    finally:
        is_over.set()
        swapping.join()
    return results


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("export", help="an honest export, <name> or <name>/<version>")
    parser.add_argument("--races", type=int, default=8, help="loads during swaps (default: 8)")
    options = parser.parse_args(arguments)
    from keras_transformer.export.versions import resolve_version

    honest = resolve_version(options.export)
    outcomes: dict[str, Outcome] = {}
    for name, attack in all_attacks():
        with tempfile.TemporaryDirectory() as place:
            outcomes[name] = try_attack(honest, attack, pathlib.Path(place))
        print(f"{name}: {outcomes[name].kind}: {outcomes[name].detail[:150]}", flush=True)
    with tempfile.TemporaryDirectory() as place:
        races = race(honest, pathlib.Path(place), options.races)
    print()
    groups = {
        "graph": GRAPH_ATTACKS,
        "index of the weights": INDEX_ATTACKS,
        "files": FILE_ATTACKS,
    }
    kinds = ("refused", "stopped in the sandbox", "succeeded")
    rows = []
    for group, names in groups.items():
        counts = collections.Counter(outcomes[name].kind for name in names)
        rows.append((group, len(names), *(counts[kind] for kind in kinds)))
    written = races["a file was written"]
    rows.append(("swaps while it is loaded", options.races, options.races - written, 0, written))
    header = ("attacks on", "tried", *kinds)
    for row in (header, ("---", *["---:"] * (len(header) - 1)), *rows):
        print("| " + " | ".join(map(str, row)) + " |")
    print(", ".join(f"{name}: {count}" for name, count in sorted(races.items())))
    return 1 if written or any(each.kind == "succeeded" for each in outcomes.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
