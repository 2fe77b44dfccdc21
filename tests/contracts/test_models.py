"""Every model, with every attention mechanism and position encoding that it supports."""

import dataclasses
import itertools
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers import MECHANISMS, POSITION_ENCODINGS
from keras_transformer.losses.cross_entropy import TokenCrossEntropy
from keras_transformer.metrics import Perplexity, TokenAccuracy
from keras_transformer.models import (
    ConvolutionalSeq2Seq,
    LanguageModel,
    RecurrentSeq2Seq,
    TextEncoder,
    Transformer,
)
from tests.references.mechanisms import settings_of

VOCABULARY = 23
SIZES = {
    "vocabulary_size": VOCABULARY,
    "hidden_dim": 16,
    "intermediate_dim": 24,
    "num_heads": 4,
    "max_length": 16,
    "dropout": 0.0,
}


def with_mechanism(name, field="attention"):
    """Settings that put a mechanism into a model, with limits that the short texts here reach."""
    settings = settings_of(name)
    return {field: name, **({f"{field}_options": settings} if settings else {})}


# Each mechanism, and the position encodings other than the default.
DECODER_VARIANTS = [
    with_mechanism(name)
    for name, kind in sorted(MECHANISMS.items())
    if kind.supports_causal and kind.supports_cache
] + [{"positions": scheme} for scheme in sorted(POSITION_ENCODINGS) if scheme != "sinusoidal"]


def can_be_packed(variant):
    kind = MECHANISMS[variant.get("attention", "scaled_dot_product")]
    return kind.supports_packing and kind.supports_query_masks


PACKED_VARIANTS = [variant for variant in DECODER_VARIANTS if can_be_packed(variant)]
# Every other setting that changes the structure, at least once.
FORM_VARIANTS = [
    {
        "normalize_first": True,
        "normalization": "rms",
        "activation": "swiglu",
        "use_bias": False,
        "key_dim": 6,
        "query_key_normalization": "rms",
        "share_embeddings": "inputs",
    },
    {
        "normalize_first": False,
        "normalization": "rms",
        "num_key_value_heads": 2,
        "activation": "gelu",
        "depth": 2,
        "normalize_embeddings": True,
        "final_normalization": True,
    },
    {"share_embeddings": "none", "output_bias": True, "positions_options": {"interleaved": False}},
    {"share_embeddings": "target", "target_vocabulary_size": 31},
    {"copies": True, "coverage_weight": 1.0, "depth": 2},
]
TREE_VARIANTS = [
    {"tree_positions": "absolute"},
    {"tree_positions": "relative", "encoder_attention_options": {"max_distance": 2}},
    {"tree_positions": "both", "share_embeddings": "target", "target_vocabulary_size": 31},
]
ENCODER_VARIANTS = [with_mechanism(name) for name in sorted(MECHANISMS)]
CROSS_VARIANTS = [
    with_mechanism(name, "cross_attention")
    for name, kind in sorted(MECHANISMS.items())
    if kind.supports_cross
]


def everywhere(name):
    """Settings that put a mechanism into every attention of a Transformer that supports it.

    A mechanism that cannot hide later positions is used in the encoder alone.
    """
    kind = MECHANISMS[name]
    decoder = {} if kind.supports_causal else {"decoder_attention": "rotary"}
    cross = with_mechanism(name, "cross_attention") if kind.supports_cross else {}
    return {**with_mechanism(name), **decoder, **cross}


EVERYWHERE_VARIANTS = [
    everywhere(name)
    for name, kind in sorted(MECHANISMS.items())
    if kind.supports_cache or not kind.supports_causal
] + [variant for variant in DECODER_VARIANTS if "attention" not in variant]
ENCODER_ONLY_VARIANTS = [
    everywhere(name) for name, kind in sorted(MECHANISMS.items()) if not kind.supports_causal
]
RECURRENT_VARIANTS = [
    *(
        {**with_mechanism(name), "depth": 1}
        for name, kind in sorted(MECHANISMS.items())
        if kind.supports_cross and kind.supports_cache
    ),
    {"cell": "lstm", "depth": 2},
    {"cell": "gru", "share_embeddings": "target", "target_vocabulary_size": 31},
    {"copies": True, "coverage_weight": 1.0},
    {"coverage_attention": True, "cell": "gru", "depth": 2},
    {"coverage_attention": True, "attention": "additive", "copies": True, "coverage_weight": 0.5},
]
CONVOLUTIONAL_VARIANTS = [
    {"kernel_size": 3, "depth": 2},
    {"kernel_size": 4, "positions": "sinusoidal", "share_embeddings": "none"},
    {"kernel_size": 1, "depth": 1},
    {"copies": True, "coverage_weight": 1.0},
]


def name_of(variant):
    return "-".join(str(value) for value in variant.values() if not isinstance(value, dict))


def made(model_class, depth=1, dtype=None, **settings):
    """A small model with `depth` blocks in each stack."""
    config_class = model_class.config_class
    fields = {field.name for field in dataclasses.fields(config_class)}
    sizes = {name: value for name, value in SIZES.items() if name in fields}
    depths = dict.fromkeys(config_class.depth_fields, depth)
    return model_class(**{**sizes, **depths, **settings}, dtype=dtype)


def transformer(**settings):
    return with_random_weights(made(Transformer, **settings))


def recurrent(**settings):
    return with_random_weights(made(RecurrentSeq2Seq, **settings))


def convolutional(**settings):
    return with_random_weights(made(ConvolutionalSeq2Seq, **settings))


def language_model(**settings):
    return with_random_weights(made(LanguageModel, **settings))


def text_encoder(**settings):
    return with_random_weights(made(TextEncoder, **settings))


def with_random_weights(model):
    """Changes biases and scales too, so that a test notices if one of them is left out."""
    random = np.random.default_rng(3)
    for variable in model.trainable_variables:
        variable.assign(variable + random.normal(0, 0.1, variable.shape))
    return model


SOURCE = np.array([[5, 6, 7, 8, 9, 3], [10, 11, 3, 0, 0, 0], [12, 3, 0, 0, 0, 0]])
TARGET = np.array([[2, 13, 14, 15, 16, 17, 18], [2, 19, 20, 0, 0, 0, 0], [2, 21, 22, 5, 6, 0, 0]])
IS_TOKEN = TARGET != 0
# For models that read trees: the first sentence has a word of two tokens, the last is in no tree.
WORDS = np.array([[1, 2, 2, 3, 4, 0], [1, 2, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0]])
HEADS = np.array([[2, 0, 4, 2], [2, 0, -1, -1], [1, -1, -1, -1]])


def source_of(model, padding=0):
    """All arguments of a model's `encode`, with more padding if wanted."""
    inputs = {"source": padded(SOURCE, padding)}
    if getattr(model, "further_inputs", ()):
        inputs["source_words"] = padded(WORDS, padding)
        inputs["source_heads"] = np.pad(HEADS, ((0, 0), (0, padding)), constant_values=-1)
    return inputs


# The models with a source: their functions and settings.
SOURCE_VARIANTS = {
    f"{make.__name__}-{name_of(variant)}": (make, variant)
    for make, variants in [
        (transformer, EVERYWHERE_VARIANTS),
        (transformer, FORM_VARIANTS + TREE_VARIANTS),
        (recurrent, RECURRENT_VARIANTS),
        (convolutional, CONVOLUTIONAL_VARIANTS),
    ]
    for variant in variants
}
# Models without Transformer blocks: with defaults, and with every setting that reads attention.
BLOCKLESS = [
    (make, variant)
    for make, variants in [(recurrent, RECURRENT_VARIANTS), (convolutional, CONVOLUTIONAL_VARIANTS)]
    for variant in [{}, *variants]
    if not variant or not {"copies", "coverage_attention"}.isdisjoint(variant)
]
# XLA compiles those that have everything.
TRAINED_BLOCKLESS = [
    (recurrent, {}, "mixed_float16", False),
    (recurrent, {"coverage_attention": True, "cell": "gru"}, "mixed_float16", False),
    (recurrent, RECURRENT_VARIANTS[-1], "float32", True),
    (convolutional, {}, "mixed_float16", False),
    (convolutional, CONVOLUTIONAL_VARIANTS[-1], "float32", True),
]
every_blockless_model = pytest.mark.parametrize(
    ("make", "variant"), BLOCKLESS, ids=[f"{m.__name__}-{name_of(v)}" for m, v in BLOCKLESS]
)
every_decoder = pytest.mark.parametrize("variant", DECODER_VARIANTS, ids=name_of)


# --- cached stepping ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SOURCE_VARIANTS)
def test_steps_of_a_model_with_a_source_equal_the_full_pass(kind):
    """Rows of mixed lengths, the first three tokens in one step, then one by one."""
    make, variant = SOURCE_VARIANTS[kind]
    check_source_model(make(**variant), jit=False)


@every_blockless_model
def test_steps_without_blocks_under_xla_equal_the_full_pass(make, variant):
    check_source_model(make(**{"depth": 1, **variant}), jit=True)


def check_source_model(model, jit):
    logits = model({**source_of(model), "target": TARGET}).numpy()
    state = model.initial_state(model.encode(**source_of(model)), max_length=9)
    check_stepping(model, state, logits, jit)


@pytest.mark.parametrize("jit", [False, True])
def test_steps_of_a_language_model_equal_the_full_pass(jit):
    check_language_model(jit, depth=2)


# The contract of mechanisms has the cached steps of each of them under XLA.
@pytest.mark.parametrize("variant", DECODER_VARIANTS[::4], ids=name_of)
def test_steps_under_xla_equal_the_full_pass(variant):
    check_language_model(jit=True, depth=1, **variant)


def check_language_model(jit, **settings):
    model = language_model(**settings)
    logits = model({"target": TARGET}).numpy()
    check_stepping(model, model.initial_state(len(TARGET), max_length=9), logits, jit)


def check_stepping(model, state, logits, jit):
    step = tf.function(model.step, jit_compile=True) if jit else model.step
    shapes = tf.nest.map_structure(lambda tensor: (tensor.shape, tensor.dtype), state)
    steps, state = step(tf.constant(TARGET[:, :3]), state)
    np.testing.assert_allclose(steps[IS_TOKEN[:, :3]], logits[:, :3][IS_TOKEN[:, :3]], atol=1e-5)
    for t in range(3, TARGET.shape[1]):
        steps, state = step(tf.constant(TARGET[:, t]), state)
        is_token = IS_TOKEN[:, t]
        np.testing.assert_allclose(steps[is_token], logits[:, t][is_token], atol=1e-5)
        assert int(state["position"]) == t + 1
        now = tf.nest.map_structure(lambda tensor: (tensor.shape, tensor.dtype), state)
        assert now == shapes


@pytest.mark.parametrize(("make", "variant"), [(transformer, {}), *BLOCKLESS])
def test_steps_run_in_a_while_loop_and_their_states_can_be_reordered(make, variant):
    """Search loops over steps and gathers rows on the first axis of the state's tensors."""
    model = make(**variant)
    logits = model({"source": SOURCE, "target": TARGET}).numpy()
    order = tf.constant([2, 0, 1])

    @tf.function
    def decode(state):
        def body(t, _, state):
            logits, state = model.step(tf.constant(TARGET)[:, t], state)
            return t + 1, logits, state

        first = tf.zeros((len(TARGET), VOCABULARY))
        _, last, state = tf.while_loop(lambda t, *_: t < 3, body, (0, first, state))
        state = tf.nest.map_structure(
            lambda tensor: tf.gather(tensor, order) if tensor.shape.rank else tensor, state
        )
        return last, model.step(tf.gather(TARGET[:, 3], order), state)[0]

    third, fourth = decode(model.initial_state(model.encode(SOURCE), max_length=9))
    np.testing.assert_allclose(third, logits[:, 2], atol=1e-5)
    kept = [0, 1]  # the row that has ended is now the last
    np.testing.assert_allclose(fourth.numpy()[kept], logits[[2, 0], 3], atol=1e-5)


# --- masks -------------------------------------------------------------------------


@every_decoder
def test_a_token_changes_only_its_own_and_later_logits(variant):
    check_causality(transformer(**variant))


@every_blockless_model
def test_a_token_changes_only_its_own_and_later_logits_without_blocks(make, variant):
    check_causality(make(**variant))


def check_causality(model):
    changed = TARGET.copy()
    changed[:, 4:] = np.where(changed[:, 4:] != 0, 9, 0)
    before = model({"source": SOURCE, "target": TARGET}).numpy()
    after = model({"source": SOURCE, "target": changed}).numpy()
    np.testing.assert_array_equal(before[:, :4], after[:, :4])
    assert not np.allclose(before[0, 4:], after[0, 4:])


@pytest.mark.parametrize("variant", ENCODER_VARIANTS, ids=name_of)
def test_padding_changes_nothing(variant):
    """More padding on either side gives the same logits, and the same vector for a text."""
    is_causal = MECHANISMS[variant["attention"]].supports_causal
    check_padding(transformer(**variant, **({} if is_causal else {"decoder_attention": "alibi"})))
    for pooling in ("mean", "max", "first"):
        model = text_encoder(pooling=pooling, num_classes=3, **variant)
        before, after = (model({"source": ids}) for ids in (SOURCE, padded(SOURCE, 4)))
        np.testing.assert_allclose(before, after, atol=1e-5)


@pytest.mark.parametrize(
    ("make", "settings"),
    [(recurrent, {"cell": "gru"}), (convolutional, {"kernel_size": 4}), *BLOCKLESS],
)
def test_padding_changes_nothing_without_blocks(make, settings):
    model = make(**settings)
    check_padding(model)
    memories = [model.encode(ids) for ids in (SOURCE, padded(SOURCE, 4))]
    states = [memory.states[memory.mask] for memory in memories]
    np.testing.assert_allclose(*states, atol=1e-6)


@pytest.mark.parametrize("variant", TREE_VARIANTS, ids=name_of)
def test_padding_changes_nothing_in_trees(variant):
    check_padding(transformer(**variant))


def check_padding(model):
    before = model({**source_of(model), "target": TARGET}).numpy()
    wider = {**source_of(model, padding=4), "target": padded(TARGET, 3)}
    after = model(wider).numpy()[:, : TARGET.shape[1]]
    np.testing.assert_allclose(before[IS_TOKEN], after[IS_TOKEN], atol=1e-5)


def padded(ids, count):
    return np.pad(ids, ((0, 0), (0, count)))


@pytest.mark.parametrize("variant", TREE_VARIANTS, ids=name_of)
def test_another_tree_changes_the_logits_of_its_sentence_alone(variant):
    model = transformer(**variant)
    inputs = {**source_of(model), "target": TARGET}
    before = model(inputs).numpy()
    others = HEADS.copy()
    others[0] = [0, 1, 2, 3]
    others[2] = [1, 1, 1, 1]  # as before in no tree
    after = model({**inputs, "source_heads": others}).numpy()
    assert np.abs(before[0] - after[0]).max() > 1e-3
    np.testing.assert_array_equal(before[1:], after[1:])


@pytest.mark.parametrize("variant", PACKED_VARIANTS, ids=name_of)
def test_packed_documents_do_not_see_each_other(variant):
    """A row of three documents gives what each gives alone."""
    model = language_model(is_packed=True, **variant)
    documents = [[2, 5, 6, 7], [2, 8], [2, 9, 10, 11, 12]]
    row = np.array([[*itertools.chain(*documents), 0]])
    segments = np.array([[i + 1 for i, ids in enumerate(documents) for _ in ids] + [0]])
    logits = model({"target": row, "segments": segments}).numpy()[0]
    alone = [
        model({"target": np.array([ids]), "segments": np.ones((1, len(ids)), int)}).numpy()[0]
        for ids in documents
    ]
    np.testing.assert_allclose(logits[:-1], np.concatenate(alone), atol=1e-5)


@pytest.mark.parametrize(
    "variant", [variant for variant in DECODER_VARIANTS if variant not in PACKED_VARIANTS]
)
def test_packing_needs_a_mechanism_that_supports_it(variant):
    name = variant["attention"]
    with pytest.raises(ValueError, match=f"`attention`.*'{name}' cannot .* Use one of "):
        language_model(is_packed=True, **variant)


def test_empty_rows_and_empty_batches_are_possible():
    model = transformer()
    inputs = {"source": np.array([[0, 0], [5, 3]]), "target": np.array([[0, 0], [2, 7]])}
    logits = model(inputs).numpy()
    assert np.all(np.isfinite(logits))
    alone = model({"source": np.array([[5, 3]]), "target": np.array([[2, 7]])})
    np.testing.assert_allclose(logits[1:], alone, atol=1e-5)
    empty = np.zeros((0, 4), int)
    assert model({"source": empty, "target": empty}).shape == (0, 4, VOCABULARY)


# --- training -------------------------------------------------------------------------------------


LABELS = padded(TARGET[:, 1:], 1)


def check_fit(model, inputs, labels, loss, metrics=(), optimizer=None, jit_compile=False):
    """Checks that the loss of one batch, repeated in two epochs, falls."""
    optimizer = optimizer or keras.optimizers.SGD(0.2)  # compiles fastest
    model.compile(optimizer, loss, metrics=list(metrics), jit_compile=jit_compile)
    assert model.jit_compile is jit_compile
    # Otherwise the first step creates variables, and a second trace is needed.
    model.optimizer.build(model.trainable_variables)
    batches = tf.data.Dataset.from_tensors((inputs, labels)).repeat(8)
    history = model.fit(batches, epochs=2, verbose=0, shuffle=False).history
    assert all(np.isfinite(values).all() for values in history.values())
    assert history["loss"][1] < history["loss"][0]
    return history


@every_decoder
def test_fit_learns(variant):
    model = made(LanguageModel, attention_dropout=0.1, **variant)
    check_fit(model, {"target": TARGET}, LABELS, TokenCrossEntropy())


# The contract of mechanisms has the gradients of each of them under XLA.
@pytest.mark.parametrize("mechanism", ["scaled_dot_product", "chunked"])
def test_fit_under_xla_learns(mechanism):
    # Random numbers take XLA longer to compile than the mechanism.
    model = made(LanguageModel, attention_dropout=0.0, **with_mechanism(mechanism))
    check_fit(model, {"target": TARGET}, LABELS, TokenCrossEntropy(), jit_compile=True)


@pytest.mark.parametrize(
    ("dtype", "jit"),
    [("float32", False), ("float32", True), ("mixed_bfloat16", False), ("mixed_float16", False)],
)
def test_fit_of_a_transformer(dtype, jit):
    model = made(Transformer, depth=1, dtype=dtype, attention_dropout=0.1)
    inputs = {"source": SOURCE, "target": TARGET}
    check_precision(model, inputs, dtype)
    check_fit(model, inputs, LABELS, TokenCrossEntropy(0.1), jit_compile=jit)


@pytest.mark.parametrize(("dtype", "jit"), [("float32", True), ("mixed_float16", False)])
def test_fit_of_a_transformer_with_trees(dtype, jit):
    model = made(Transformer, depth=1, dtype=dtype, tree_positions="both")
    inputs = {**source_of(model), "target": TARGET}
    check_precision(model, inputs, dtype)
    check_fit(model, inputs, LABELS, TokenCrossEntropy(0.1), jit_compile=jit)


@pytest.mark.parametrize(("make", "variant", "dtype", "jit"), TRAINED_BLOCKLESS)
def test_fit_without_blocks(make, variant, dtype, jit):
    model = make(**{**variant, "depth": 1, "dtype": dtype, "dropout": 0.1})
    inputs = {"source": SOURCE, "target": TARGET}
    check_policy(model, inputs)
    blocks = [*model.encoder.blocks, *model.decoder.blocks]
    assert {block.compute_dtype for block in blocks} == {dtype.removeprefix("mixed_")}
    check_fit(model, inputs, LABELS, TokenCrossEntropy(0.1), jit_compile=jit)


def test_fit_with_metrics_and_adam():
    model = made(Transformer, depth=1, dropout=0.1)
    history = check_fit(
        model,
        {"source": SOURCE, "target": TARGET},
        LABELS,
        TokenCrossEntropy(0.1),
        metrics=[TokenAccuracy(), Perplexity()],
        optimizer=keras.optimizers.Adam(0.01),
    )
    assert history["token_accuracy"][1] > history["token_accuracy"][0]
    assert history["perplexity"][1] < history["perplexity"][0]


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_fit_of_a_text_encoder(dtype):
    model = made(TextEncoder, depth=1, num_classes=3, dtype=dtype)
    check_precision(model, {"source": SOURCE}, dtype)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    check_fit(model, {"source": SOURCE}, np.array([0, 1, 2]), loss)


def check_precision(model, inputs, dtype):
    """Blocks compute in the policy's type; weights and logits are float32."""
    check_policy(model, inputs)
    block = (
        model.layers[-1].blocks[0] if isinstance(model, LanguageModel) else model.encoder.blocks[0]
    )
    assert block.compute_dtype == dtype.removeprefix("mixed_")
    assert block.self_attention.mechanism.compute_dtype == block.compute_dtype


def check_policy(model, inputs):
    assert model(inputs).dtype == "float32"
    assert all(weight.dtype == "float32" for weight in model.weights)


# --- saving ---------------------------------------------------------------------------------------

MODELS = {
    **{f"transformer-{name_of(v)}": (transformer, v) for v in EVERYWHERE_VARIANTS},
    **{f"transformer-{name_of(v)}": (transformer, v) for v in FORM_VARIANTS + TREE_VARIANTS},
    "language_model": (language_model, {}),
    "text_encoder": (text_encoder, {}),
    **{f"recurrent-{name_of(v)}": (recurrent, v) for v in RECURRENT_VARIANTS},
    **{f"convolutional-{name_of(v)}": (convolutional, v) for v in CONVOLUTIONAL_VARIANTS},
    "packed": (language_model, {"is_packed": True}),
    "classes": (text_encoder, {"num_classes": 3}),
    "vectors": (text_encoder, {"pooling": "none"}),
}


def inputs_of(model):
    """Some tokens for each of a model's inputs."""
    segments = np.cumsum(TARGET == 2, axis=1)
    arrays = {**source_of(model), "target": TARGET, "segments": segments}
    return {name: arrays[name] for name in model.input}


# Reading a saved model, below, makes one from its config for every other variant.
CLONED = [
    name
    for name, (make, settings) in MODELS.items()
    if "attention" not in settings or (make is transformer and settings == EVERYWHERE_VARIANTS[0])
]


@pytest.mark.parametrize("kind", CLONED)
def test_clones_and_models_of_the_same_config_give_the_same_outputs(kind):
    make, settings = MODELS[kind]
    model = make(**{"depth": 1, **settings})
    again = type(model).from_config(model.get_config())
    assert again.get_config() == model.get_config()
    assert again.config == model.config
    for copy in (again, keras.models.clone_model(model)):
        assert not np.array_equal(copy(inputs_of(model)), model(inputs_of(model)))
        copy.set_weights(model.get_weights())
        np.testing.assert_array_equal(copy(inputs_of(model)), model(inputs_of(model)))


LOAD = """
import json, sys
import keras, numpy as np
import keras_transformer.models  # registers the classes
expected = np.load(sys.argv[1] + "/expected.npz")
for index in range(int(sys.argv[2])):
    model = keras.models.load_model(f"{sys.argv[1]}/{index}.keras")
    inputs = {name: expected[f"{index}-{name}"] for name in model.input}
    np.testing.assert_array_equal(model(inputs), expected[f"{index}-outputs"])
    if hasattr(model, "encode"):
        further = getattr(model, "further_inputs", ())
        model.encode(inputs["source"], **{name: inputs[name] for name in further})
print("loaded", sys.argv[2])
"""


# Each class of models, mechanisms and position encodings.
SAVED = [
    model
    for model in MODELS.values()
    if model not in [(recurrent, v) for v in RECURRENT_VARIANTS if "attention" in v]
]


def test_saved_models_load_in_a_fresh_process(tmp_path):
    expected = {}
    for index, (make, settings) in enumerate(SAVED):
        model = make(**{"depth": 1, **settings})
        model.save(tmp_path / f"{index}.keras")
        for name, array in inputs_of(model).items():
            expected[f"{index}-{name}"] = array
        expected[f"{index}-outputs"] = model(inputs_of(model)).numpy()
    np.savez(tmp_path / "expected.npz", **expected)
    result = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", LOAD, tmp_path, str(len(SAVED))],
        capture_output=True,
        text=True,
    )
    assert result.stdout.strip() == f"loaded {len(SAVED)}", result.stderr


@pytest.mark.parametrize(
    "make", [transformer, recurrent, convolutional, language_model, text_encoder]
)
def test_summary_names_encoder_and_decoder(make, capsys):
    model = make()
    model.summary()
    printed = capsys.readouterr().out.split("\n", 1)[1]  # without the name of the model
    for part in ("encoder", "decoder"):
        assert (part in printed) == hasattr(model, part)
    assert "Total params" in printed
