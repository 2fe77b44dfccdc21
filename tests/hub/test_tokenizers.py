"""Tokenizers of checkpoints: ids and texts equal Hugging Face's, which are stored."""

import collections
import json
import pathlib
import shutil
import tarfile

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer._utils.errors import UserError
from keras_transformer.hub.tokenizers import load_tokenizer
from keras_transformer.text import SpecialIds, TokenizerPair
from tests.fixtures.compare_tokenizers import compare
from tests.fixtures.hard_strings import LITERALS, hard_strings

FIXTURES = pathlib.Path(__file__).parents[1] / "fixtures" / "tokenizers"
COUNT = 200
STRINGS = [*hard_strings(COUNT - len(LITERALS)), *LITERALS]
LANGUAGE_MODELS = ("gpt2", "qwen2", "llama3", "llama", "gemma")
# Kinds to which Hugging Face 5 gives a "▁" for white space at the end, unlike SentencePiece.
ENDS_WITH_SPACE = ("pegasus", "nllb", "mbart50")
KINDS = (
    *("marian", "m2m", "bert", "bert_cased", "roberta", "t5", "mbart"),
    *LANGUAGE_MODELS,
    *ENDS_WITH_SPACE,
)


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    """Returns the directory of tokenizers that `make_tokenizers.py` wrote."""
    directory = tmp_path_factory.mktemp("tokenizers")
    for archive in FIXTURES.glob("*.tar.xz"):
        with tarfile.open(archive) as tar:
            tar.extractall(directory, filter="data")
    return directory


@pytest.fixture(scope="module")
def pairs(directories):
    return {kind: load_tokenizer(directories / kind) for kind in KINDS}


@pytest.fixture
def copy(directories, tmp_path):
    """Returns a function that copies the directory of a kind, and changes its settings."""

    def copy(kind, name="tokenizer_config.json", **changes):
        directory = tmp_path / kind
        shutil.copytree(directories / kind, directory, dirs_exist_ok=True)
        if changes:
            path = directory / name
            path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
        return directory

    return copy


def expected(directories, kind):
    return json.loads((directories / kind / "expected.json").read_text())


def full_ids(tokenizer, strings):
    return tokenizer.with_template(tokenizer.tokenize(strings)).to_list()


@pytest.mark.parametrize("kind", KINDS)
def test_ids_equal_those_of_hugging_face_but_for_known_reasons(pairs, directories, kind):
    tokenizer, wanted = pairs[kind].source, expected(directories, kind)["ids"]
    found = [
        (string, compare(tokenizer, string, *both))
        for string, *both in zip(STRINGS, full_ids(tokenizer, STRINGS), wanted, strict=True)
    ]
    assert [string for string, reason in found if reason == "different"] == []
    counts = collections.Counter(reason for _, reason in found)
    assert counts["literal"] <= len(LITERALS)
    assert counts["mark"] <= 1
    assert counts["end"] == 0 or kind in ENDS_WITH_SPACE


@pytest.mark.parametrize("kind", KINDS)
def test_texts_equal_those_of_hugging_face(pairs, directories, kind):
    wanted = expected(directories, kind)
    texts = pairs[kind].source.detokenize(tf.ragged.constant(wanted["ids"])).numpy()
    assert [text.decode() for text in texts] == wanted["texts"]


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_in_a_text_stay_text(pairs, kind):
    for tokenizer in (pairs[kind].source, pairs[kind].target):
        special = tokenizer.special_ids
        controls = {special.padding, special.start, special.end, *tokenizer.template.ids}
        texts = [text for text in LITERALS if not text.startswith(">>")]
        assert not np.isin(tokenizer.tokenize(texts).values, list(controls)).any()


@pytest.mark.parametrize("kind", KINDS)
def test_saved_tokenizers_give_the_same_ids(pairs, kind, tmp_path):
    pairs[kind].save(tmp_path / "tokenizers")
    loaded = TokenizerPair.load(tmp_path / "tokenizers")
    for before, after in ((pairs[kind].source, loaded.source), (pairs[kind].target, loaded.target)):
        assert (before.hash, before.template) == (after.hash, after.template)
        assert full_ids(before, STRINGS[:50]) == full_ids(after, STRINGS[:50])


def test_special_ids_of_marian_are_those_of_its_config(pairs):
    padding = pairs["marian"].source.vocabulary_size - 1
    special_ids = SpecialIds(padding=padding, unknown=1, start=padding, end=0)
    assert pairs["marian"].special_ids == special_ids


def test_sides_of_marian_have_their_own_model_and_one_vocabulary(pairs):
    source, target = pairs["marian"].source, pairs["marian"].target
    assert source.vocabulary() == target.vocabulary()
    assert source.hash != target.hash


def test_text_of_marian_may_begin_with_a_language(pairs):
    tokenizer = pairs["marian"].source
    label = tokenizer.vocabulary().index(">>fra<<")
    with_code, without, unknown = tokenizer.tokenize(
        [">>fra<< the house", " the house", ">>xyz<< the house"]
    ).to_list()
    assert with_code == [label, *without]
    assert unknown == [tokenizer.special_ids.unknown, *without]


def test_target_language_of_marian_is_part_of_its_template(directories):
    tokenizer = load_tokenizer(directories / "marian", target_language="fra").source
    label = tokenizer.vocabulary().index(">>fra<<")
    assert full_ids(tokenizer, [""]) == [[label, tokenizer.special_ids.end]]


def test_languages_of_m2m_come_before_source_and_target(directories):
    pair = load_tokenizer(directories / "m2m", source_language="de", target_language="fr")
    labels = pair.source.vocabulary()
    assert full_ids(pair.source, [""]) == [[labels.index("__de__"), 2]]
    assert pair.target.template.prefix == (labels.index("__fr__"),)


def test_vocabulary_has_the_size_of_the_config(pairs):
    assert pairs["m2m"].source.vocabulary()[-1].startswith("<unused")


def test_cut_text_keeps_the_template(pairs):
    tokenizer = pairs["m2m"].source
    ids = tokenizer.tokenize(["the house of the friends", ""])
    (prefix,), (suffix,) = tokenizer.template.prefix, tokenizer.template.suffix
    cut = tokenizer.with_template(ids, 5).to_list()
    assert cut == [[prefix, *ids[0].numpy()[:3], suffix], [prefix, suffix]]


@pytest.mark.parametrize("language", ["xx", "", "</s>"])
def test_unknown_language_is_refused(directories, language):
    with pytest.raises(UserError, match=f"__{language}__"):
        load_tokenizer(directories / "m2m", source_language=language)


def test_unknown_setting_is_refused_by_name(copy):
    with pytest.raises(UserError, match=r"tokenizer_config.json.*'lowercases'"):
        load_tokenizer(copy("marian", lowercases=True))


def test_setting_that_changes_ids_is_refused_by_name(copy):
    with pytest.raises(UserError, match=r"'enable_sampling'.*'sp_model_kwargs'"):
        load_tokenizer(copy("marian", sp_model_kwargs={"enable_sampling": True}))


@pytest.mark.parametrize(
    ("content", "facts"),
    [
        (b"", "not valid JSON"),
        (b"[]", "object"),
        (b"{}", "tokens to ids"),
        (b'{"a": "x"}', "tokens to ids"),
        (b'{"a": 1, "b": 1}', "same id"),
        (b'{"a": 9999999999}', "tokens to ids"),
        (b'{"a": -1}', "tokens to ids"),
        (b'{"a": true}', "tokens to ids"),
        (b'{"a": 1, "a": 2}', "twice"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_hostile_vocabulary_is_refused(copy, content, facts):
    directory = copy("marian")
    (directory / "vocab.json").write_bytes(content)
    with pytest.raises(UserError, match=facts) as error:
        load_tokenizer(directory)
    assert "vocab.json" in str(error.value)
    assert "\n" not in str(error.value)


def test_link_out_of_the_directory_is_refused(copy, tmp_path):
    directory = copy("marian")
    (directory / "source.spm").rename(tmp_path / "elsewhere")
    (directory / "source.spm").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="symbolic link"):
        load_tokenizer(directory)


def test_directory_without_tokenizer_is_refused(tmp_path):
    with pytest.raises(UserError, match="no tokenizer"):
        load_tokenizer(tmp_path)


def test_ids_beyond_the_size_of_the_config_are_refused(copy):
    with pytest.raises(UserError, match=r"config.json.*100"):
        load_tokenizer(copy("marian", "config.json", vocab_size=100))


def test_vocabulary_of_bert_with_equal_tokens_is_refused(copy):
    directory = copy("bert")
    path = directory / "vocab.txt"
    path.write_text(path.read_text() + "the\n")
    with pytest.raises(UserError, match=r"vocab.txt.*'the' twice"):
        load_tokenizer(directory)


def change_json(directory, *keys, value):
    """Sets a value inside a `tokenizer.json`."""
    path = directory / "tokenizer.json"
    content = json.loads(path.read_text())
    part = content
    for key in keys[:-1]:
        part = part[key]
    part[keys[-1]] = value
    path.write_text(json.dumps(content))
    return directory


@pytest.mark.parametrize(
    ("keys", "value", "facts"),
    [
        (("normalizer",), {"type": "Lowercase"}, "Lowercase"),
        (("normalizer", "clean_text"), False, "'clean_text'"),
        (("normalizer", "extra"), 1, "'extra'"),
        (("normalizer", "type"), 5, "'normalizer'"),
        (("pre_tokenizer",), None, "BertNormalizer"),
        (("model", "continuing_subword_prefix"), "@@", "'continuing_subword_prefix'"),
        (("model", "vocab"), [], "tokens to ids"),
        (("model",), None, "'model'"),
        (("post_processor",), {"type": "Strange"}, "'Strange'"),
        (("post_processor", "single"), [], "exactly one text"),
        (("post_processor", "special_tokens"), {}, "no ids"),
        (("added_tokens",), [{"id": 3, "content": "new", "special": True}], "'new'"),
        (("added_tokens",), [{"id": 1300, "content": "new", "special": False}], "1300|'new'"),
        (("added_tokens",), [{"id": -1, "content": "new"}], "valid id"),
        (("added_tokens",), ["new"], "valid id"),
    ],
)
def test_tokenizer_json_with_other_rules_is_refused_by_name(copy, keys, value, facts):
    directory = change_json(copy("bert_cased"), *keys, value=value)
    with pytest.raises(UserError, match=facts):
        load_tokenizer(directory)


def test_settings_that_contradict_tokenizer_json_are_refused(copy):
    with pytest.raises(UserError, match="'do_lower_case'"):
        load_tokenizer(copy("bert_cased", do_lower_case=True))


@pytest.mark.parametrize(
    ("keys", "value", "facts"),
    [
        (("model", "dropout"), 0.1, "'dropout'"),
        (("model", "byte_fallback"), True, "'byte_fallback'"),
        (("model", "end_of_word_suffix"), "</w>", "'end_of_word_suffix'"),
        (("model", "merges"), ["a b c"], "merges"),
        (("model", "merges"), [["a", 5]], "merges"),
        (("model", "merges"), {}, "merges"),
        (("model", "merges"), [["a", "nothing"]], "'a' and 'nothing'"),
        (("normalizer",), {"type": "NFKC"}, "NFKC"),
        (("pre_tokenizer", "pretokenizers", 0, "pattern"), {"Regex": "x+"}, "'x\\+'"),
        (("pre_tokenizer", "pretokenizers", 0, "behavior"), "Removed", "'behavior'"),
        (("pre_tokenizer", "pretokenizers"), 7, "without steps"),
        (("pre_tokenizer", "pretokenizers", 0), {"type": "Punctuation"}, "Punctuation"),
        (("added_tokens",), [{"id": 1202, "content": "word", "special": False}], "'word'"),
    ],
)
def test_byte_pairs_with_other_rules_are_refused_by_name(copy, keys, value, facts):
    directory = change_json(copy("qwen2"), *keys, value=value)
    with pytest.raises(UserError, match=facts):
        load_tokenizer(directory)


def test_models_without_padding_get_an_id_for_it(pairs):
    tokenizer = pairs["gpt2"].source
    assert tokenizer.special_ids.padding == tokenizer.vocabulary_size - 1
    unused = pairs["qwen2"].source
    assert unused.special_ids.padding < unused.vocabulary_size - 1


def test_added_markup_is_written_and_not_read(pairs):
    tokenizer = pairs["qwen2"].source
    number = tokenizer.vocabulary().index("<tool_call>")
    assert tokenizer.detokenize([[number]]).numpy().tolist() == [b"<tool_call>"]
    assert number not in tokenizer.tokenize(["<tool_call>"]).to_list()[0]


@pytest.mark.parametrize(
    ("keys", "value", "facts"),
    [
        (("model", "vocab"), [["<pad>", 0.0], ["a"]], "pieces and scores"),
        (("model", "vocab", 5, 0), "</s>", "twice"),
        (("model", "vocab", 5, 1), "0", "pieces and scores"),
        (("model", "unk_id"), 10**6, "'unk_id'"),
        (("model", "type"), "WordLevel", "WordLevel"),
        (("normalizer",), {"type": "NFKC"}, "NFKC"),
        (("normalizer",), {"type": "Precompiled", "precompiled_charsmap": "AAAA"}, "replacements"),
        (("normalizer",), {"type": "Precompiled", "precompiled_charsmap": "?"}, "base 64"),
        (("pre_tokenizer",), {"type": "Whitespace"}, "Whitespace"),
        (("pre_tokenizer",), None, "spaces"),
    ],
)
def test_unigram_model_with_other_rules_is_refused_by_name(copy, keys, value, facts):
    directory = change_json(copy("t5"), *keys, value=value)
    with pytest.raises(UserError, match=facts):
        load_tokenizer(directory)


@pytest.mark.parametrize(
    ("keys", "value", "facts"),
    [
        (("model", "fuse_unk"), False, "'fuse_unk'"),
        (("model", "ignore_merges"), True, "'ignore_merges'"),
        (("model", "merges"), [["a", "nothing"]], "'nothing'"),
        (("pre_tokenizer", "replacement"), "_", "'replacement'"),
    ],
)
def test_byte_pairs_of_characters_with_other_rules_are_refused_by_name(copy, keys, value, facts):
    directory = change_json(copy("nllb"), *keys, value=value)
    with pytest.raises(UserError, match=facts):
        load_tokenizer(directory)


def test_languages_of_nllb_come_before_or_after_the_text(directories, copy):
    pair = load_tokenizer(directories / "nllb", source_language="fra_Latn")
    labels = pair.source.vocabulary()
    assert full_ids(pair.source, [""]) == [[labels.index("fra_Latn"), 2]]
    assert pair.target.template.prefix == (labels.index("deu_Latn"),)
    legacy = load_tokenizer(copy("nllb", legacy_behaviour=True))
    assert full_ids(legacy.source, [""]) == [[2, labels.index("eng_Latn")]]


def test_ids_of_pegasus_and_t5_are_shifted_and_extended(pairs):
    labels = pairs["pegasus"].source.vocabulary()
    assert labels[105] == "<unknown>"
    assert labels[104] == "<unk_102>"
    assert "<extra_id_0>" in pairs["t5"].source.vocabulary()
