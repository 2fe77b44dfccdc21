"""The callbacks one by one, driven by hand as the compiled loop does."""

import keras
import numpy as np
import pytest
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

from keras_transformer import LanguageModel, TextEncoder, Transformer
from keras_transformer._utils.errors import UserError
from keras_transformer.decoding import GreedySearch, LengthLimits
from keras_transformer.export import TrainedModel
from keras_transformer.text import ByteTokenizer
from keras_transformer.trainer import embedding_projector
from keras_transformer.trainer.attention_maps import AttentionMaps
from keras_transformer.trainer.embedding_projector import EmbeddingProjector
from keras_transformer.trainer.tensorboard import (
    HyperParameters,
    ProfileSteps,
    SampleTranslations,
    TrainingScalars,
    close_all,
    event_writer,
    flush_all,
    true_step,
)
from keras_transformer.trainer.translation_quality import TranslationQuality
from tests import phrases
from tests.trainer.tensorboard.events import event_files, events_of, read_events

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
    """The least that can be trained."""
    return compiled(keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)]))


@pytest.fixture(scope="module")
def small():
    """A Transformer over bytes that knows nothing; nobody may change it."""
    return compiled(phrases.make_bytes_model().model)


def attach(callback, model):
    callback.set_model(model)
    return callback


# The true step.


def test_updates_that_were_left_out_are_no_steps():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(), initial_scale=8.0)
    model.compile(optimizer, "mse")
    optimizer.build(model.trainable_variables)
    for value in (1.0, np.inf, 1.0):
        optimizer.apply([np.full(v.shape, value, "float32") for v in model.trainable_variables])
    assert true_step(model) == 2


def test_a_model_without_an_optimizer():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)], name="bare")
    with pytest.raises(ValueError, match=r"'bare' has no optimizer, .* Call model.compile\("):
        true_step(model)


# Writers.


def test_all_who_write_into_a_directory_share_a_file_that_only_grows(dense, tmp_path):
    first, second = (attach(TrainingScalars(tmp_path, every=1), dense) for _ in range(2))
    first.on_test_end({"loss": 1.0})
    flush_all()
    (path,) = event_files(tmp_path / "validation")
    begun = path.read_bytes()
    assert [event.value for event in read_events(tmp_path / "validation")] == [1.0]
    second.on_test_end({"loss": 2.0})
    flush_all()
    assert path.read_bytes().startswith(begun)
    assert [event.value for event in read_events(tmp_path / "validation")] == [1.0, 2.0]
    assert event_files(tmp_path / "validation") == [path]


def test_after_closing_a_new_file_goes_on(dense, tmp_path):
    scalars = attach(TrainingScalars(tmp_path), dense)
    for value in (1.0, 2.0):
        scalars.on_test_end({"loss": value})
        close_all()
    assert len(event_files(tmp_path / "validation")) == 2
    values = [event.value for event in read_events(tmp_path / "validation")]
    assert sorted(values) == [1.0, 2.0]


def test_a_link_to_a_directory_is_the_directory(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "logs")
    assert event_writer(tmp_path / "link") is event_writer(tmp_path / "logs")


# Scalars.


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (range(12), [5, 10]),
        ((0, 4, 8, 12, 16, 20), [8, 12, 16, 20]),  # several updates in a call
        ((0, 4, 4, 5, 5, 5, 6), [5]),  # several calls for an update
        ((7, 8, 9, 10, 11), [10]),  # a run that goes on
        ((10, 11, 12), []),
    ],
)
def test_points_lie_at_multiples_or_just_after(dense, tmp_path, seen, expected):
    scalars = attach(TrainingScalars(tmp_path, every=5), dense)
    dense.optimizer.iterations.assign(seen[0])
    scalars.on_train_begin()
    for step in seen[1:]:
        dense.optimizer.iterations.assign(step)
        scalars.on_train_batch_end(0, {"loss": step})
    scalars.on_train_end()
    found = events_of(tmp_path / "train", "scalars")
    assert [event.step for event in found if event.tag == "loss"] == expected


def test_the_learning_rate_of_the_logs_goes_before_the_optimizers(dense, tmp_path):
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


def test_every_must_be_a_number_of_updates(tmp_path):
    with pytest.raises(ValueError, match="`every` must be a whole number of at least 1; got 0"):
        TrainingScalars(tmp_path, every=0)


# Quality and samples.


def test_quality_sees_the_weights_of_the_moment_and_is_traced_once(phrases_run):
    trained = TrainedModel.load(phrases_run)
    sources, references = zip(*phrases.make_pairs()[:9], strict=True)
    quality = TranslationQuality(
        trained.tokenizers, sources, references, SEARCH, bleu_tokens="none"
    )
    assert quality.evaluation is None
    quality.set_model(trained.model)
    knows = quality.measure()
    assert knows["exact_match"] > 0.8
    assert quality.evaluation.bleu == knows["bleu"]
    assert "|tok:none|" in quality.evaluation.bleu_signature
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


def test_quality_belongs_to_the_epoch_of_its_evaluation(small, monkeypatch):
    quality = attach(TranslationQuality(ByteTokenizer(), ["a"], ["b"]), small)
    monkeypatch.setattr(quality, "measure", lambda: {"bleu": 5.0})
    quality.on_epoch_begin(0)
    quality.on_test_end({})
    quality.on_epoch_end(0, logs := {})
    assert logs == {"val_bleu": 5.0}
    quality.on_epoch_begin(1)
    quality.on_epoch_end(1, logs := {})
    assert logs == {}


def test_quality_of_what_cannot_be_compared():
    message = "as many of each, at least one; got 2 sources, 1 references. Find what is missing."
    with pytest.raises(UserError, match=message):
        TranslationQuality(ByteTokenizer(), ["a", "b"], ["c"])
    with pytest.raises(UserError, match="got 0 sources, 0 references"):
        TranslationQuality(ByteTokenizer(), [], [])
    with pytest.raises(ValueError, match="must be lists of texts; got 'ab' and 'cd'"):
        TranslationQuality(ByteTokenizer(), "ab", "cd")


def test_quality_of_a_model_that_does_not_translate():
    model = LanguageModel.from_preset("tiny", num_layers=1, **phrases.SMALL)
    quality = attach(TranslationQuality(ByteTokenizer(), ["a"], ["b"]), model)
    with pytest.raises(UserError, match=r"A LanguageModel does not translate\. Leave out"):
        quality.measure()


def test_samples_before_their_translations(small, tmp_path):
    quality = attach(TranslationQuality(ByteTokenizer(), ["a"], ["b"]), small)
    samples = attach(SampleTranslations(tmp_path, quality), small)
    with pytest.raises(ValueError, match="must stand after its `TranslationQuality` in the list"):
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
def test_a_language_model_is_shown_texts_alone(tmp_path, is_packed):
    settings = {**phrases.SMALL, "num_layers": 2, "is_packed": is_packed}
    model = compiled(LanguageModel.from_preset("tiny", **settings))
    found = drawn(model, tmp_path, ["one", "", "three"])
    tags = ["attention/decoder/layer_1", "attention/decoder/layer_2"]
    assert [event.tag for event in found] == tags
    assert all(len(event.value) == 2 + 3 for event in found)


def test_a_text_encoder_too(tmp_path):
    model = compiled(TextEncoder.from_preset("tiny", num_layers=1, **phrases.SMALL))
    assert [event.tag for event in drawn(model, tmp_path, ["one"])] == ["attention/encoder/layer_1"]


def test_rows_are_named_by_what_is_written(small, tmp_path, monkeypatch):
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


def test_of_long_texts_the_beginning_is_drawn(small, tmp_path, monkeypatch):
    calls = []
    where = "keras_transformer.trainer.attention_maps.draw_attention_heads"
    monkeypatch.setattr(where, lambda *arguments: calls.append(arguments) or b"")
    drawn(small, tmp_path, ["a" * 100], ["b" * 100], most_tokens=5)
    for weights, rows, columns in calls:
        assert weights.shape == (2, 5, 5)
        assert len(rows) == len(columns) == 5


def test_the_same_model_draws_and_writes_the_same(small, tmp_path):
    first, second = (drawn(small, tmp_path / name, ["ab"], ["xy"]) for name in ("a", "b"))
    assert first == second


def test_texts_that_do_not_fit_the_model(small, tmp_path):
    maps = attach(AttentionMaps(tmp_path, ByteTokenizer(), ["a"]), small)
    message = "A Transformer takes source and target; got sources alone. Give `targets` too."
    with pytest.raises(UserError, match=message):
        maps.on_train_begin()
    model = LanguageModel.from_preset("tiny", num_layers=1, **phrases.SMALL)
    maps = attach(AttentionMaps(tmp_path, ByteTokenizer(), ["a"], ["b"]), model)
    message = "A LanguageModel takes target; got sources and targets. Give its texts as `sources`."
    with pytest.raises(UserError, match=message):
        maps.on_train_begin()
    with pytest.raises(UserError, match=r"got 1 sources, 2 targets\. Find what is missing"):
        AttentionMaps(tmp_path, ByteTokenizer(), ["a"], ["b", "c"])
    with pytest.raises(ValueError, match="must be lists of texts; got 'ab' and None"):
        AttentionMaps(tmp_path, ByteTokenizer(), "ab")


def test_a_model_without_attention(dense, tmp_path):
    maps = attach(AttentionMaps(tmp_path, ByteTokenizer(), ["a"]), dense)
    with pytest.raises(UserError, match=r"has no `attention_weights` to draw\. Leave out the"):
        maps.on_train_begin()


# The projector.


def test_two_vocabularies_and_a_cap(tmp_path, monkeypatch):
    monkeypatch.setattr(embedding_projector, "MOST_TOKENS", 7)
    settings = {**phrases.SMALL, "num_encoder_layers": 1, "num_decoder_layers": 1}
    model = compiled(Transformer.from_preset("tiny", share_embeddings="none", **settings))
    projector = attach(EmbeddingProjector(tmp_path, ByteTokenizer()), model)
    projector.on_train_begin()
    projector.on_train_end()
    for side in ("source", "target", "output"):
        vectors = np.loadtxt(tmp_path / "train" / f"{side}_embedding.tsv", delimiter="\t")
        labels = (tmp_path / "train" / f"{side}_embedding_tokens.tsv").read_text(encoding="utf-8")
        assert vectors.shape == (7, 16)
        assert labels.split("\n")[5:] == ["<0x00>\t4", "<0x01>\t5", "<0x02>\t6", ""]


def test_odd_pieces_are_legible():
    odd = ["a\tb", "c\nd", "\r", "\u2028", "\x1b[31m", "▁", "##s", "<end>"]
    labels = embedding_projector.make_labels(odd)
    lines = labels.splitlines()
    assert len(lines) == 1 + len(odd)
    assert [line.split("\t")[0] for line in lines[1:]] == [
        "a\\tb", "c\\nd", "\\r", "\\u2028", "\\x1b[31m", "␣", "##s", "<end>",
    ]  # fmt: skip


def test_an_embedding_of_another_vocabulary_or_none(dense, tmp_path):
    settings = {**phrases.SMALL, "vocabulary_size": 300, "num_layers": 1}
    model = LanguageModel.from_preset("tiny", **settings)
    message = "The layer 'embedding' has 300 ids, but the 'bytes' tokenizer has 260"
    with pytest.raises(UserError, match=message):
        attach(EmbeddingProjector(tmp_path, ByteTokenizer()), model).on_train_begin()
    with pytest.raises(UserError, match=r"has no `TokenEmbedding` to project\. Leave out the"):
        attach(EmbeddingProjector(tmp_path, ByteTokenizer()), dense).on_train_begin()


# Hyperparameters.


def test_a_run_that_goes_on_writes_its_settings_once(dense, tmp_path):
    settings = {"a": {"b": 1}}
    for step in (0, 5):
        dense.optimizer.iterations.assign(step)
        attach(HyperParameters(tmp_path, settings), dense).on_train_begin()
        flush_all()
    tags = [event.tag for event in read_events(tmp_path / "validation")]
    assert tags == ["_hparams_/session_start_info"]


def test_metrics_may_be_named(dense, tmp_path):
    attach(HyperParameters(tmp_path, {"a": 1}, metrics=["bleu"]), dense).on_train_begin()
    flush_all()
    tags = [event.tag for event in read_events(tmp_path / "validation")]
    assert tags == ["_hparams_/experiment", "_hparams_/session_start_info"]
    with pytest.raises(ValueError, match="`metrics` must be several tags, in a list; got 'bleu'"):
        HyperParameters(tmp_path, {}, metrics="bleu")


def test_a_run_may_have_a_name_in_the_table(dense, tmp_path):
    attach(HyperParameters(tmp_path, {"a": 1}, name="second try"), dense).on_train_begin()
    flush_all()
    (event,) = read_events(tmp_path / "validation")
    content = HParamsPluginData.FromString(event.content)
    assert content.session_start_info.group_name == "second try"


# The profile.


def test_a_profile_has_a_directory_of_its_own(dense, tmp_path):
    profile = ProfileSteps(tmp_path, first=2, last=3)
    data = np.ones((5, 1))
    dense.fit(data, data, batch_size=1, verbose=0, callbacks=[profile])
    assert [path.name for path in tmp_path.iterdir()] == ["profile"]
    assert len(list(tmp_path.glob("profile/plugins/profile/*/*.xplane.pb"))) == 1


def test_a_profile_of_updates_that_have_been_is_not_made(dense, tmp_path):
    dense.optimizer.iterations.assign(3)
    profile = attach(ProfileSteps(tmp_path, first=2, last=3), dense)
    profile.on_train_begin()
    profile.on_train_batch_end(0)
    profile.on_train_end()
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="`last` must be a whole number of at least 2; got 1"):
        ProfileSteps(tmp_path, first=2, last=1)
