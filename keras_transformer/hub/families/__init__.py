"""Families of pretrained models, one file each; see `keras_transformer.hub.Family`."""
