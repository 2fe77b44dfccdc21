"""The one place that holds the version; setup.cfg reads it without importing TensorFlow."""

__version__ = "0.1.0"
