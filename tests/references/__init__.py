"""Reference implementations in NumPy loops and float64, without any code of the package.

`mechanisms/` and `positions/` have one module for each registered name. The contract tests import
the reference by that name, so they fail for a new variant without a reference.
"""
