"""Event files, read with nothing but the format that they are in."""

from typing import NamedTuple

import tensorflow as tf
from tensorboard.util import tensor_util


class Event(NamedTuple):
    tag: str
    step: int
    plugin: str
    content: bytes
    value: object


def event_files(directory):
    return sorted(directory.glob("events.out.tfevents.*"))


def read_events(directory):
    """All values in a directory, in the order in which they were written."""
    found = []
    for path in event_files(directory):
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
            event = tf.compat.v1.Event.FromString(record)
            for value in event.summary.value:
                plugin = value.metadata.plugin_data
                has_tensor = value.HasField("tensor")
                tensor = tensor_util.make_ndarray(value.tensor) if has_tensor else None
                fields = value.tag, event.step, plugin.plugin_name, plugin.content
                found.append(Event(*fields, tensor.tolist() if has_tensor else None))
    return found


def events_of(directory, plugin):
    return [event for event in read_events(directory) if event.plugin == plugin]
