"""Batches of a token cache: bucketed or packed, one class for each task."""
