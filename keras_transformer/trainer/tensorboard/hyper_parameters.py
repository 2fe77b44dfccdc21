"""What a run was told, beside what came out: TensorBoard's table of hyperparameters."""

import numbers

import tensorflow as tf

from keras_transformer.trainer.tensorboard.event_callback import VALIDATION, EventCallback


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

    >>> HyperParameters("logs", {"model": {"width": 64, "dropout": 0.1}}).values
    {'model.width': 64, 'model.dropout': 0.1}
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
