"""Logging callbacks, one by one."""

import keras
import numpy as np
import pytest
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

from keras_transformer import LanguageModel, TextEncoder, Transformer
from keras_transformer._utils.errors import UserError
from keras_transformer.decoding import GreedySearch, LengthLimits
from keras_transformer.export import TrainedModel
from keras_transformer.text import ByteTokenizer
from keras_transformer.trainer.attention_maps import AttentionMaps
from keras_transformer.trainer.callbacks import (
    EmbeddingProjector,
    HyperParameters,
    ProfileSteps,
    SampleTranslations,
    TrainingScalars,
    make_labels,
    training_step,
)
from keras_transformer.trainer.loggers.tensorboard import event_file
from keras_transformer.trainer.translation_quality import TranslationQuality
from tests import phrases
from tests.trainer.tensorboard.events import (
    close_all,
    event_files,
    events_of,
    flush_all,
    read_events,
)

SEARCH = GreedySearch(lengths=LengthLimits(maximum=20))


@pytest.fixture(autouse=True)
def no_open_files():
    yield
    close_all()


def compiled(model):
    model.compile(keras.optimizers.Adam(1e-3), "mse")
    return model


@pytest.fixture
def dense():
    """A minimal trainable model."""
    return compiled(keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)]))


@pytest.fixture(scope="module")
def small():
    """An untrained Transformer over bytes, which tests must not change."""
    return compiled(phrases.make_bytes_model().model)


def attach(callback, model):
    callback.set_model(model)
    return callback


# Training steps.


def test_skipped_steps_do_not_count():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(), initial_scale=8.0)
    model.compile(optimizer, "mse")
    optimizer.build(model.trainable_variables)
    for value in (1.0, np.inf, 1.0):
        optimizer.apply([np.full(v.shape, value, "float32") for v in model.trainable_variables])
    assert training_step(model) == 2


def test_model_without_optimizer_has_no_training_step():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)], name="bare")
    with pytest.raises(ValueError, match="'bare' has no optimizer"):
        training_step(model)


# Writers.


def test_callbacks_of_a_directory_share_a_file_that_only_grows(dense, tmp_path):
    first, second = (attach(TrainingScalars(tmp_path, every=1), dense) for _ in range(2))
    first.on_test_end({"loss": 1.0})
    flush_all()
    (path,) = event_files(tmp_path / "validation")
    before = path.read_bytes()
    assert [event.value for event in read_events(tmp_path / "validation")] == [1.0]
    second.on_test_end({"loss": 2.0})
    flush_all()
    assert path.read_bytes().startswith(before)
    assert [event.value for event in read_events(tmp_path / "validation")] == [1.0, 2.0]
    assert event_files(tmp_path / "validation") == [path]


def test_events_after_closing_go_to_a_new_file(dense, tmp_path):
    scalars = attach(TrainingScalars(tmp_path), dense)
    for value in (1.0, 2.0):
        scalars.on_test_end({"loss": value})
        close_all()
    assert len(event_files(tmp_path / "validation")) == 2
    values = [event.value for event in read_events(tmp_path / "validation")]
    assert sorted(values) == [1.0, 2.0]


def test_link_to_a_directory_has_the_writer_of_the_directory(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "logs")
    assert event_file(tmp_path / "link") is event_file(tmp_path / "logs")


# Scalars.


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (range(12), [5, 10]),
        ((0, 4, 8, 12, 16, 20), [8, 12, 16, 20]),  # several steps per call
        ((0, 4, 4, 5, 5, 5, 6), [5]),  # several calls per step
        ((7, 8, 9, 10, 11), [10]),  # a resumed run
        ((10, 11, 12), []),
    ],
)
def test_points_of_curves_are_at_multiples_or_just_after(dense, tmp_path, seen, expected):
    scalars = attach(TrainingScalars(tmp_path, every=5), dense)
    dense.optimizer.iterations.assign(seen[0])
    scalars.on_train_begin()
    for step in seen[1:]:
        dense.optimizer.iterations.assign(step)
        scalars.on_train_batch_end(0, {"loss": step})
    scalars.on_train_end()
    found = events_of(tmp_path / "train", "scalars")
    assert [event.step for event in found if event.tag == "loss"] == expected


def test_learning_rate_of_the_logs_takes_precedence(dense, tmp_path):
    scalars = attach(TrainingScalars(tmp_path, every=1), dense)
    for step, logs in enumerate([{"learning_rate": 0.5}, {"loss": 1.0, "names": ["a"]}], start=1):
        dense.optimizer.iterations.assign(step)
        scalars.on_train_batch_end(0, logs)
    flush_all()
    values = [event[:2] + event[4:] for event in read_events(tmp_path / "train")]
    assert values == [
        ("learning_rate", 1, 0.5),
        ("loss", 2, 1.0),
        ("learning_rate", 2, pytest.approx(1e-3)),
    ]


def test_every_must_be_a_positive_integer(tmp_path):
    with pytest.raises(ValueError, match="`every`"):
        TrainingScalars(tmp_path, every=0)


# Quality and samples.


def test_quality_uses_current_weights_and_is_traced_once(phrases_run):
    trained = TrainedModel.load(phrases_run)
    sources, references = zip(*phrases.make_pairs()[:9], strict=True)
    quality = TranslationQuality(
        trained.tokenizers, sources, references, SEARCH, bleu_tokens="none"
    )
    assert quality.evaluation is None
    quality.set_model(trained.model)
    knows = quality.measure()
    assert knows["exact_match"] > 0.8
    assert quality.evaluation.metrics["bleu"] == knows["bleu"]
    assert "|tok:none|" in quality.evaluation.signatures["bleu"]
    assert quality.hypotheses[0] == references[0]
    traced = quality.text_model.signatures["serving_default"].concrete
    weights = trained.model.get_weights()
    trained.model.set_weights([np.zeros_like(weight) for weight in weights])
    logs = {"loss": 1.0}
    quality.on_test_end(logs)
    assert logs["exact_match"] == 0.0
    assert logs["chrf"] < knows["chrf"]
    trained.model.set_weights(weights)
    quality.set_model(trained.model)
    assert quality.measure() == knows
    assert quality.text_model.signatures["serving_default"].concrete is traced


def test_quality_is_in_the_logs_of_the_epoch_of_its_evaluation(small, monkeypatch):
    quality = attach(TranslationQuality(ByteTokenizer(), ["a"], ["b"]), small)
    monkeypatch.setattr(quality, "measure", lambda: {"bleu": 5.0})
    quality.on_epoch_begin(0)
    quality.on_test_end({})
    quality.on_epoch_end(0, logs := {})
    assert logs == {"val_bleu": 5.0}
    quality.on_epoch_begin(1)
    quality.on_epoch_end(1, logs := {})
    assert logs == {}


def test_quality_refuses_sources_without_references():
    with pytest.raises(UserError, match="got 2 sources, 1 references"):
        TranslationQuality(ByteTokenizer(), ["a", "b"], ["c"])
    with pytest.raises(UserError, match="got 0 sources, 0 references"):
        TranslationQuality(ByteTokenizer(), [], [])
    with pytest.raises(ValueError, match="got 'ab' and 'cd'"):
        TranslationQuality(ByteTokenizer(), "ab", "cd")


def test_quality_refuses_a_model_that_does_not_translate():
    model = LanguageModel.from_size("tiny", num_layers=1, **phrases.SMALL)
    quality = attach(TranslationQuality(ByteTokenizer(), ["a"], ["b"]), model)
    with pytest.raises(UserError, match="LanguageModel"):
        quality.measure()


def test_samples_before_their_translations_are_refused(small, tmp_path):
    quality = attach(TranslationQuality(ByteTokenizer(), ["a"], ["b"]), small)
    samples = attach(SampleTranslations(tmp_path, quality), small)
    with pytest.raises(ValueError, match="after its `TranslationQuality`"):
        samples.on_test_end({})


def test_samples_are_the_first_sentences(small, tmp_path):
    texts = [f"text {number}" for number in range(5)]
    quality = attach(TranslationQuality(ByteTokenizer(), texts, texts), small)
    quality.hypotheses = ["one\n|two", *texts[1:]]
    attach(SampleTranslations(tmp_path, quality, rows=2), small).on_test_end({})
    flush_all()
    (event,) = read_events(tmp_path / "validation")
    *_, first, second = event.value.decode().split("\n")
    assert first == "| text 0 | text 0 | one&#92;n&#124;two |"
    assert second == "| text 1 | text 1 | text 1 |"


# Attention.


def drawn(model, tmp_path, *texts, **settings):
    maps = attach(AttentionMaps(tmp_path, ByteTokenizer(), *texts, **settings), model)
    maps.on_train_begin()
    maps.on_test_end({})
    flush_all()
    return events_of(tmp_path / "validation", "images")


@pytest.mark.parametrize("is_packed", [False, True])
def test_attention_of_a_language_model_is_drawn_for_texts(tmp_path, is_packed):
    settings = {**phrases.SMALL, "num_layers": 2, "is_packed": is_packed}
    model = compiled(LanguageModel.from_size("tiny", **settings))
    found = drawn(model, tmp_path, ["one", "", "three"])
    tags = ["attention/decoder/layer_1", "attention/decoder/layer_2"]
    assert [event.tag for event in found] == tags
    assert all(len(event.value) == 2 + 3 for event in found)


def test_attention_of_a_text_encoder_is_drawn_for_texts(tmp_path):
    model = compiled(TextEncoder.from_size("tiny", num_layers=1, **phrases.SMALL))
    assert [event.tag for event in drawn(model, tmp_path, ["one"])] == ["attention/encoder/layer_1"]


def test_rows_are_labeled_with_the_predicted_token(small, tmp_path, monkeypatch):
    calls = []
    where = "keras_transformer.trainer.attention_maps.draw_attention_heads"
    monkeypatch.setattr(where, lambda *arguments: calls.append(arguments) or b"")
    drawn(small, tmp_path, ["ab", "a"], ["xyz", "x"])
    assert [call[1:] for call in calls] == [
        (["a", "b", "<end>"], ["a", "b", "<end>"]),
        (["a", "<end>"], ["a", "<end>"]),
        (["x", "y", "z", "<end>"], ["<start>", "x", "y", "z"]),
        (["x", "<end>"], ["<start>", "x"]),
        (["x", "y", "z", "<end>"], ["a", "b", "<end>"]),
        (["x", "<end>"], ["a", "<end>"]),
    ]
    for weights, rows, columns in calls:
        assert weights.shape == (2, len(rows), len(columns))
        np.testing.assert_allclose(weights.sum(axis=2), 1.0, atol=1e-5)


def test_long_texts_are_cut(small, tmp_path, monkeypatch):
    calls = []
    where = "keras_transformer.trainer.attention_maps.draw_attention_heads"
    monkeypatch.setattr(where, lambda *arguments: calls.append(arguments) or b"")
    drawn(small, tmp_path, ["a" * 100], ["b" * 100], max_tokens=5)
    for weights, rows, columns in calls:
        assert weights.shape == (2, 5, 5)
        assert len(rows) == len(columns) == 5


def test_pictures_are_reproducible(small, tmp_path):
    first, second = (drawn(small, tmp_path / name, ["ab"], ["xy"]) for name in ("a", "b"))
    assert first == second


def test_texts_that_do_not_fit_the_model_are_refused(small, tmp_path):
    maps = attach(AttentionMaps(tmp_path, ByteTokenizer(), ["a"]), small)
    with pytest.raises(UserError, match="Transformer takes source and target; got sources alone"):
        maps.on_train_begin()
    model = LanguageModel.from_size("tiny", num_layers=1, **phrases.SMALL)
    maps = attach(AttentionMaps(tmp_path, ByteTokenizer(), ["a"], ["b"]), model)
    with pytest.raises(UserError, match="LanguageModel takes target; got sources and targets"):
        maps.on_train_begin()
    with pytest.raises(UserError, match="got 1 sources, 2 targets"):
        AttentionMaps(tmp_path, ByteTokenizer(), ["a"], ["b", "c"])
    with pytest.raises(ValueError, match="got 'ab'"):
        AttentionMaps(tmp_path, ByteTokenizer(), "ab")


def test_model_without_attention_is_refused(dense, tmp_path):
    maps = attach(AttentionMaps(tmp_path, ByteTokenizer(), ["a"]), dense)
    with pytest.raises(UserError, match="`attention_weights`"):
        maps.on_train_begin()


# The projector.


def test_projector_writes_the_first_tokens_of_both_vocabularies(tmp_path, monkeypatch):
    monkeypatch.setattr("keras_transformer.trainer.callbacks.MAX_TOKENS", 7)
    settings = {**phrases.SMALL, "num_encoder_layers": 1, "num_decoder_layers": 1}
    model = compiled(Transformer.from_size("tiny", share_embeddings="none", **settings))
    projector = attach(EmbeddingProjector(tmp_path, ByteTokenizer()), model)
    projector.on_train_begin()
    projector.on_train_end()
    for side in ("source", "target", "output"):
        vectors = np.loadtxt(tmp_path / "train" / f"{side}_embedding.tsv", delimiter="\t")
        labels = (tmp_path / "train" / f"{side}_embedding_tokens.tsv").read_text(encoding="utf-8")
        assert vectors.shape == (7, 16)
        assert labels.split("\n")[5:] == ["<0x00>\t4", "<0x01>\t5", "<0x02>\t6", ""]


def test_labels_escape_control_characters():
    odd = ["a\tb", "c\nd", "\r", "\u2028", "\x1b[31m", "▁", "##s", "<end>"]
    labels = make_labels(odd)
    lines = labels.splitlines()
    assert len(lines) == 1 + len(odd)
    assert [line.split("\t")[0] for line in lines[1:]] == [
        "a\\tb", "c\\nd", "\\r", "\\u2028", "\\x1b[31m", "␣", "##s", "<end>",
    ]  # fmt: skip


def test_projector_refuses_an_embedding_of_another_vocabulary_or_none(dense, tmp_path):
    settings = {**phrases.SMALL, "vocabulary_size": 300, "num_layers": 1}
    model = LanguageModel.from_size("tiny", **settings)
    message = "The layer 'embedding' has 300 ids, but the 'bytes' tokenizer has 260"
    with pytest.raises(UserError, match=message):
        attach(EmbeddingProjector(tmp_path, ByteTokenizer()), model).on_train_begin()
    with pytest.raises(UserError, match="no `TokenEmbedding`"):
        attach(EmbeddingProjector(tmp_path, ByteTokenizer()), dense).on_train_begin()


# Hyperparameters.


def test_resumed_run_does_not_log_its_settings_again(dense, tmp_path):
    settings = {"a": {"b": 1}}
    for step in (0, 5):
        dense.optimizer.iterations.assign(step)
        attach(HyperParameters(tmp_path, settings), dense).on_train_begin()
        flush_all()
    tags = [event.tag for event in read_events(tmp_path / "validation")]
    assert tags == ["_hparams_/session_start_info"]


def test_settings_may_name_metrics(dense, tmp_path):
    attach(HyperParameters(tmp_path, {"a": 1}, metrics=["bleu"]), dense).on_train_begin()
    flush_all()
    tags = [event.tag for event in read_events(tmp_path / "validation")]
    assert tags == ["_hparams_/experiment", "_hparams_/session_start_info"]
    with pytest.raises(ValueError, match=r"`metrics` .* got 'bleu'"):
        HyperParameters(tmp_path, {}, metrics="bleu")


def test_settings_may_name_the_run(dense, tmp_path):
    attach(HyperParameters(tmp_path, {"a": 1}, name="second try"), dense).on_train_begin()
    flush_all()
    (event,) = read_events(tmp_path / "validation")
    content = HParamsPluginData.FromString(event.content)
    assert content.session_start_info.group_name == "second try"


# Profiles.


def test_profile_has_its_own_directory(dense, tmp_path):
    profile = ProfileSteps(tmp_path, first=2, last=3)
    data = np.ones((5, 1))
    dense.fit(data, data, batch_size=1, verbose=0, callbacks=[profile])
    assert [path.name for path in tmp_path.iterdir()] == ["profile"]
    assert len(list(tmp_path.glob("profile/plugins/profile/*/*.xplane.pb"))) == 1


def test_profile_of_past_steps_is_not_made(dense, tmp_path):
    dense.optimizer.iterations.assign(3)
    profile = attach(ProfileSteps(tmp_path, first=2, last=3), dense)
    profile.on_train_begin()
    profile.on_train_batch_end(0)
    profile.on_train_end()
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="`last`"):
        ProfileSteps(tmp_path, first=2, last=1)
