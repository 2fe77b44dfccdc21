"""The command `keras-transformer models`."""

import dataclasses

from keras_transformer.cli.main import main
from keras_transformer.cli.models import describe_sizes
from keras_transformer.models import MODELS


def test_describe_sizes_of_every_model_class():
    for model in MODELS:
        name, layers, hidden_dim, *sizes, parameters = next(describe_sizes(model, 100))
        assert (name, hidden_dim) == ("tiny", 128)
        assert parameters > 100 * hidden_dim
        config_class = MODELS[model].config_class
        fields = {field.name for field in dataclasses.fields(config_class)}
        assert [size == "-" for size in sizes] == [
            name not in fields for name in ("intermediate_dim", "num_heads")
        ]
        assert layers.count("+") == len(config_class.depth_fields) - 1


def test_models_prints_a_table_and_refuses_unknown_classes(capsys):
    assert main(["models", "TextEncoder", "--vocabulary-size", "100"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("TextEncoder with a vocabulary of 100\n")
    assert "intermediate dim" in printed
    assert main(["models", "NoSuch"]) == 2
    assert "'TextEncoder'" in capsys.readouterr().err
