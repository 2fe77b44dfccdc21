"""How fast training and decoding are here, beside what others offer, and how their cost grows.

What is measured runs in processes of its own, so that threads and memory are each one's; the
modules that start them, keep count and print import no TensorFlow.
"""
