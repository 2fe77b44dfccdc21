"""What has been seen since the last point of the training curves."""

import dataclasses

from keras_transformer.trainer.token_statistics import TokenStatistics


class TrainingWindow:
    """Adds up `UpdateRecord`s until they are told about; a checkpoint keeps what it holds."""

    def __init__(self, content=None):
        content = content or {"updates": 0, "slots": 0.0, "gradient_norms": 0.0, "statistics": {}}
        self.updates = content["updates"]
        self.slots = content["slots"]
        self.gradient_norms = content["gradient_norms"]
        self.statistics = TokenStatistics(**content["statistics"])
        self.learning_rate = content.get("learning_rate", 0.0)

    def add(self, record):
        """Adds an `UpdateRecord`."""
        self.updates += 1
        self.slots += record.slots
        self.gradient_norms += record.gradient_norm
        self.statistics += record.statistics
        self.learning_rate = record.learning_rate

    def logs(self):
        """Returns what is told about the updates, floats by name."""
        return {
            **self.statistics.logs(),
            "learning_rate": self.learning_rate,
            "gradient_norm": self.gradient_norms / max(self.updates, 1),
            "padding_efficiency": self.statistics.tokens / max(self.slots, 1.0),
        }

    def to_dictionary(self):
        """Returns all of it in the types of JSON."""
        return {
            "updates": self.updates,
            "slots": self.slots,
            "gradient_norms": self.gradient_norms,
            "learning_rate": self.learning_rate,
            "statistics": dataclasses.asdict(self.statistics),
        }
