"""The built-in corpus of things to remember, at known distances."""
