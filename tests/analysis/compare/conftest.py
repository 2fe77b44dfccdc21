"""Fixtures that these tests share with those of the trainer."""

from tests.trainer.conftest import corpora, trainings

__all__ = ["corpora", "trainings"]
