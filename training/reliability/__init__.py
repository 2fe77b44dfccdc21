"""Attacks on the package that anybody can run: `python -m training.reliability --short`."""
