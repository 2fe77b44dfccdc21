"""The weights beside a graph are its own, or that is said."""

import shutil

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.export.saved_model_file import check_variables, read_meta_graph

DATA = "variables/variables.data-00000-of-00001"
INDEX = "variables/variables.index"


def refusal_of(directory):
    with pytest.raises(UserError) as refusal:
        check_variables(directory, read_meta_graph(directory))
    message = str(refusal.value)
    assert "\n" not in message
    return message


def test_variables_are_counted(written_export, other_export):
    assert check_variables(written_export, read_meta_graph(written_export)) == (1, 4 * 3)
    assert check_variables(other_export, read_meta_graph(other_export)) == (1, 9 * 3)


def test_weights_of_a_model_with_another_vocabulary(export, other_export):
    shutil.rmtree(export / "variables")
    shutil.copytree(other_export / "variables", export / "variables")
    message = refusal_of(export)
    assert (
        f"damaged: {INDEX}: the graph wants 'embedding' as float32 [4, 3], but its weights are "
        "float32 [9, 3]: those of another model." in message
    )


def test_no_weights_for_a_variable(export):
    meta_graph = read_meta_graph(export)
    objects = meta_graph.object_graph_def
    objects.nodes.add().variable.name = "bias"
    objects.nodes[0].children.add(node_id=len(objects.nodes) - 1, local_name="bias")
    with pytest.raises(UserError, match=r"variables\.index: no weights for the variable 'bias'"):
        check_variables(export, meta_graph)


@pytest.mark.parametrize("name", [INDEX, DATA, "variables"])
def test_missing(export, name):
    path = export / name
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert f"damaged: {INDEX}: cannot be read (" in refusal_of(export)


@pytest.mark.parametrize("name", [INDEX, DATA])
def test_damaged_anywhere_it_is_one_line_or_no_harm(export, name):
    """What cannot be told without reading the weights, the sha256 of the manifest tells."""
    meta_graph, path = read_meta_graph(export), export / name
    content = path.read_bytes()
    messages = []
    for position in range(len(content)):
        changed = bytearray(content)
        changed[position] ^= 1 << (position % 8)
        for damage in (changed, content[:position]):
            path.write_bytes(damage)
            try:
                assert check_variables(export, meta_graph).parameters == 12
            except UserError as refusal:
                messages.append(str(refusal))
    assert len(messages) > len(content)
    assert not [message for message in messages if "\n" in message]
