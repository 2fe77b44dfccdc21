"""A language model that has learned nothing, as a run: enough to see what goes where."""

from keras_transformer import LanguageModel
from keras_transformer.export import TrainedModel
from keras_transformer.text import ByteTokenizer, TokenizerPair


def save_language_model(directory):
    """Writes the run of a model of bytes; returns its directory."""
    model = LanguageModel.from_preset(
        "tiny",
        vocabulary_size=ByteTokenizer().vocabulary_size,
        hidden_dim=16,
        intermediate_dim=32,
        num_heads=2,
        num_layers=1,
        max_length=64,
    )
    TrainedModel(model, TokenizerPair(ByteTokenizer())).save(directory)
    return directory
