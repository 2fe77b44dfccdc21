"""The report on a corpus before training: counts, lengths, vocabulary, padding, odd lines."""

from keras_transformer.analysis.data_report.rendering import draw_data_report, print_data_report
from keras_transformer.analysis.data_report.report import (
    make_data_report,
    require_report_directory,
    save_data_report,
)

__all__ = [
    "draw_data_report",
    "make_data_report",
    "print_data_report",
    "require_report_directory",
    "save_data_report",
]
