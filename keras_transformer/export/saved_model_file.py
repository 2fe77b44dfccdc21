"""The weights beside a graph: whether those that it needs are there, in their shapes."""

import math
from typing import NamedTuple

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2, trackable_object_graph_pb2

from keras_transformer.export.damage import damaged, read_bounded, refused
from keras_transformer.export.replay import first_line
from keras_transformer.export.signatures import dtype_name

SAVED_MODEL = "saved_model.pb"

#: Weights are elsewhere: graphs and vocabularies of real exports take a few megabytes.
MOST_BYTES = 256 << 20

# TensorFlow's loaders know these names too. Beside the file that was checked they could be the ones
# that are loaded.
_OTHER_FORMS = ("saved_model.pbtxt", "saved_model.cpb")


def read_meta_graph(directory):
    """Returns the one `MetaGraphDef` of an export: graph, functions, signatures and objects.

    Args:
        directory: a `pathlib.Path`, from `resolve_version`.
    """
    for name in _OTHER_FORMS:
        if (directory / name).exists():
            raise refused(
                directory,
                f"{name}: a second form of the graph beside {SAVED_MODEL}, of which servers may "
                "load either. Remove it, or export again.",
            )
    content = read_bounded(directory, SAVED_MODEL, MOST_BYTES)
    if not content:
        raise damaged(directory, SAVED_MODEL, "zero bytes")
    try:
        saved_model = saved_model_pb2.SavedModel.FromString(content)
    except DecodeError as error:
        raise damaged(
            directory,
            SAVED_MODEL,
            f"not a whole protobuf, its {len(content):,} bytes end early or have changed",
        ) from error
    if not saved_model.meta_graphs:
        raise damaged(directory, SAVED_MODEL, "holds no graph")
    tags = [sorted(meta_graph.meta_info_def.tags) for meta_graph in saved_model.meta_graphs]
    if tags != [["serve"]]:
        found = ", ".join("+".join(names) or "(no tag)" for names in tags)
        raise refused(
            directory,
            f"{SAVED_MODEL}: an export holds one graph, tagged 'serve'; found {found}. Export it "
            "with `keras-transformer export`.",
        )
    return saved_model.meta_graphs[0]


_PREFIX = "variables/variables"
_INDEX = f"{_PREFIX}.index"
_OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"


class Variables(NamedTuple):
    """The variables of a graph: how many, and of how many numbers together."""

    count: int
    parameters: int


def check_variables(directory, meta_graph):
    """Checks that each variable of a graph is in the checkpoint with its shape and dtype.

    Weights of another model, with a vocabulary of another size say, are told by that.

    Args:
        directory: of the export, a `pathlib.Path`.
        meta_graph: from `read_meta_graph`.

    Returns:
        The `Variables`.
    """
    try:
        reader = tf.train.load_checkpoint(str(directory / _PREFIX))
        objects = trackable_object_graph_pb2.TrackableObjectGraph.FromString(
            reader.get_tensor(_OBJECTS)
        )
    except (tf.errors.OpError, ValueError, IndexError, RuntimeError, DecodeError) as error:
        raise damaged(directory, _INDEX, f"cannot be read ({first_line(error)})") from error
    shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    count = parameters = 0
    for variable, key in _variables_with_keys(meta_graph.object_graph_def, objects):
        if key not in shapes:
            raise damaged(directory, _INDEX, f"no weights for the variable {variable.name!r}")
        wanted = dtype_name(variable.dtype), [axis.size for axis in variable.shape.dim]
        found = dtypes[key].name, shapes[key]
        if found != wanted:
            raise damaged(
                directory,
                _INDEX,
                f"the graph wants {variable.name!r} as {wanted[0]} {wanted[1]}, but its weights "
                f"are {found[0]} {found[1]}: those of another model",
            )
        count += 1
        parameters += math.prod(shapes[key])
    return Variables(count, parameters)


def _variables_with_keys(saved, stored):
    """Yields each variable of the saved objects with the key of its weights, or None.

    The objects of the graph and those of the checkpoint have the same names below the same parents.
    That is how `tf.saved_model.load` finds the weights.
    """
    keys, seen, waiting = {}, set(), [(0, 0)]
    while waiting:
        saved_id, stored_id = waiting.pop()
        are_there = 0 <= saved_id < len(saved.nodes) and 0 <= stored_id < len(stored.nodes)
        if saved_id in seen or not are_there:
            continue
        seen.add(saved_id)
        twin = stored.nodes[stored_id]
        if twin.attributes:
            keys[saved_id] = twin.attributes[0].checkpoint_key
        children = {child.local_name: child.node_id for child in twin.children}
        waiting += [
            (child.node_id, children[child.local_name])
            for child in saved.nodes[saved_id].children
            if child.local_name in children
        ]
    for number, node in enumerate(saved.nodes):
        if node.HasField("variable"):
            yield node.variable, keys.get(number)
