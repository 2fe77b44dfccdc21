"""Loggers of training runs, one per file. Importing this package imports no TensorFlow."""

from keras_transformer._utils.registry import import_members
from keras_transformer.trainer.loggers.jsonl import JsonlLogger
from keras_transformer.trainer.loggers.logger import LOGGERS, Logger, LoggerGroup, register_logger
from keras_transformer.trainer.loggers.tensorboard import TensorBoardLogger

import_members(__name__, __path__)

__all__ = [
    "LOGGERS",
    "JsonlLogger",
    "Logger",
    "LoggerGroup",
    "TensorBoardLogger",
    "register_logger",
]
