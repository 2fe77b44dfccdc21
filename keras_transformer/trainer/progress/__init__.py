"""What a person sees of a training: a bar on a terminal, lines elsewhere, a summary at the end."""

from keras_transformer.trainer.progress.plain_report import PlainReport
from keras_transformer.trainer.progress.report_choice import make_report
from keras_transformer.trainer.progress.terminal_report import TerminalReport
from keras_transformer.trainer.progress.training_report import TrainingReport

__all__ = ["PlainReport", "TerminalReport", "TrainingReport", "make_report"]
