"""The command line: one file a verb, each a thin shell over an importable function."""
