"""The formulas once more, in plain NumPy loops and float64, sharing no code with the package.

`mechanisms/` and `positions/` hold one module for each registered name. The contract tests look a
variant's reference up by that name, so that a new variant without one fails.
"""
