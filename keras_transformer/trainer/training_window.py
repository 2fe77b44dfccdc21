"""What has been seen since the last point of the training curves."""

import dataclasses
import math

from keras_transformer.trainer.token_statistics import TokenStatistics


class TrainingWindow:
    """Adds up `UpdateRecord`s until they are told about; a checkpoint keeps what it holds.

    A gradient that has overflowed, as it happens where the loss is scaled, has no part in the mean
    of the norms: its update was left out.
    """

    def __init__(self, content=None):
        content = content or {
            "finite_norms": 0,
            "slots": 0.0,
            "gradient_norms": 0.0,
            "statistics": {},
        }
        self.finite_norms = content["finite_norms"]
        self.slots = content["slots"]
        self.gradient_norms = content["gradient_norms"]
        self.statistics = TokenStatistics(**content["statistics"])
        self.learning_rate = content.get("learning_rate", 0.0)

    def add(self, record):
        """Adds an `UpdateRecord`."""
        self.slots += record.slots
        if math.isfinite(record.gradient_norm):
            self.finite_norms += 1
            self.gradient_norms += record.gradient_norm
        self.statistics += record.statistics
        self.learning_rate = record.learning_rate

    def logs(self):
        """Returns what is told about the updates, floats by name."""
        return {
            **self.statistics.logs(),
            "learning_rate": self.learning_rate,
            "gradient_norm": self.gradient_norms / max(self.finite_norms, 1),
            "padding_efficiency": self.statistics.tokens / max(self.slots, 1.0),
        }

    def to_dictionary(self):
        """Returns all of it in the types of JSON."""
        return {
            "finite_norms": self.finite_norms,
            "slots": self.slots,
            "gradient_norms": self.gradient_norms,
            "learning_rate": self.learning_rate,
            "statistics": dataclasses.asdict(self.statistics),
        }
