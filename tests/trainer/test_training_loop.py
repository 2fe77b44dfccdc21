"""The compiled training loop, step by step, on small batches."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import InverseSquareRootDecay, LanguageModel, TokenCrossEntropy
from keras_transformer.trainer import TrainingFailed, TrainingLoop
from keras_transformer.trainer.checkpoints import training_variables
from tests.trainer.given_batches import (
    VOCABULARY,
    GivenBatches,
    joined,
    make_batch,
    make_model,
)

# A token whose embedding tests set to values without a finite loss or gradient. `make_batch` does
# not use this token.
BAD_TOKEN = VOCABULARY - 1
# Several shapes and numbers of tokens.
BATCHES = [
    make_batch(1, 5, 2, 1),
    make_batch(2, 3, 3, 3, 1),
    make_batch(3, 1, 1, width=5),
    make_batch(4, 4, 4),
    make_batch(5, 5, 5, 5),
]


def make_optimizer(**settings):
    settings = {"weight_decay": 0.1, "global_clipnorm": 0.5, "use_ema": True} | settings
    return keras.optimizers.AdamW(InverseSquareRootDecay(0.05, 3), **settings)


def values(model):
    """Returns everything that training changes, by names that are equal for equal models."""
    return {
        name.rpartition("/")[0]: variable.numpy()
        for name, variable in training_variables(model).items()
    }


def assert_same(ours, expected):
    """Checks that all values are equal bit for bit."""
    assert ours.keys() == expected.keys()
    for name in ours:
        np.testing.assert_array_equal(ours[name], expected[name], name)


def assert_close(ours, expected, atol=1e-5):
    assert ours.keys() == expected.keys()
    for name in ours:
        np.testing.assert_allclose(ours[name], expected[name], atol=atol, err_msg=name)


def with_bad_token(batch):
    """Returns the batch with one `BAD_TOKEN`."""
    inputs, labels = (array.copy() for array in batch)
    inputs[0, 0] = BAD_TOKEN
    return inputs, labels


def set_bad_token(model, value):
    """Sets the embedding of `BAD_TOKEN`."""
    embeddings = model.layers[1].embeddings
    table = embeddings.numpy()
    table[BAD_TOKEN] = value
    embeddings.assign(table)


class Restartable:
    """A loop whose model is reset for each test, because tracing takes longer."""

    def __init__(self, model, **settings):
        self.loop = TrainingLoop(model, GivenBatches(BATCHES), **settings)
        self.model = model
        self._begin = values(model)

    def restart(self, batches=BATCHES):
        for name, variable in training_variables(self.model).items():
            variable.assign(self._begin[name.rpartition("/")[0]])
        self.loop.batches = GivenBatches(batches)
        self.loop.resume_from(0)
        return self.loop


@pytest.fixture(scope="module")
def restartable():
    return Restartable(make_model(make_optimizer(), dropout=0.1))


@pytest.fixture
def loop(restartable):
    """A loop with fresh values."""
    return restartable.restart()


def test_records_have_the_metrics_of_each_step():
    model = make_model(keras.optimizers.SGD(0.1))
    loop = TrainingLoop(model, GivenBatches(BATCHES))
    inputs, labels = BATCHES[0]
    with tf.GradientTape() as tape:
        loss = model.loss(labels, model(inputs))
    gradients = tape.gradient(loss, model.trainable_variables)
    gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
    plain = TokenCrossEntropy()(labels, model(inputs))
    is_correct = (np.argmax(model(inputs), axis=-1) == labels)[labels != 0]

    first, second = loop.run(2)

    assert (first.number, second.number, loop.steps_done) == (1, 2, 2)
    assert (first.statistics.tokens, first.slots) == (8, 15)
    assert (second.statistics.tokens, second.slots) == (10, 12)
    np.testing.assert_allclose(first.gradient_norm, tf.linalg.global_norm(gradients), rtol=1e-5)
    assert first.learning_rate == pytest.approx(0.1)
    logs = first.statistics.logs()
    np.testing.assert_allclose(logs["loss"], loss, rtol=1e-6)
    np.testing.assert_allclose(np.log(logs["perplexity"]), plain, rtol=1e-6)
    assert logs["accuracy"] == is_correct.mean()


def test_loop_is_traced_once_for_all_shapes_and_numbers_of_steps(loop):
    loop.run(1)
    loop.run(4)
    loop.run(2)
    assert loop.traces == 1
    assert loop._run_steps.experimental_get_tracing_count() == 1


def test_learning_rate_is_that_of_the_schedule_for_each_step(loop):
    rates = [record.learning_rate for record in loop.run(5)]
    schedule = InverseSquareRootDecay(0.05, 3)
    np.testing.assert_allclose(rates, [schedule(step) for step in range(5)], rtol=1e-6)


def test_steps_of_one_call_equal_those_of_several(restartable):
    together = restartable.restart().run(7)
    expected = values(restartable.model)
    loop = restartable.restart()
    apart = [loop.run(1)[0], *loop.run(2), loop.run(1)[0], *loop.run(3)]
    assert apart == together
    assert_same(values(restartable.model), expected)


def test_resumed_loop_takes_the_next_batch(restartable):
    expected = [record.statistics.tokens for record in restartable.restart().run(12)]
    loop = restartable.restart()
    loop.resume_from(7)
    records = loop.run(5)
    assert [record.number for record in records] == [8, 9, 10, 11, 12]
    assert [record.statistics.tokens for record in records] == expected[7:]


def test_position_counts_batches_across_epochs():
    loop = TrainingLoop(make_model(make_optimizer()), GivenBatches(BATCHES), accumulate=2)
    assert [loop.position(steps) for steps in range(6)] == [
        (0, 0), (0, 2), (0, 4), (1, 1), (1, 3), (2, 0)
    ]  # fmt: skip


def test_padding_has_no_effect(restartable):
    def wider(batch):
        return tuple(np.pad(array, [(0, 2), (0, 3)]) for array in batch)

    # Without dropout, whose mask depends on the shape.
    plain = Restartable(make_model(make_optimizer()))
    records = plain.loop.run(5)
    expected = values(plain.model)
    loop = plain.restart([wider(batch) for batch in BATCHES])
    padded = loop.run(5)
    assert_close(values(plain.model), expected)
    for one, other in zip(records, padded, strict=True):
        assert other.statistics.tokens == one.statistics.tokens
        assert other.slots > one.slots
        np.testing.assert_allclose(
            list(other.statistics.logs().values()), list(one.statistics.logs().values()), rtol=1e-5
        )
        np.testing.assert_allclose(other.gradient_norm, one.gradient_norm, rtol=1e-5)


@pytest.mark.parametrize("clip_norm", [0.05, None])
def test_accumulated_batches_equal_one_large_batch(clip_norm):
    """Also with uneven batches, one of them all padding. The sum of the gradients is clipped."""
    padding = make_batch(9, 0, 0, width=4)
    groups = [[*BATCHES[:2], padding], BATCHES[2:], [BATCHES[4], BATCHES[0], BATCHES[2]]]
    model = make_model(make_optimizer(global_clipnorm=clip_norm))
    small = [batch for group in groups for batch in group]
    records = TrainingLoop(model, GivenBatches(small), accumulate=3).run(3)

    large = make_model(make_optimizer(global_clipnorm=clip_norm))
    expected = TrainingLoop(large, GivenBatches([joined(group) for group in groups])).run(3)

    assert_close(values(model), values(large))
    for one, other in zip(records, expected, strict=True):
        assert one.statistics.tokens == other.statistics.tokens
        assert one.gradient_norm == pytest.approx(other.gradient_norm, rel=1e-5)
        assert one.statistics.logs() == pytest.approx(other.statistics.logs(), rel=1e-5)
    assert min(record.gradient_norm for record in records) > 0.05  # it is clipped


def test_batch_of_padding_has_no_loss_and_no_gradient(restartable):
    loop = restartable.restart([make_batch(9, 0, 0, width=3), *BATCHES])
    first, second = loop.run(2)
    assert (first.statistics.loss, first.statistics.tokens, first.gradient_norm) == (0, 0, 0)
    assert first.statistics.logs() == {"loss": 0.0, "accuracy": 0.0, "perplexity": 1.0}
    assert second.gradient_norm > 0


@pytest.mark.parametrize(
    ("value", "cause", "number"),
    [(np.nan, "loss", "loss nan"), (0.0, "gradient", "gradient norm nan")],
)
def test_loop_stops_before_a_step_that_is_not_finite(restartable, value, cause, number):
    loop = restartable.restart()
    set_bad_token(restartable.model, value)
    loop.run(7)
    expected = values(restartable.model)

    batches = [*BATCHES[:2], with_bad_token(BATCHES[2]), *BATCHES[3:]]
    loop = restartable.restart()
    set_bad_token(restartable.model, value)
    loop.run(5)
    loop.batches = GivenBatches(batches)
    loop.resume_from(5)
    with pytest.raises(TrainingFailed) as failure:
        loop.run(20)

    message = str(failure.value)
    assert f"{cause} of step 8 is not finite (epoch 1, batch 2, " in message
    assert number in message
    assert "learning rate 0.0306)" in message
    assert loop.steps_done == 7
    assert_same(without_seeds(values(restartable.model)), without_seeds(expected))
    # A second call fails in the same way.
    with pytest.raises(TrainingFailed) as again:
        loop.run(1)
    assert str(again.value).partition("(")[0] == message.partition("(")[0]


def without_seeds(variables):
    """Leaves out the seeds of dropout, which the failed step has advanced."""
    return {name: value for name, value in variables.items() if not name.startswith("seeds/")}


def test_failure_names_all_batches_of_the_step():
    model = make_model(make_optimizer())
    set_bad_token(model, np.inf)
    batches = [*BATCHES[:3], with_bad_token(BATCHES[3])]
    loop = TrainingLoop(model, GivenBatches(batches), accumulate=2)
    with pytest.raises(TrainingFailed, match=r"of step 2 is not finite \(epoch 0, batch 2 to 3, "):
        loop.run(2)


def test_loss_scale_falls_until_gradients_are_finite():
    """Steps whose gradients overflow in half precision are skipped, and training continues."""
    model = make_model(make_optimizer(), dtype="mixed_float16")
    loop = TrainingLoop(model, GivenBatches(BATCHES))
    model.optimizer.dynamic_scale.assign(2.0**24)
    before = model.get_weights()
    skipped = []
    for _ in range(16):
        (record,) = loop.run(1)
        if np.isfinite(record.gradient_norm):
            break
        skipped.append(record)
        for now, then in zip(model.get_weights(), before, strict=True):
            np.testing.assert_array_equal(now, then)
    assert skipped
    assert model.optimizer.dynamic_scale == 2.0 ** (24 - len(skipped))
    assert model.optimizer.inner_optimizer.iterations.numpy() == 1
    losses = [record.statistics.logs()["loss"] for record in loop.run(15)]
    assert losses[-1] < losses[0] < record.statistics.logs()["loss"] * 1.1


def test_gradient_that_no_loss_scale_makes_finite_fails():
    model = make_model(make_optimizer(), dtype="mixed_float16")
    loop = TrainingLoop(model, GivenBatches([with_bad_token(BATCHES[0])]))
    set_bad_token(model, 0.0)
    before = model.get_weights()
    with pytest.raises(TrainingFailed, match="gradient of step 16 is not finite"):
        loop.run(100)  # the scale is 2 ** 15 at first, and 1 at step 16
    for now, then in zip(model.get_weights()[1:], before[1:], strict=True):
        np.testing.assert_array_equal(now, then)


def test_gradient_norm_does_not_depend_on_the_loss_scale():
    norms = []
    for dtype in ("float32", "mixed_float16"):
        loop = TrainingLoop(make_model(make_optimizer(), dtype=dtype), GivenBatches(BATCHES))
        norms.append([record.gradient_norm for record in loop.run(2)])
    np.testing.assert_allclose(norms[1], norms[0], rtol=1e-2)


def test_loop_compiled_by_xla_has_equal_losses_for_each_shape():
    batches = GivenBatches([({"target": inputs}, labels) for inputs, labels in BATCHES[:2]])

    def losses(jit_compile):
        keras.utils.set_random_seed(3)
        model = LanguageModel.from_size(
            "tiny",
            vocabulary_size=VOCABULARY,
            hidden_dim=8,
            num_heads=2,
            intermediate_dim=16,
            num_layers=1,
            dropout=0.0,
        )
        model.compile(make_optimizer(), TokenCrossEntropy(0.1), jit_compile=False)
        loop = TrainingLoop(model, batches, jit_compile=jit_compile)
        records = loop.run(4)
        assert loop.traces == 1
        return [[record.statistics.logs()["loss"], record.gradient_norm] for record in records]

    np.testing.assert_allclose(losses(True), losses(False), rtol=1e-4)


@pytest.mark.parametrize("accumulate", [0, 1.5, True])
def test_accumulate_must_be_a_positive_integer(accumulate):
    with pytest.raises(ValueError, match="`accumulate`"):
        TrainingLoop(make_model("sgd"), GivenBatches(BATCHES), accumulate=accumulate)


def test_model_compiled_with_another_loss_is_refused():
    model = make_model(make_optimizer())
    model.compile("adam", "mse")
    with pytest.raises(ValueError, match="`TokenCrossEntropy`; got the loss 'mse'"):
        TrainingLoop(model, GivenBatches(BATCHES))
