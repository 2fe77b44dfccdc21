"""Tests that every registered variant must pass; a new variant is tested once it is registered.

- `test_mechanisms.py`: every attention mechanism, in `MultiHeadAttention`.
- `test_positions.py`: every position encoding.
- `test_feed_forwards.py`: every feed-forward network.
- `test_models.py`: every model with every mechanism and position encoding.
"""
