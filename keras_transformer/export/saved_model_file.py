"""Reading of `saved_model.pb`, and the check that the weights of the export fit its graph."""

import math
import pathlib
from collections.abc import Iterator
from typing import Any

from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2, trackable_object_graph_pb2

from keras_transformer.export.damage import damaged, read_bounded, refused
from keras_transformer.export.graph import dtype_name
from keras_transformer.export.variables_index import DATA, INDEX, read_index, read_objects

SAVED_MODEL = "saved_model.pb"

#: The weights are in other files: graphs and vocabularies of real exports take a few megabytes.
MAXIMUM_BYTES = 256 << 20

# TensorFlow's loaders know these names too, and could load such a file in place of the one that was
# checked.
_OTHER_FORMS = ("saved_model.pbtxt", "saved_model.cpb")


def read_meta_graph(directory: pathlib.Path) -> Any:
    """Returns the only `MetaGraphDef` of an export: graph, functions, signatures and objects."""
    for name in _OTHER_FORMS:
        if (directory / name).exists():
            problem = f"a second form of the graph beside {SAVED_MODEL}; servers may load either."
            raise refused(directory, f"{name}: {problem}", "Remove it, or export again.")
    content = read_bounded(directory, SAVED_MODEL, MAXIMUM_BYTES)
    if not content:
        raise damaged(directory, SAVED_MODEL, "zero bytes")
    try:
        saved_model = saved_model_pb2.SavedModel.FromString(content)
    except DecodeError as error:
        problem = f"not a complete protobuf, its {len(content):,} bytes end early or have changed"
        raise damaged(directory, SAVED_MODEL, problem) from error
    if not saved_model.meta_graphs:
        raise damaged(directory, SAVED_MODEL, "holds no graph")
    tags = [sorted(meta_graph.meta_info_def.tags) for meta_graph in saved_model.meta_graphs]
    if tags != [["serve"]]:
        found = ", ".join("+".join(names) or "(no tag)" for names in tags)
        raise refused(
            directory,
            f"{SAVED_MODEL}: an export holds one graph, tagged 'serve'; found {found}.",
            "Export the model with `keras-transformer export`.",
        )
    return saved_model.meta_graphs[0]


def check_variables(directory: pathlib.Path, meta_graph: Any) -> tuple[int, int]:
    """Returns the number of variables of a graph, and of parameters in them.

    Each variable must be in the checkpoint with its shape and dtype; those of another model, such
    as one with a larger vocabulary, are a `UserError`.

    Args:
        directory: directory of the export.
        meta_graph: from `read_meta_graph`.
    """
    entries = read_index(directory)
    try:
        objects = trackable_object_graph_pb2.TrackableObjectGraph.FromString(
            read_objects(directory, entries)
        )
    except DecodeError as error:
        raise damaged(directory, DATA, "cannot be read (its objects)") from error
    count = parameters = 0
    for variable, key in _variables_with_keys(meta_graph.object_graph_def, objects):
        if key not in entries:
            raise damaged(directory, INDEX, f"no weights for the variable {variable.name!r}")
        wanted = dtype_name(variable.dtype), [axis.size for axis in variable.shape.dim]
        found = entries[key].dtype, entries[key].shape
        if found != wanted:
            raise damaged(
                directory,
                INDEX,
                f"the graph expects {variable.name!r} as {wanted[0]} {wanted[1]}, but its weights "
                f"are {found[0]} {found[1]}: those of another model",
            )
        count += 1
        parameters += math.prod(found[1])
    return count, parameters


def _variables_with_keys(saved: Any, stored: Any) -> Iterator[tuple[Any, str | None]]:
    """Yields each variable of the saved objects with the key of its weights, or None.

    The objects of the graph and those of the checkpoint have the same names below the same parents:
    `tf.saved_model.load` finds the weights in this way.
    """
    keys, seen, waiting = {}, set(), [(0, 0)]
    while waiting:
        saved_id, stored_id = waiting.pop()
        exist = 0 <= saved_id < len(saved.nodes) and 0 <= stored_id < len(stored.nodes)
        if saved_id in seen or not exist:
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
