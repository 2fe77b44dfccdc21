"""Many updates of a model in one call of a compiled function."""

import dataclasses
import math

import numpy as np
import tensorflow as tf

from keras_transformer._utils.checks import require_not_negative, require_positive_integer
from keras_transformer.losses.cross_entropy import (
    TokenCrossEntropy,
    TokenTotals,
    token_totals,
    token_weights,
)
from keras_transformer.trainer.signals import TrainingFailed

#: What is summed up over tokens, in the order of `TokenTotals`.
SUMS = ("loss", "cross_entropy", "right", "tokens")


def token_sums(loss, labels, logits, consistency=0.0):
    """The `TokenTotals` of a batch under a `TokenCrossEntropy`; see there for `consistency`."""
    return token_totals(
        labels, logits, loss.label_smoothing, loss.padding_id, consistency=consistency
    )


def count_tokens(loss, labels):
    """The number of tokens of a batch that are not padding, a float32 scalar."""
    return tf.reduce_sum(token_weights(labels, loss.padding_id))


@dataclasses.dataclass(frozen=True)
class TokenStatistics:
    """Sums over tokens, as Python's floats of 64 bits, that add up over any number of batches.

    >>> one = TokenStatistics(loss=3.0, cross_entropy=2.0, right=1.0, tokens=2.0)
    >>> (one + TokenStatistics()).logs()
    {'loss': 1.5, 'accuracy': 0.5, 'perplexity': 2.718281828459045}
    """

    loss: float = 0.0
    cross_entropy: float = 0.0
    right: float = 0.0
    tokens: float = 0.0

    def __add__(self, other):
        return TokenStatistics(*(getattr(self, name) + getattr(other, name) for name in SUMS))

    def logs(self):
        """Returns the means over the tokens by the names under which they are watched."""
        tokens = max(self.tokens, 1.0)
        mean = self.cross_entropy / tokens
        return {
            "loss": self.loss / tokens,
            "accuracy": self.right / tokens,
            # Beyond exp(700) there are no floats; such a model is no nearer to knowing anything.
            "perplexity": math.exp(min(mean, 700.0)),
        }


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


class Replicas:
    """What training needs of the `tf.distribute` strategy in whose scope it is made.

    Without any strategy there is one replica, and nothing of this costs anything.

    Attributes:
        strategy: the strategy.
        count: on how many devices, of all workers together, each batch is spread.
    """

    def __init__(self):
        self.strategy = tf.distribute.get_strategy()
        self.count = self.strategy.num_replicas_in_sync

    def iterate(self, batches, start=(0, 0)):
        """Returns an iterator over `Batches` without end; each replica gets its part of each."""
        if self.count == 1:
            return iter(batches.dataset(start=start))

        def make_dataset(context):
            return batches.dataset(
                start=start,
                worker=context.input_pipeline_id,
                workers=context.num_input_pipelines,
                replicas=self.count // context.num_input_pipelines,
            )

        # Parts are made for the replicas one by one; they need not be fetched ahead to a device.
        options = tf.distribute.InputOptions(experimental_fetch_to_device=False)
        return iter(self.strategy.distribute_datasets_from_function(make_dataset, options))

    def sum(self, values):
        """Adds up tensors over all replicas, inside `strategy.run`."""
        if self.count == 1:
            return values
        context = tf.distribute.get_replica_context()
        return context.all_reduce(tf.distribute.ReduceOp.SUM, values)

    def take_reduced_gradients(self, optimizer):
        """Tells a Keras optimizer that the gradients it gets are summed over the replicas already.

        Keras clips each replica's own gradients and sums them up afterwards, which is not what
        clipping by the global norm means. Here they are summed first.
        """
        if self.count == 1:
            return
        optimizer = getattr(optimizer, "inner_optimizer", optimizer)
        if not hasattr(optimizer, "_all_reduce_sum_gradients"):
            raise NotImplementedError(
                "This version of Keras sums gradients over replicas in a way unknown here. Use "
                "one that setup.cfg names."
            )
        optimizer._all_reduce_sum_gradients = lambda gradients_and_variables: (
            gradients_and_variables
        )


class ValidationLoop:
    """Measures a compiled Keras model, without dropout and without changing anything.

    Args:
        model: a model on which `compile(optimizer, loss)` was called.
        batches: `Batches`; one epoch of them is the corpus.
    """

    def __init__(self, model, batches):
        self.model = model
        self.batches = batches
        self._replicas = Replicas()
        self._add_up = tf.function(self._trace, autograph=False)

    def measure(self, most=None):
        """Returns "loss", "accuracy" and "perplexity" over all tokens, floats by name.

        Args:
            most: of a dry run: no more batches than that.
        """
        iterator = self._replicas.iterate(self.batches)
        count = min(len(self.batches), most or len(self.batches))
        sums = self._add_up(iterator, tf.constant(count))
        return TokenStatistics(*map(float, sums)).logs()

    def _trace(self, iterator, count):
        def add(number, total):
            sums = self._replicas.strategy.run(self._sums, next(iterator))
            sums = self._replicas.strategy.experimental_local_results(sums)[0]
            return number + 1, total + sums

        zeros = tf.zeros(len(SUMS), tf.float64)
        _, total = tf.while_loop(lambda number, _: number < count, add, [0, zeros])
        return total

    def _sums(self, inputs, labels):
        sums = token_sums(self.model.loss, labels, self.model(inputs, training=False))
        return self._replicas.sum(tf.cast(tf.stack(sums), tf.float64))


# What is kept of each update, in the order in which the graph gives it.
_FIELDS = ("loss", "cross_entropy", "right", "tokens", "slots", "gradient_norm", "learning_rate")


@dataclasses.dataclass(frozen=True)
class UpdateRecord:
    """What happened in one update.

    Attributes:
        number: of the update, from 1 on.
        statistics: the `TokenStatistics` of its batch, from before the update.
        slots: the places for target tokens in the batch, padding included.
        gradient_norm: the global norm of the gradients before clipping.
        learning_rate: with which the update was made.
    """

    number: int
    statistics: TokenStatistics
    slots: float
    gradient_norm: float
    learning_rate: float


class TrainingLoop:
    """Trains a compiled Keras model, many updates in one `tf.function`.

    An update is what `model.fit` makes of a batch: with the same model, batches, loss and optimizer
    the losses are the same, step by step. Beyond `fit`, the loop takes several batches for one
    update, each token of them counting alike; it runs under any `tf.distribute` strategy (make
    model and loop in its scope); and when a loss is not finite, it stops before the update.

    Args:
        model: a model on which `compile(optimizer, loss)` was called, with a `TokenCrossEntropy`.
            For mixed precision with float16, `compile` has wrapped the optimizer in one that scales
            the loss.
        batches: `Batches` from `keras_transformer.data`.
        accumulate: how many batches make one update.
        jit_compile: whether XLA compiles the forward and backward pass, once for each shape.
        consistency: α of R-Drop (Liang et al. 2021; the paper's is 5): each batch is predicted
            twice, with other units dropped, and the loss grows with how far the two are apart. It
            takes more than twice the time, and a model with dropout. 0 predicts each batch once.

    Example:

    >>> import keras, tempfile
    >>> from keras_transformer import TokenCrossEntropy, Transformer
    >>> from keras_transformer.data import MemoryCorpus, PairBatches, choose_buckets
    >>> from keras_transformer.data import tokenize_corpus
    >>> from keras_transformer.text import ByteTokenizer
    >>> corpus = MemoryCorpus([("ja", "yes"), ("nein", "no")])
    >>> cache = tokenize_corpus(corpus, ByteTokenizer(), tempfile.mkdtemp())
    >>> batches = PairBatches(cache, choose_buckets(cache), seed=1)
    >>> model = Transformer.from_preset("tiny", vocabulary_size=260, hidden_dim=16, num_heads=2)
    >>> model.compile(keras.optimizers.Adam(1e-2), TokenCrossEntropy())
    >>> records = TrainingLoop(model, batches).run(updates=20)
    >>> records[0].statistics.logs()["loss"] > records[-1].statistics.logs()["loss"]
    True
    """

    def __init__(self, model, batches, *, accumulate=1, jit_compile=False, consistency=0.0):
        if not isinstance(getattr(model, "loss", None), TokenCrossEntropy):
            raise ValueError(
                "The model must be compiled with a `TokenCrossEntropy`; got the loss "
                f"{getattr(model, 'loss', None)!r}. Call model.compile(optimizer, "
                "TokenCrossEntropy()) first."
            )
        self.model = model
        self.batches = batches
        self.optimizer = model.optimizer
        self.loss = model.loss
        self.accumulate = require_positive_integer("accumulate", accumulate)
        self.consistency = require_not_negative("consistency", consistency)
        #: How often the forward pass was traced: once, whatever the shapes of the batches.
        self.traces = 0
        self.updates_done = 0
        self._replicas = Replicas()
        self._iterator = None
        self._replicas.take_reduced_gradients(self.optimizer)
        if not self.optimizer.built:
            self.optimizer.build(model.trainable_variables)
        self._gradients_of_part = tf.function(
            self._trace_part, autograph=False, jit_compile=jit_compile
        )
        self._run_updates = tf.function(self._trace_updates, autograph=False)

    def go_on_after(self, updates):
        """The next update is the one after so many: its batches are those that come then."""
        self.updates_done = updates
        self._iterator = None

    def position(self, updates):
        """Returns the epoch and the number of the first batch that comes after so many updates."""
        return divmod(updates * self.accumulate, len(self.batches))

    def run(self, updates):
        """Makes so many updates and returns an `UpdateRecord` of each.

        Raises:
            TrainingFailed: if a loss or a gradient is not finite. The update was not made, and
                those before it are all in the model.
        """
        if self._iterator is None:
            start = self.position(self.updates_done)
            self._iterator = self._replicas.iterate(self.batches, start)
        rows, made = self._run_updates(self._iterator, tf.constant(updates))
        records = [
            self._make_record(self.updates_done + i, row)
            for i, row in enumerate(rows.numpy(), start=1)
        ]
        made = int(made)
        if made < updates:
            self.go_on_after(self.updates_done + made)
            self._fail(records[made])
        self.updates_done += updates
        return records

    def _make_record(self, number, row):
        fields = dict(zip(_FIELDS, map(float, row), strict=True))
        slots, norm, rate = (fields.pop(name) for name in _FIELDS[4:])
        return UpdateRecord(number, TokenStatistics(**fields), slots, norm, rate)

    def _fail(self, record):
        epoch, batch = self.position(record.number - 1)
        last_epoch, last_batch = divmod(record.number * self.accumulate - 1, len(self.batches))
        last = "" if self.accumulate == 1 else f" to {last_batch}"
        if last_epoch > epoch:
            last += f" of epoch {last_epoch}"
        what = "loss" if not np.isfinite(record.statistics.loss) else "gradient"
        raise TrainingFailed(
            f"The {what} of update {record.number} is not finite (epoch {epoch}, batch "
            f"{batch}{last}, loss {record.statistics.logs()['loss']}, gradient norm "
            f"{record.gradient_norm}, learning rate {record.learning_rate:.3g}). The update was "
            "not made. Lower the learning rate, warm up for longer, or clip the gradients."
        )

    def _trace_updates(self, iterator, updates):
        """Rows of `_FIELDS` `[updates, fields]`, and how many updates were made before a stop."""
        rows = tf.TensorArray(tf.float64, updates, element_shape=[len(_FIELDS)])

        def go_on(number, made, rows):
            return (number < updates) & (number == made)

        def update(number, made, rows):
            row, is_finite = self._trace_update(iterator)
            return number + 1, made + tf.cast(is_finite, tf.int32), rows.write(number, row)

        _, made, rows = tf.while_loop(go_on, update, [0, 0, rows])
        return rows.stack(), made

    def _trace_update(self, iterator):
        strategy = self._replicas.strategy
        batches = [next(iterator) for _ in range(self.accumulate)]
        gradients, *of_all = strategy.run(self._gradients_of_batches, (batches,))
        # Those are alike on all replicas.
        row, is_finite = (strategy.experimental_local_results(value)[0] for value in of_all)
        tf.cond(is_finite, lambda: self._trace_apply(gradients), tf.no_op)
        return row, is_finite

    def _trace_apply(self, gradients):
        self._replicas.strategy.run(self._apply, (gradients,))
        return tf.no_op()

    def _apply(self, gradients):
        self.optimizer.apply(gradients, self.model.trainable_variables)

    def _gradients_of_batches(self, batches):
        """The gradients of an update, its row of `_FIELDS`, and whether the update can be made.

        All are of all replicas together.
        """
        tokens = self._replicas.sum(
            tf.add_n([count_tokens(self.loss, labels) for _, labels in batches])
        )
        gradients, sums = self._gradients_of_part(*batches[0], tokens)
        for batch in batches[1:]:
            # One after the other, so that the memory holds the gradients of two at most.
            with tf.control_dependencies(gradients):
                more, more_sums = self._gradients_of_part(*batch, tokens)
            gradients = [total + each for total, each in zip(gradients, more, strict=True)]
            sums += more_sums
        gradients, sums = self._replicas.sum(gradients), self._replicas.sum(sums)
        scale = tf.cast(self.optimizer.scale_loss(1.0), tf.float32)
        norm = tf.linalg.global_norm(gradients) / scale
        inner = getattr(self.optimizer, "inner_optimizer", self.optimizer)
        rate = tf.convert_to_tensor(inner.learning_rate)
        row = tf.concat([sums, [tf.cast(norm, tf.float32), tf.cast(rate, tf.float32)]], axis=0)
        # Gradients that overflow because the loss is scaled up are the optimizer's business: it
        # leaves the update out and lowers the scale.
        is_gradient_finite = tf.math.is_finite(norm) | (scale > 1.0)
        is_finite = tf.reduce_all(tf.math.is_finite(sums)) & is_gradient_finite
        return gradients, tf.cast(row, tf.float64), is_finite

    def _trace_part(self, inputs, labels, tokens):
        """The gradients of one batch's share of the loss, and what is counted over its tokens."""
        self.traces += 1
        slots = tf.cast(tf.size(labels), tf.float32)
        if self.consistency:
            inputs, labels = tf.nest.map_structure(_twice, (inputs, labels))
        with tf.GradientTape() as tape:
            logits = self.model(inputs, training=True)
            sums = token_sums(self.loss, labels, logits, self.consistency)
            if self.consistency:  # of one batch, on average
                sums = TokenTotals(*(0.5 * each for each in sums))
            share = tf.math.divide_no_nan(sums.loss, tokens)
            if self.model.losses:  # what layers add for a mean token, such as a `CoverageLoss`
                share += tf.math.divide_no_nan(sums.tokens, tokens) * tf.add_n(self.model.losses)
            scaled = self.optimizer.scale_loss(share)
        gradients = tape.gradient(scaled, self.model.trainable_variables)
        return [tf.convert_to_tensor(g) for g in gradients], tf.stack([*sums, slots])


def _twice(values):
    """Values `[B, …]` as `[2·B, …]`, the whole batch once more after itself."""
    return tf.concat([values, values], axis=0)
