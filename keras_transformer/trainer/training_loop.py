"""Training and validation loops: many steps of a model in one call of a compiled function."""

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_transformer._utils.checks import require_not_negative, require_positive_integer
from keras_transformer.data import Batches
from keras_transformer.losses.cross_entropy import (
    TokenCrossEntropy,
    TokenTotals,
    token_totals,
    token_weights,
)
from keras_transformer.trainer.signals import TrainingFailed


@dataclasses.dataclass(frozen=True)
class TokenStatistics:
    """Sums over tokens as Python floats (64 bits).

    Attributes:
        loss: Sum of the training loss.
        cross_entropy: Sum of the cross-entropy without label smoothing.
        correct: Number of tokens that were predicted correctly.
        tokens: Number of tokens that are not padding.
    """

    loss: float = 0.0
    cross_entropy: float = 0.0
    correct: float = 0.0
    tokens: float = 0.0

    def __add__(self, other: "TokenStatistics") -> "TokenStatistics":
        pairs = zip(dataclasses.astuple(self), dataclasses.astuple(other), strict=True)
        return TokenStatistics(*(one + another for one, another in pairs))

    def logs(self) -> dict[str, float]:
        """Returns the means over tokens by the names of metrics."""
        tokens = max(self.tokens, 1.0)
        mean = self.cross_entropy / tokens
        return {
            "loss": self.loss / tokens,
            "accuracy": self.correct / tokens,
            "perplexity": math.exp(min(mean, 700.0)),  # exp(710) overflows
        }


_SUMS = len(dataclasses.fields(TokenStatistics))


@dataclasses.dataclass(frozen=True)
class StepRecord:
    """Metrics of one training step.

    Attributes:
        number: Number of the step, from 1.
        statistics: The `TokenStatistics` of its batch under the weights before the step.
        slots: Number of target positions in the batch, padding included.
        gradient_norm: Global norm of the gradients before clipping.
        learning_rate: Learning rate of the step.
    """

    number: int
    statistics: TokenStatistics
    slots: float
    gradient_norm: float
    learning_rate: float


# Columns of a row of the compiled loop: those of TokenStatistics, then slots, gradient norm and
# learning rate.
_ROW = _SUMS + 3


class Replicas:
    """The replicas, of all workers together, of the strategy in whose scope this is created."""

    def __init__(self) -> None:
        self.strategy: tf.distribute.Strategy = tf.distribute.get_strategy()
        self.count: int = self.strategy.num_replicas_in_sync

    def iterate(self, batches: Batches, start: tuple[int, int] = (0, 0)) -> Iterator[Any]:
        """Returns an endless iterator over batches from (epoch, number), one part per replica."""
        if self.count == 1:
            return iter(batches.dataset(start=start))

        def make_dataset(context: tf.distribute.InputContext) -> tf.data.Dataset:
            return batches.dataset(
                start=start,
                worker=context.input_pipeline_id,
                workers=context.num_input_pipelines,
                replicas=self.count // context.num_input_pipelines,
            )

        # The parts of the replicas are made one by one, so they cannot be prefetched to devices.
        options = tf.distribute.InputOptions(experimental_fetch_to_device=False)
        return iter(self.strategy.distribute_datasets_from_function(make_dataset, options))

    def sum(self, values: Any) -> Any:
        """Sums tensors over all replicas, inside `strategy.run`."""
        if self.count == 1:
            return values
        context = tf.distribute.get_replica_context()
        return context.all_reduce(tf.distribute.ReduceOp.SUM, values)

    def disable_gradient_reduction(self, optimizer: keras.optimizers.Optimizer) -> None:
        """Makes a Keras optimizer expect gradients that are already summed over replicas."""
        optimizer = inner_optimizer(optimizer)
        # Keras clips the gradients of each replica before the sum, and has no switch for this.
        if self.count > 1 and not hasattr(optimizer, "_all_reduce_sum_gradients"):
            problem = "This version of Keras sums gradients over replicas in an unknown way."
            raise NotImplementedError(f"{problem} Install a version that setup.cfg allows.")
        if self.count > 1:
            optimizer._all_reduce_sum_gradients = lambda pairs: pairs


def inner_optimizer(optimizer: keras.optimizers.Optimizer) -> keras.optimizers.Optimizer:
    """Returns the optimizer inside a `LossScaleOptimizer`, or the optimizer itself."""
    return getattr(optimizer, "inner_optimizer", optimizer)


class TrainingLoop:
    """Trains a compiled Keras model, many steps in one `tf.function` call.

    With the same model, batches, loss and optimizer, losses are those of `model.fit`. In addition,
    the loop can accumulate the gradients of several batches, weighting every token equally; it runs
    under any `tf.distribute` strategy (create model and loop in its scope); and if a loss is not
    finite, it stops before the step.

    Args:
        model: A model on which `compile(optimizer, loss)` was called with a `TokenCrossEntropy`.
        batches: `Batches` of `keras_transformer.data`.
        accumulate: Integer. Number of batches of a step. Default 1.
        jit_compile: Boolean. Whether XLA compiles the step, once for each shape. Default False.
        consistency: Float. α of R-Drop (Liang et al. 2021, who use 5): each batch is predicted
            twice with different dropout masks, and the divergence of the two predictions is added
            to the loss. Default 0, for no R-Drop.

    Attributes:
        steps_done: Number of completed steps.
        traces: Number of times that the forward pass was traced: once for all shapes.

    >>> import keras, tempfile
    >>> from keras_transformer import TokenCrossEntropy, Transformer
    >>> from keras_transformer.data import MemoryCorpus, PairBatches, choose_buckets
    >>> from keras_transformer.data import tokenize_corpus
    >>> from keras_transformer.text import ByteTokenizer
    >>> corpus = MemoryCorpus([("ja", "yes"), ("nein", "no")])
    >>> cache = tokenize_corpus(corpus, ByteTokenizer(), tempfile.mkdtemp())
    >>> batches = PairBatches(cache, choose_buckets(cache), seed=1)
    >>> model = Transformer.from_size("tiny", vocabulary_size=260, num_decoder_layers=1)
    >>> model.compile(keras.optimizers.Adam(1e-2), TokenCrossEntropy())
    >>> records = TrainingLoop(model, batches).run(steps=20)
    >>> records[0].statistics.logs()["loss"] > records[-1].statistics.logs()["loss"]
    True
    """

    def __init__(
        self,
        model: keras.Model,
        batches: Batches,
        *,
        accumulate: int = 1,
        jit_compile: bool = False,
        consistency: float = 0.0,
    ) -> None:
        if not isinstance(loss := getattr(model, "loss", None), TokenCrossEntropy):
            raise ValueError(
                f"The model must be compiled with a `TokenCrossEntropy`; got the loss {loss!r}. "
                "Call model.compile(optimizer, TokenCrossEntropy()) first."
            )
        self.model = model
        self.batches = batches
        self.optimizer: keras.optimizers.Optimizer = model.optimizer
        self.loss: TokenCrossEntropy = loss
        self.accumulate: int = require_positive_integer("accumulate", accumulate)
        self.consistency: float = require_not_negative("consistency", consistency)
        self.traces: int = 0
        self.steps_done: int = 0
        self._replicas = Replicas()
        self._iterator: Iterator[Any] | None = None
        self._replicas.disable_gradient_reduction(self.optimizer)
        if not self.optimizer.built:
            self.optimizer.build(model.trainable_variables)
        self._gradients_of_part = tf.function(
            self._trace_part, autograph=False, jit_compile=jit_compile
        )
        self._run_steps = tf.function(self._trace_steps, autograph=False)

    def resume_from(self, steps: int) -> None:
        """Sets the number of completed steps; the next step takes the batches that follow them."""
        self.steps_done = steps
        self._iterator = None

    def position(self, steps: int) -> tuple[int, int]:
        """Returns epoch and number of the first batch after a number of steps."""
        return divmod(steps * self.accumulate, len(self.batches))

    def run(self, steps: int) -> list[StepRecord]:
        """Runs a number of training steps and returns a `StepRecord` of each.

        `TrainingFailed` is raised before a step whose loss or gradient is not finite.
        """
        if self._iterator is None:
            self._iterator = self._replicas.iterate(self.batches, self.position(self.steps_done))
        rows, made = self._run_steps(self._iterator, tf.constant(steps))
        records = [
            StepRecord(number, TokenStatistics(*row[:_SUMS]), *row[_SUMS:])
            for number, row in enumerate(rows.numpy().tolist(), start=self.steps_done + 1)
        ]
        made = int(made)
        if made < steps:
            self.resume_from(self.steps_done + made)
            self._fail(records[made])
        self.steps_done += steps
        return records

    def _fail(self, record: StepRecord) -> None:
        epoch, batch = self.position(record.number - 1)
        last_epoch, last_batch = divmod(record.number * self.accumulate - 1, len(self.batches))
        last = "" if self.accumulate == 1 else f" to {last_batch}"
        last += f" of epoch {last_epoch}" if last_epoch > epoch else ""
        cause = "loss" if not np.isfinite(record.statistics.loss) else "gradient"
        raise TrainingFailed(
            f"The {cause} of step {record.number} is not finite (epoch {epoch}, batch "
            f"{batch}{last}, loss {record.statistics.logs()['loss']}, gradient norm "
            f"{record.gradient_norm}, learning rate {record.learning_rate:.3g}). The weights were "
            "not changed. Lower the learning rate, lengthen the warm-up, or clip the gradients."
        )

    def _trace_steps(self, iterator: Any, steps: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns rows `[steps, fields]`, and the number of steps completed before a failure."""
        rows = tf.TensorArray(tf.float64, steps, element_shape=[_ROW])

        def is_ok(number: tf.Tensor, made: tf.Tensor, rows: tf.TensorArray) -> tf.Tensor:
            return (number < steps) & (number == made)

        def step(number: tf.Tensor, made: tf.Tensor, rows: tf.TensorArray) -> tuple[Any, ...]:
            row, is_finite = self._trace_step(iterator)
            return number + 1, made + tf.cast(is_finite, tf.int32), rows.write(number, row)

        _, made, rows = tf.while_loop(is_ok, step, [0, 0, rows])
        return rows.stack(), made

    def _trace_step(self, iterator: Any) -> tuple[tf.Tensor, tf.Tensor]:
        strategy = self._replicas.strategy
        batches = [next(iterator) for _ in range(self.accumulate)]
        gradients, *shared = strategy.run(self._gradients_of_batches, (batches,))
        # Row and flag are equal on all replicas.
        row, is_finite = (strategy.experimental_local_results(value)[0] for value in shared)

        def apply() -> tf.Operation:
            variables = self.model.trainable_variables
            strategy.run(lambda values: self.optimizer.apply(values, variables), (gradients,))
            return tf.no_op()

        tf.cond(is_finite, apply, tf.no_op)
        return row, is_finite

    def _gradients_of_batches(self, batches: list[Any]) -> tuple[Any, tf.Tensor, tf.Tensor]:
        """Returns gradients and metrics summed over all replicas, and whether they are finite."""
        padding = self.loss.padding_id
        counts = [tf.reduce_sum(token_weights(labels, padding)) for _, labels in batches]
        tokens = self._replicas.sum(tf.add_n(counts))
        gradients, sums = self._gradients_of_part(*batches[0], tokens)
        for batch in batches[1:]:
            # In sequence, so that memory holds at most two sets of gradients.
            with tf.control_dependencies(gradients):
                more, more_sums = self._gradients_of_part(*batch, tokens)
            gradients = [total + each for total, each in zip(gradients, more, strict=True)]
            sums += more_sums
        gradients, sums = self._replicas.sum(gradients), self._replicas.sum(sums)
        scale = tf.cast(self.optimizer.scale_loss(1.0), tf.float32)
        norm = tf.linalg.global_norm(gradients) / scale
        rate = tf.convert_to_tensor(inner_optimizer(self.optimizer).learning_rate)
        row = tf.concat([sums, [tf.cast(norm, tf.float32), tf.cast(rate, tf.float32)]], axis=0)
        # If scaled gradients overflow, the optimizer skips the step and lowers the scale.
        is_gradient_finite = tf.math.is_finite(norm) | (scale > 1.0)
        is_finite = tf.reduce_all(tf.math.is_finite(sums)) & is_gradient_finite
        return gradients, tf.cast(row, tf.float64), is_finite

    def _trace_part(
        self, inputs: Any, labels: tf.Tensor, tokens: tf.Tensor
    ) -> tuple[list[tf.Tensor], tf.Tensor]:
        """Returns the gradients of one batch's share of the loss, and its sums over tokens."""
        self.traces += 1
        slots = tf.cast(tf.size(labels), tf.float32)
        if self.consistency:
            inputs, labels = tf.nest.map_structure(
                lambda each: tf.concat([each, each], axis=0), (inputs, labels)
            )
        with tf.GradientTape() as tape:
            logits = self.model(inputs, training=True)
            smoothing, padding = self.loss.label_smoothing, self.loss.padding_id
            sums = token_totals(labels, logits, smoothing, padding, consistency=self.consistency)
            if self.consistency:  # the mean over both predictions
                sums = TokenTotals(*(0.5 * each for each in sums))
            share = tf.math.divide_no_nan(sums.loss, tokens)
            if self.model.losses:  # losses of layers, such as `CoverageLoss`, are means over tokens
                share += tf.math.divide_no_nan(sums.tokens, tokens) * tf.add_n(self.model.losses)
            scaled = self.optimizer.scale_loss(share)
        gradients = tape.gradient(scaled, self.model.trainable_variables)
        return [tf.convert_to_tensor(g) for g in gradients], tf.stack([*sums, slots])


class ValidationLoop:
    """Measures a compiled Keras model, without dropout and without changing its variables.

    Args:
        model: A model on which `compile(optimizer, loss)` was called with a `TokenCrossEntropy`.
        batches: `Batches` whose epoch is the validation corpus.
    """

    def __init__(self, model: keras.Model, batches: Batches) -> None:
        self.model = model
        self.batches = batches
        self._replicas = Replicas()
        self._sum_batches = tf.function(self._trace, autograph=False)

    def measure(self, max_batches: int | None = None) -> dict[str, float]:
        """Returns "loss", "accuracy" and "perplexity" over all tokens of at most `max_batches`."""
        iterator = self._replicas.iterate(self.batches)
        count = min(len(self.batches), max_batches or len(self.batches))
        sums = self._sum_batches(iterator, tf.constant(count))
        return TokenStatistics(*map(float, sums)).logs()

    def _trace(self, iterator: Any, count: tf.Tensor) -> tf.Tensor:
        def add(number: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            sums = self._replicas.strategy.run(self._sums, next(iterator))
            sums = self._replicas.strategy.experimental_local_results(sums)[0]
            return number + 1, total + sums

        zeros = tf.zeros(_SUMS, tf.float64)
        _, total = tf.while_loop(lambda number, _: number < count, add, [0, zeros])
        return total

    def _sums(self, inputs: Any, labels: tf.Tensor) -> tf.Tensor:
        loss, logits = self.model.loss, self.model(inputs, training=False)
        sums = token_totals(labels, logits, loss.label_smoothing, loss.padding_id)
        return self._replicas.sum(tf.cast(tf.stack(sums), tf.float64))
