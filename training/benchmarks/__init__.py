"""Benchmarks: speed and memory of training and decoding, alone or compared with other libraries.

Run `python -m training.benchmarks --help` in the project's root directory. Every measurement runs
in a process of its own, so threads and memory are not shared. The modules that start these
processes and print the results do not import TensorFlow.
"""
