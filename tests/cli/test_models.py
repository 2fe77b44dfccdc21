"""The list of presets, for every class of models."""

from keras_transformer.cli.models import MODELS, describe_presets


def test_models_of_every_class():
    for model in MODELS:
        name, layers, hidden_dim, *sizes, parameters = next(describe_presets(model, 100))
        assert (name, hidden_dim) == ("tiny", 128)
        assert parameters > 100 * hidden_dim
        assert (sizes == ["-", "-"]) == model.endswith("Seq2Seq")
        assert layers.count("+") == (model not in ("LanguageModel", "TextEncoder"))
