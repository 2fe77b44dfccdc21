"""Fixtures of the trainer's tests."""

from tests.trainer.conftest import corpora, trainings

__all__ = ["corpora", "trainings"]
