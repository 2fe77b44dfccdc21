"""Small models with random weights, and exports in formats with a runtime of their own."""

import keras
import numpy as np

from keras_transformer import LanguageModel, Transformer
from keras_transformer.decoding import SearchSettings
from keras_transformer.export import TrainedModel
from keras_transformer.text import ByteTokenizer, TokenizerPair

SETTINGS = {
    "vocabulary_size": 260,
    "hidden_dim": 16,
    "intermediate_dim": 24,
    "num_heads": 4,
    "max_length": 40,
}
SEARCH = SearchSettings(beams=2, max_length=6)
TEXTS = [b"A", b"Two words", b"\xff three more"]


def make_model(model_class=Transformer, **settings):
    """Returns a `TrainedModel` over bytes in which no weight is zero or one."""
    keras.utils.set_random_seed(1)
    depths = {"num_layers": 2}
    if model_class is Transformer:
        depths = {"num_encoder_layers": 1, "num_decoder_layers": 2}
    model = model_class(**{**SETTINGS, **depths, **settings})
    random = np.random.default_rng(1)
    for weight in model.weights:
        weight.assign(weight + random.normal(scale=0.3, size=weight.shape))
    return TrainedModel(model, TokenizerPair(ByteTokenizer()))


def make_language_model(**settings):
    return make_model(LanguageModel, **settings)


def log_probabilities(trained, sources, targets):
    """Returns the log-probability of each target under a model in memory, row by row."""
    tokenizer, special = trained.tokenizers.source, trained.model.special_ids
    found = []
    for source, target in zip(sources, targets, strict=True):
        before, after = tokenizer.tokenize([source, target]).to_list()
        after = [*after, special.end]
        if isinstance(trained.model, LanguageModel):
            row = [special.start, *before, *after]
            inputs = {"target": np.array([row[:-1]])}
        else:
            row = [special.start, *after]
            inputs = {"source": np.array([[*before, special.end]]), "target": np.array([row[:-1]])}
        logits = np.asarray(trained.model(inputs), np.float64)[0]
        logs = logits - np.log(np.sum(np.exp(logits), axis=-1, keepdims=True))
        chosen = logs[np.arange(len(row) - 1), row[1:]]
        found.append(float(np.sum(chosen[-len(after) :])))
    return found
