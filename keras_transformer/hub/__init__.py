"""Pretrained models: conversion of Hugging Face checkpoints to models of this package."""

from keras_transformer.hub.checkpoint import Checkpoint
from keras_transformer.hub.family import FAMILIES, Family, load_model, register_family
from keras_transformer.hub.importing import import_model, load_pretrained, read_pretrained
from keras_transformer.hub.tokenizers import load_tokenizer

__all__ = [
    "FAMILIES",
    "Checkpoint",
    "Family",
    "import_model",
    "load_model",
    "load_pretrained",
    "load_tokenizer",
    "read_pretrained",
    "register_family",
]
