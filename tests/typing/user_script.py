# pyright: strict
"""The most used functions of the package in a script that has no unknown types."""

from typing import assert_type

import keras_transformer as kt
from keras_transformer.decoding import BeamSearch, Hypotheses
from keras_transformer.export import TrainedModel
from keras_transformer.inference import TextModel
from keras_transformer.layers import EncoderBlock, MultiHeadAttention
from keras_transformer.text import Tokenizer, learn_tokenizer
from keras_transformer.trainer import TrainingResult

result = kt.train("recipe.yaml", "runs/name")
assert_type(result, TrainingResult | None)  # None after a dry run
text_model = kt.load("runs/name")
assert_type(text_model, TextModel)
assert_type(text_model.translate("7 mars 2025"), str)
assert_type(text_model.translate(["7 mars 2025"]), list[str])
scores = text_model.score(["7 mars 2025"], ["2025-03-07"])
tokenizer = learn_tokenizer("bytes", ["a text"], vocabulary_size=260)
assert_type(tokenizer, Tokenizer)
model = kt.Transformer.from_size("tiny", vocabulary_size=tokenizer.vocabulary_size)
assert_type(model, kt.Transformer)
ids = model.generate([[5, 6, 7]], search="beam", beams=4)
found = BeamSearch(beams=4)(model, source=[[5, 6, 7]])
assert_type(found, Hypotheses)
exported = kt.export_model(TrainedModel(model, tokenizer), "saved_models/name")
attention = MultiHeadAttention(num_heads=4, key_dim=32)
block = EncoderBlock(num_heads=4, intermediate_dim=256)
loss = kt.TokenCrossEntropy(label_smoothing=0.1)
