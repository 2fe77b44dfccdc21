"""What every registered variant must pass: a new one is tested by existing.

- `test_mechanisms.py`: every attention mechanism, in `MultiHeadAttention`.
- `test_positions.py`: every position scheme.
- `test_models.py`: every model with every mechanism and scheme.
"""
