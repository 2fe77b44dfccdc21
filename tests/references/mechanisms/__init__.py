"""The formula of each mechanism, in NumPy: `<registered name>.py`.

Each has a function `attend`, and may have `SETTINGS`, with which the mechanism does something to
texts as short as those of the tests.
"""

import importlib


def reference_of(name):
    """The NumPy formula of a mechanism."""
    return _module(name).attend


def settings_of(name):
    """The settings that a mechanism is tested with."""
    return getattr(_module(name), "SETTINGS", {})


def _module(name):
    return importlib.import_module(f"tests.references.mechanisms.{name}")
