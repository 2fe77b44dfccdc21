"""The run of an untrained language model."""

from keras_transformer import LanguageModel
from keras_transformer.export import TrainedModel
from keras_transformer.text import ByteTokenizer, TokenizerPair


def save_language_model(directory):
    """Writes the run of a model of bytes, and returns its directory."""
    model = LanguageModel.from_size(
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
