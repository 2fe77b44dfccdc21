"""The built-in quick-start corpus: dates in words, in many languages."""
