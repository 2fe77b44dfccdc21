"""Trainings as the trainer's own tests make them."""

from tests.trainer.conftest import corpora, trainings

__all__ = ["corpora", "trainings"]
