"""`saved_model.pb` as a protobuf, read without running anything that is in it."""

from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2

from keras_transformer.export.bounded_reading import read_bounded
from keras_transformer.export.damage import damaged, refused

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
