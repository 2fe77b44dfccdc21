"""NumPy formulas of the attention mechanisms, in `<registered name>.py`.

Each module has a function `attend`, and may have `SETTINGS`, arguments of the mechanism with which
it differs from full attention for the short texts of the tests.
"""

import importlib


def reference_of(name):
    """Returns the NumPy formula of a mechanism."""
    return _module(name).attend


def settings_of(name):
    """Returns the arguments with which a mechanism is tested."""
    return getattr(_module(name), "SETTINGS", {})


def _module(name):
    return importlib.import_module(f"tests.references.mechanisms.{name}")
