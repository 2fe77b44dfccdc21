"""Corpora and token caches of the tests of batches."""

from tests.data.conftest import documents, make_cache, pairs

__all__ = ["documents", "make_cache", "pairs"]
