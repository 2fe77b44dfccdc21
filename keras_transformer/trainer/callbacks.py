"""Keras callbacks that log scalars, weights, embeddings, settings, translations and profiles."""

import io
import numbers
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf

from keras_transformer._utils.checks import require_integer, require_positive_integer
from keras_transformer._utils.console import shown
from keras_transformer._utils.errors import UserError
from keras_transformer._utils.files import atomic_file
from keras_transformer._utils.types import Path
from keras_transformer.inference.attention_maps import split_mark
from keras_transformer.layers import TokenEmbedding
from keras_transformer.text import Tokenizer, TokenizerPair
from keras_transformer.trainer.loggers.logger import TRAIN, VALIDATION, Cell, Logger
from keras_transformer.trainer.loggers.tensorboard import TensorBoardLogger, event_file
from keras_transformer.trainer.section import leaves

if TYPE_CHECKING:
    from keras_transformer.trainer.translation_quality import TranslationQuality

Destination = Logger | Path
Logs = dict[str, Any] | None


def training_step(model: keras.Model) -> int:
    """Returns the number of training steps that the model's optimizer has counted."""
    if getattr(model, "optimizer", None) is None:
        problem = f"The model '{model.name}' has no optimizer, which counts the training steps."
        raise ValueError(f"{problem} Call model.compile(optimizer, loss) first.")
    return int(model.optimizer.iterations.numpy())


def require_parallel(**lists: Sequence[str]) -> None:
    """Raises an error unless there are equally many texts, at least one, in each argument."""
    if any(isinstance(texts, str) for texts in lists.values()):
        given = " and ".join(map(repr, lists.values()))
        raise ValueError(f"`{'` and `'.join(lists)}` must be lists of texts; got {given}.")
    counts = [len(texts) for texts in lists.values()]
    if len(set(counts)) > 1 or not all(counts):
        given = ", ".join(f"{len(texts):,} {name}" for name, texts in lists.items())
        raise UserError(f"There must be as many {' as '.join(lists)}, not 0; got {given}.")


class LoggingCallback(keras.callbacks.Callback):
    """Base of the callbacks that log by training step.

    Args:
        logger: A `Logger`, or the directory that is given to TensorBoard.
    """

    model: Any

    def __init__(self, logger: Destination) -> None:
        super().__init__()
        self.logger: Logger = logger if isinstance(logger, Logger) else TensorBoardLogger(logger)
        #: Function that returns the number of completed training steps. A training by recipe sets a
        #: function that also counts steps that the optimizer skipped because of the loss scale.
        self.count_steps: Callable[[], int] = lambda: training_step(self.model)

    @property
    def step(self) -> int:
        """Number of completed training steps."""
        return self.count_steps()

    def on_train_end(self, logs: Logs = None) -> None:
        self.logger.flush()


class TrainingScalars(LoggingCallback):
    """Logs each number in the logs of training and evaluation, and the learning rate.

    This includes numbers that earlier callbacks in the list add to the logs, as
    `TranslationQuality` does. Trainings by recipe log their metrics without this callback.

    Args:
        logger: A `Logger`, or the directory that is given to TensorBoard.
        every: Integer. Number of training steps between two points of a curve. Default 50.

    >>> import os, keras, tempfile
    >>> model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    >>> model.compile("adam", "mse")
    >>> directory = tempfile.mkdtemp()
    >>> scalars = TrainingScalars(directory, every=2)
    >>> history = model.fit(np.ones((8, 1)), np.ones((8, 1)), 1, callbacks=[scalars], verbose=0)
    >>> os.listdir(directory)
    ['train']
    """

    def __init__(self, logger: Destination, every: int = 50) -> None:
        super().__init__(logger)
        self.every: int = require_positive_integer("every", every)
        self._last_step = 0

    def on_train_begin(self, logs: Logs = None) -> None:
        self._last_step = self.step

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        # A call may be for several steps, or for none if gradients are accumulated.
        step = self.step
        is_due = step // self.every > self._last_step // self.every
        self._last_step = step
        if is_due:
            logs = dict(logs or {})
            logs.setdefault("learning_rate", float(self.model.optimizer.learning_rate))
            self._log(TRAIN, logs)

    def on_test_end(self, logs: Logs = None) -> None:
        self._log(VALIDATION, logs or {})

    def _log(self, split: str, logs: Mapping[str, Any]) -> None:
        metrics = {name: value for name, value in logs.items() if np.ndim(value) == 0}
        self.logger.log_metrics(split, self.step, metrics)


class WeightHistograms(LoggingCallback):
    """Logs a histogram of each trainable weight at each evaluation, which makes logs large.

    Histograms show layers that do not learn and weights that grow without bound.

    Args:
        logger: A `Logger`, or the directory that is given to TensorBoard.
    """

    def on_test_end(self, logs: Logs = None) -> None:
        for weight in self.model.trainable_variables:
            self.logger.log_histogram(TRAIN, self.step, f"weights/{weight.path}", weight.value)


class HyperParameters(LoggingCallback):
    """Logs the settings of a run before its first step, so that runs can be compared by them.

    Args:
        logger: A `Logger`, or the directory that is given to TensorBoard.
        values: Dictionary of settings. Settings in nested dictionaries get names with a dot.
        metrics: List of the names of metrics by which runs are compared, such as "bleu". Default:
            all metrics of evaluations. All runs should name the same metrics.
        name: String. Name of the run. Default: chosen by the logger.

    >>> HyperParameters("logs", {"model": {"hidden_dim": 64, "dropout": 0.1}}).values
    {'model.hidden_dim': 64, 'model.dropout': 0.1}
    """

    def __init__(
        self,
        logger: Destination,
        values: Mapping[str, Any],
        metrics: Sequence[str] | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(logger)
        self.values: dict[str, Cell] = {key: _as_cell(value) for key, value in leaves(values)}
        if isinstance(metrics, str):
            raise ValueError(f"`metrics` must be a list of names; got {metrics!r}.")
        self.metrics = metrics
        self.name = name

    def on_train_begin(self, logs: Logs = None) -> None:
        if self.step == 0:
            self.logger.log_hyperparameters(self.values, name=self.name, metrics=self.metrics)

    def on_train_end(self, logs: Logs = None) -> None:
        self.logger.finish(self.step)
        super().on_train_end(logs)


def _as_cell(value: Any) -> Cell:
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, bool):
        return value
    if isinstance(value, numbers.Real):
        return int(value) if isinstance(value, numbers.Integral) else float(value)
    if isinstance(value, list | tuple):
        return ", ".join(str(_as_cell(each)) for each in value)
    return "none" if value is None else str(value)


class SampleTranslations(LoggingCallback):
    """Logs a table of the same sources, references and translations at each evaluation.

    Args:
        logger: A `Logger`, or the directory that is given to TensorBoard.
        quality: A `TranslationQuality` that comes before this callback in the list.
        rows: Integer. Largest number of sentences in the table. Default 10.
    """

    def __init__(self, logger: Destination, quality: "TranslationQuality", rows: int = 10) -> None:
        super().__init__(logger)
        self.quality = quality
        self.rows: int = require_positive_integer("rows", rows)

    def on_test_end(self, logs: Logs = None) -> None:
        if self.quality.hypotheses is None:
            order = "`SampleTranslations` must come after its `TranslationQuality` in the list."
            raise ValueError(f"There are no translations yet: {order}")
        table = make_table(self.quality.samples(self.rows))
        self.logger.log_text(VALIDATION, self.step, "translations", table)


# Characters with a meaning in Markdown or HTML.
_SIGNS = {ord(sign): f"&#{ord(sign)};" for sign in "\\`*_{}[]()<>#+-.!|&~:\"'="}


def make_table(rows: Iterable[Sequence[str]]) -> str:
    """Returns a Markdown table of rows of source, reference and hypothesis.

    >>> print(make_table([("a|b", "<b>", "*c*")]))
    | source | reference | hypothesis |
    |---|---|---|
    | a&#124;b | &#60;b&#62; | &#42;c&#42; |
    """
    lines = ["| source | reference | hypothesis |", "|---|---|---|"]
    for row in rows:
        lines.append(f"| {' | '.join(shown(text).translate(_SIGNS) for text in row)} |")
    return "\n".join(lines)


#: Directory of profiles: a run of its own, because the profiler adds an event file to its output.
PROFILE = "profile"


class ProfileSteps(LoggingCallback):
    """Profiles a range of training steps with TensorFlow's profiler.

    The range should not include the first steps, in which TensorFlow traces and compiles. Calls of
    several steps, as with `steps_per_execution`, are profiled whole. TensorBoard shows the profile
    if its plugin is installed (`pip install tensorboard-plugin-profile`).

    Args:
        log_dir: The directory that is given to TensorBoard.
        first: Integer. Number of the first step to profile, from 1.
        last: Integer. Number of the last step to profile.
    """

    def __init__(self, log_dir: Path, first: int, last: int) -> None:
        super().__init__(log_dir)
        self.log_dir: pathlib.Path = pathlib.Path(log_dir)
        self.first: int = require_positive_integer("first", first)
        self.last: int = require_integer("last", last, minimum=self.first)
        self._is_running = False

    def on_train_begin(self, logs: Logs = None) -> None:
        self.on_train_batch_end(0)

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        step = self.step
        if step >= self.last:
            self.on_train_end()
        elif step >= self.first - 1 and not self._is_running:
            tf.profiler.experimental.start(str(self.log_dir / PROFILE))
            self._is_running = True

    def on_train_end(self, logs: Logs = None) -> None:
        if self._is_running:
            tf.profiler.experimental.stop()
            self._is_running = False


#: TensorBoard would sample a larger table. The first ids of a vocabulary are the most frequent.
MAX_TOKENS = 10_000


class EmbeddingProjector(LoggingCallback):
    """Writes each table of token embeddings for TensorBoard's projector when training ends.

    The directory `train` gets the first 10,000 vectors and tokens of each table.

    Args:
        log_dir: The directory that is given to TensorBoard, or a subdirectory for this run.
        tokenizers: A `TokenizerPair`, or a `Tokenizer` for both sides.
    """

    def __init__(self, log_dir: Path, tokenizers: Tokenizer | TokenizerPair) -> None:
        super().__init__(log_dir)
        self.log_dir: pathlib.Path = pathlib.Path(log_dir)
        self.tokenizers: TokenizerPair = TokenizerPair.of(tokenizers)

    def on_train_begin(self, logs: Logs = None) -> None:
        # Mistakes are reported before training, not after it.
        if not (tables := self._tables()):
            raise UserError(
                f"The model '{self.model.name}' has no `TokenEmbedding` to project.",
                fix="Leave out the `EmbeddingProjector`.",
            )
        for layer, tokenizer in tables:
            tokenizer.require_vocabulary_size(layer.vocabulary_size, f"The layer '{layer.name}'")

    def on_train_end(self, logs: Logs = None) -> None:
        from google.protobuf import text_format
        from tensorboard.plugins.projector import ProjectorConfig  # pyright: ignore

        config, texts = ProjectorConfig(), {}
        event_file(self.log_dir / TRAIN)  # the projector searches directories with events
        for layer, tokenizer in self._tables():
            vectors = np.asarray(layer.embeddings)[:MAX_TOKENS].astype("float32")
            content = io.StringIO()
            # Nine digits distinguish all float32 numbers.
            np.savetxt(content, vectors, fmt="%.9g", delimiter="\t")
            entry = config.embeddings.add(
                tensor_name=layer.name,
                tensor_path=f"{layer.name}.tsv",
                metadata_path=f"{layer.name}_tokens.tsv",
                tensor_shape=vectors.shape,
            )
            texts[entry.tensor_path] = content.getvalue()
            texts[entry.metadata_path] = make_labels(tokenizer.vocabulary()[:MAX_TOKENS])
        # Last, because it names the other files.
        texts["projector_config.pbtxt"] = text_format.MessageToString(config)
        for name, text in texts.items():
            with atomic_file(self.log_dir / TRAIN / name) as file:
                file.write(text)
        super().on_train_end(logs)

    def _tables(self) -> list[tuple[TokenEmbedding, Tokenizer]]:
        """Returns the model's embeddings, each with the tokenizer of its ids."""
        return [
            (layer, self.tokenizers.source if "source" in layer.name else self.tokenizers.target)
            for layer in self.model.layers
            if isinstance(layer, TokenEmbedding)
        ]


def make_labels(tokens: Sequence[str]) -> str:
    """Returns the labels for the projector: a token and its id in each line."""
    rows = (f"{''.join(split_mark(token))}\t{number}\n" for number, token in enumerate(tokens))
    return "token\tid\n" + "".join(rows)
