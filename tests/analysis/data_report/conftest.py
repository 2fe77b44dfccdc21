"""Fixtures with corpora and token caches, shared with the tests of batches."""

from tests.data.conftest import documents, make_cache, pairs

__all__ = ["documents", "make_cache", "pairs"]
