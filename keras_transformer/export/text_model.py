"""A model that takes strings, whether from a run or from an export."""

import dataclasses
import pathlib

import tensorflow as tf

from keras_transformer._utils.errors import UserError
from keras_transformer.export.allowed_ops import check_ops
from keras_transformer.export.damage import no_tensorflow_text
from keras_transformer.export.manifest import check_files, read_manifest
from keras_transformer.export.modules import make_text_module, reads_trees
from keras_transformer.export.saved_model_file import check_variables, read_meta_graph
from keras_transformer.export.signatures import check_signatures
from keras_transformer.export.trained_model import RUN_RECIPE, TrainedModel, is_trained_model
from keras_transformer.export.versions import resolve_version


@dataclasses.dataclass(frozen=True)
class TextModel:
    """A model that takes strings.

    Attributes:
        kind: the name of the model's class, such as "Transformer".
        name: what it is called in messages.
        signatures: functions of named tensors to dictionaries of tensors, by name.
        manifest: of an export; None for a run.
        reads_trees: whether its source texts are CoNLL-U.
        recipe: how it was trained, a dictionary, or None.
    """

    kind: str
    name: str
    signatures: dict
    manifest: dict | None = None
    reads_trees: bool = False
    recipe: dict | None = None


def open_text_model(path, **search_settings):
    """Opens a run's directory or an export.

    Of an export, the files' checksums and the operations in its graph are checked before anything
    of it runs.

    Args:
        path: a run's directory, a version directory, or the directory of all versions.
        **search_settings: fields of `SearchSettings`, for a run; None means what its recipe says.
            In an export the search is part of the graph.
    """
    given = {name: value for name, value in search_settings.items() if value is not None}
    if is_trained_model(path):
        trained = TrainedModel.load(path)
        module = make_text_module(trained, trained.search_settings(**given) if given else None)
        return TextModel(
            type(trained.model).__name__,
            str(path),
            module.functions,
            reads_trees=reads_trees(trained.model.config),
            recipe=trained.recipe,
        )
    directory = _version_directory(path)
    meta_graph = read_meta_graph(directory)
    manifest = read_manifest(directory)
    check_files(directory, manifest)
    graph_ops = check_ops(directory, meta_graph)
    check_signatures(directory, meta_graph, manifest["kind"])
    check_variables(directory, meta_graph)
    if given:
        raise UserError(
            f"{path}: an export searches as it was told when it was made. Export it again with "
            "other settings, or give the run's directory."
        )
    if graph_ops.outside_core:
        _register_operations(directory)
    loaded = tf.saved_model.load(str(directory))
    # The signatures live as long as what was loaded does.
    signatures = {
        name: _Signature(loaded, function) for name, function in loaded.signatures.items()
    }
    # A manifest may say anything of these two.
    described = (manifest["model"], manifest["recipe"])
    model, recipe = (value if isinstance(value, dict) else {} for value in described)
    return TextModel(
        manifest["kind"],
        str(path),
        signatures,
        manifest,
        reads_trees=model.get("tree_positions", "none") != "none",
        recipe=recipe or None,
    )


def _version_directory(path):
    """As `resolve_version`; a run that has no model yet is told from what never was an export."""
    try:
        return resolve_version(path)
    except UserError as error:
        if not pathlib.Path(path, RUN_RECIPE).is_file():
            raise
        raise UserError(
            f"{path}: this run is not finished. The `keras-transformer train` that began it goes "
            "on with it."
        ) from error


def _register_operations(directory):
    try:
        import tensorflow_text  # noqa: F401  (its import registers them)
    except ImportError as error:
        raise no_tensorflow_text(directory, error) from error


class _Signature:
    def __init__(self, owner, function):
        self._owner = owner
        self._function = function

    def __call__(self, **tensors):
        return self._function(**tensors)
