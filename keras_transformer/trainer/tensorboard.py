"""Where the time of a few updates goes."""

import numbers
import os
import pathlib

import keras
import numpy as np
import tensorflow as tf

from keras_transformer._utils.checks import require_integer, require_positive_integer
from keras_transformer._utils.console import shown

# A reader sees what is written after so many milliseconds at the latest, once more is written.
_FLUSH_MILLISECONDS = 10_000
_WRITERS = {}


def event_writer(directory):
    """Returns the `tf.summary.SummaryWriter` of a directory, the same one for all who ask.

    >>> import tempfile
    >>> directory = tempfile.mkdtemp()
    >>> event_writer(directory) is event_writer(directory + "/.")
    True
    >>> close_all()
    """
    place = os.path.realpath(directory)
    if place not in _WRITERS:
        _WRITERS[place] = tf.summary.create_file_writer(place, flush_millis=_FLUSH_MILLISECONDS)
    return _WRITERS[place]


def flush_all():
    """Brings everything written so far to disk; from then on the files only grow."""
    for writer in _WRITERS.values():
        writer.flush()


def close_all():
    """Ends all files. What is written after it, also into the same directory, begins a new one."""
    while _WRITERS:
        _, writer = _WRITERS.popitem()
        writer.close()


def training_optimizer(model):
    """Returns the optimizer whose updates are counted.

    One that scales the loss has the count and the rate of the one inside, which leaves out updates
    whose gradients have overflowed.
    """
    optimizer = getattr(model, "optimizer", None)
    if optimizer is None:
        raise ValueError(
            f"The model '{model.name}' has no optimizer, whose updates are the steps in "
            "TensorBoard. Call model.compile(optimizer, loss) first."
        )
    return optimizer


def true_step(model):
    """Returns the number of updates made, whatever epochs, restarts and batches there were.

    >>> import keras
    >>> model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    >>> model.compile("adam", "mse")
    >>> true_step(model)
    0
    """
    return int(training_optimizer(model).iterations.numpy())


#: The directories inside a log directory, each a run with a color of its own in TensorBoard.
TRAIN, VALIDATION = "train", "validation"


class EventCallback(keras.callbacks.Callback):
    """Base of the callbacks that write events by true step.

    Args:
        log_dir: the directory that is given to TensorBoard.
    """

    def __init__(self, log_dir):
        super().__init__()
        self.log_dir = pathlib.Path(log_dir)

    @property
    def step(self):
        """The number of updates made."""
        return true_step(self.model)

    def writing(self, part):
        """A context in which `tf.summary` writes at this step into a directory of `log_dir`."""
        return event_writer(self.log_dir / part).as_default(self.step)

    def on_train_end(self, logs=None):
        flush_all()


class TrainingScalars(EventCallback):
    """Writes each number in the logs, and the learning rate, by true step.

    Training and evaluation write the same tags into two directories, `train` and `validation`, so
    that their curves share a chart. What callbacks before this one add to the logs of an
    evaluation, as `TranslationQuality` does, is written with them. Without a "learning_rate" in the
    logs, it is the optimizer's: that of the update to come.

    Args:
        log_dir: the directory that is given to TensorBoard.
        every: how many updates lie between two points of a training curve. With None, each call is
            a point: whoever calls has chosen.

    Example:

    >>> import keras, tempfile
    >>> model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    >>> model.compile("adam", "mse")
    >>> scalars = TrainingScalars(tempfile.mkdtemp(), every=2)
    >>> history = model.fit(np.ones((8, 1)), np.ones((8, 1)), 1, callbacks=[scalars], verbose=0)
    >>> sorted(path.name for path in scalars.log_dir.iterdir())
    ['train']
    """

    def __init__(self, log_dir, every=50):
        super().__init__(log_dir)
        self.every = None if every is None else require_positive_integer("every", every)
        self._last_step = 0

    def on_train_begin(self, logs=None):
        self._last_step = self.step

    def on_train_batch_end(self, batch, logs=None):
        # One call may stand for several updates, or, where gradients are accumulated, for none.
        step = self.step
        is_due = self.every is None or step // self.every > self._last_step // self.every
        self._last_step = step
        if is_due:
            logs = dict(logs or {})
            if "learning_rate" not in logs:
                logs["learning_rate"] = float(training_optimizer(self.model).learning_rate)
            self._write(TRAIN, logs)

    def on_test_end(self, logs=None):
        self._write(VALIDATION, logs or {})

    def _write(self, part, logs):
        # TensorBoard has numbers of 32 bits: one beyond them, such as a perplexity that has
        # exploded, is infinite there.
        with self.writing(part), np.errstate(over="ignore"):
            for name, value in logs.items():
                if np.ndim(value) == 0:
                    tf.summary.scalar(name, np.float32(value))


class WeightHistograms(EventCallback):
    """Writes a histogram of each trainable weight at each evaluation.

    To see a layer that does not learn, or one that grows without end. On request only: it reads all
    weights each time, and a large model has hundreds of them.

    Args:
        log_dir: the directory that is given to TensorBoard.
    """

    def on_test_end(self, logs=None):
        with self.writing(TRAIN):
            for weight in self.model.trainable_variables:
                tf.summary.histogram(f"weights/{weight.path}", tf.cast(weight.value, tf.float32))


class HyperParameters(EventCallback):
    """Writes the settings of a run, so that TensorBoard can compare runs by them.

    They are written before the first update only: a run that goes on has written them already. They
    stand with what is measured in evaluations, as TensorBoard looks there for what runs are judged
    by.

    Args:
        log_dir: the directory that is given to TensorBoard, or one of many inside it.
        values: a dictionary, which may hold others; a setting inside one gets a name with a dot.
        metrics: tags, such as "bleu", of what the runs are judged by; by default all scalars of
            evaluations. If runs that are compared name different ones, TensorBoard heeds one run.
        name: what the table calls the run; by default a hash of the values.

    >>> HyperParameters("logs", {"model": {"hidden_dim": 64, "dropout": 0.1}}).values
    {'model.hidden_dim': 64, 'model.dropout': 0.1}
    """

    def __init__(self, log_dir, values, metrics=None, name=None):
        super().__init__(log_dir)
        self.values = flatten(values)
        if isinstance(metrics, str):
            raise ValueError(f"`metrics` must be several tags, in a list; got {metrics!r}.")
        self.metrics = metrics
        self.name = name

    def on_train_begin(self, logs=None):
        from tensorboard.plugins.hparams import api

        if self.step:
            return
        with self.writing(VALIDATION):
            if self.metrics is not None:
                api.hparams_config(
                    hparams=[api.HParam(name) for name in self.values],
                    metrics=[api.Metric(tag) for tag in self.metrics],
                )
            api.hparams(self.values, trial_id=self.name)

    def on_train_end(self, logs=None):
        from tensorboard.plugins.hparams import api_pb2, summary

        ended = summary.session_end_pb(api_pb2.STATUS_SUCCESS)
        with self.writing(VALIDATION):
            tf.summary.experimental.write_raw_pb(ended.SerializeToString())
        super().on_train_end(logs)


def flatten(values, prefix=""):
    """Returns a dictionary without dictionaries in it, of what TensorBoard can show.

    >>> flatten({"text": {"shared": True}, "test": ["a", "b"], "clip": None})
    {'text.shared': True, 'test': 'a, b', 'clip': 'none'}
    """
    flat = {}
    for name, value in values.items():
        if isinstance(value, dict):
            flat.update(flatten(value, f"{prefix}{name}."))
        else:
            flat[f"{prefix}{name}"] = _as_cell(value)
    return flat


def _as_cell(value):
    if isinstance(value, bool | str):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    if isinstance(value, list | tuple):
        return ", ".join(str(_as_cell(each)) for each in value)
    return "none" if value is None else str(value)


# What Markdown or HTML would take as a sign of their own.
_SIGNS = {ord(sign): f"&#{ord(sign)};" for sign in "\\`*_{}[]()<>#+-.!|&~:\"'="}


class SampleTranslations(EventCallback):
    """Writes a table of sources, references and the model's own translations at each evaluation.

    The sentences are the first ones of the `TranslationQuality`, the same at each evaluation, so
    that one can see them get better.

    Args:
        log_dir: the directory that is given to TensorBoard.
        quality: a `TranslationQuality` that stands before this callback in the list.
        rows: how many sentences there are in the table, at most.
    """

    def __init__(self, log_dir, quality, rows=10):
        super().__init__(log_dir)
        self.quality = quality
        self.rows = require_positive_integer("rows", rows)

    def on_test_end(self, logs=None):
        if self.quality.hypotheses is None:
            raise ValueError(
                "There are no translations yet: `SampleTranslations` must stand after its "
                "`TranslationQuality` in the list of callbacks."
            )
        with self.writing(VALIDATION):
            tf.summary.text("translations", make_table(self.quality.samples(self.rows)))


def make_table(rows):
    """Returns a table in Markdown of rows of source, reference and hypothesis.

    >>> print(make_table([("a|b", "<b>", "*c*")]))
    | source | reference | hypothesis |
    |---|---|---|
    | a&#124;b | &#60;b&#62; | &#42;c&#42; |
    """
    lines = ["| source | reference | hypothesis |", "|---|---|---|"]
    lines += [f"| {' | '.join(map(_escaped, row))} |" for row in rows]
    return "\n".join(lines)


def _escaped(text):
    return shown(text).translate(_SIGNS)


#: A run of its own, as the profiler puts a second event file beside what it writes.
PROFILE = "profile"


class ProfileSteps(EventCallback):
    """Profiles the updates from `first` to `last`, on request.

    They should not be the very first ones, in which TensorFlow still traces and compiles. Where
    several updates are made in one call, as with `steps_per_execution`, the calls in which both lie
    are profiled whole. TensorBoard shows the profile if its plugin is installed
    (`pip install tensorboard-plugin-profile`).

    Args:
        log_dir: the directory that is given to TensorBoard.
        first, last: numbers of updates, counted from 1.
    """

    def __init__(self, log_dir, first, last):
        super().__init__(log_dir)
        self.first = require_positive_integer("first", first)
        self.last = require_integer("last", last, minimum=self.first)
        self._is_running = False

    def on_train_begin(self, logs=None):
        self.start_or_stop()

    def on_train_batch_end(self, batch, logs=None):
        self.start_or_stop()

    def on_train_end(self, logs=None):
        self._stop()

    def start_or_stop(self):
        """Starts or stops the profiler, if an update has been made that it depends on."""
        step = self.step
        if step >= self.last:
            self._stop()
        elif step >= self.first - 1 and not self._is_running:
            tf.profiler.experimental.start(str(self.log_dir / PROFILE))
            self._is_running = True

    def _stop(self):
        if self._is_running:
            tf.profiler.experimental.stop()
            self._is_running = False
