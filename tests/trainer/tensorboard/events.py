"""Reader of event files."""

from typing import NamedTuple

import tensorflow as tf
from tensorboard.util import tensor_util

from keras_transformer.trainer.loggers import TensorBoardLogger

#: Write or close the event files of all directories.
flush_all, close_all = TensorBoardLogger("/").flush, TensorBoardLogger("/").close


class Event(NamedTuple):
    tag: str
    step: int
    plugin: str
    content: bytes
    value: object


def event_files(directory):
    """Returns the files of a directory in the order in which they were created.

    Their names contain the second and a number within the process; sorted as text, 10 would come
    before 9.
    """

    def created(path):
        second, rest = path.name.removeprefix("events.out.tfevents.").split(".", 1)
        return int(second), int(rest.split(".")[-2])

    return sorted(directory.glob("events.out.tfevents.*"), key=created)


def read_events(directory):
    """Returns all values in a directory, in the order in which they were written."""
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
