"""From what a person types to a corpus."""

import gzip
import pathlib

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.analysis.data_report.open_corpus import KINDS, guess_kind, open_corpus
from keras_transformer.data import (
    BlankLineDocuments,
    ConlluCorpus,
    JsonLinesCorpus,
    LabeledCorpus,
    LineDocuments,
    ParallelCorpus,
    TsvCorpus,
)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train.de").write_text("Danke\nBitte\n")
    (tmp_path / "train.en").write_text("Thanks\nPlease\n")
    (tmp_path / "train.conllu").write_text("1\tDanke\t_\t_\t_\t_\t0\t_\t_\t_\n")
    (tmp_path / "one.words").write_text("Thanks\n")
    (tmp_path / "pairs.tsv").write_text("Danke\tThanks\n")
    (tmp_path / "more.tsv.gz").write_bytes(gzip.compress(b"Bitte\tPlease\n"))
    (tmp_path / "labeled.tsv").write_text("good film\t1\nbad film\t0\n")
    (tmp_path / "pairs.jsonl").write_text('{"de": "Danke", "en": "Thanks"}\n')
    (tmp_path / "story.txt").write_text("Once upon\na time.\n\nThe end.\n")
    return tmp_path


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (["pairs.tsv"], "tsv"),
        (["PAIRS.TSV", "more.tab.gz", "x.tsv"], "tsv"),
        (["pairs.jsonl.gz"], "json-lines"),
        (["a.ndjson", "b.jsonl"], "json-lines"),
        (["train.de", "train.en.gz"], "parallel"),
        (["train.conllu", "train.en"], "conllu"),
        (["train.conllu.gz", "train.en"], "conllu"),
        (["all.txt"], "line-documents"),
        (["all.gz"], "line-documents"),
    ],
)
def test_kind_is_guessed(names, kind):
    assert guess_kind(names) == kind
    assert guess_kind([pathlib.Path(name) for name in names]) == kind


@pytest.mark.parametrize("names", [["a", "b", "c"], ["pairs.tsv", "train.de"]])
def test_what_cannot_be_guessed(names):
    with pytest.raises(UserError, match=rf"cannot guess what these {len(names)} files hold. Say"):
        guess_kind(names)


@pytest.mark.parametrize(
    ("names", "options", "corpus_class", "examples"),
    [
        (["train.de", "train.en"], {}, ParallelCorpus, [("Danke", "Thanks"), ("Bitte", "Please")]),
        (["train.conllu", "one.words"], {}, ConlluCorpus, [("Danke", "Thanks")]),
        (["pairs.tsv", "more.tsv.gz"], {}, TsvCorpus, [("Danke", "Thanks"), ("Bitte", "Please")]),
        (["pairs.tsv"], {"columns": ("target", "source")}, TsvCorpus, [("Thanks", "Danke")]),
        (
            ["pairs.jsonl"],
            {"keys": {"source": "de", "target": "en"}},
            JsonLinesCorpus,
            [("Danke", "Thanks")],
        ),
        (["pairs.jsonl"], {"keys": {"text": "en"}}, JsonLinesCorpus, [("Thanks",)]),
        (["story.txt"], {}, LineDocuments, [("Once upon",), ("a time.",), ("The end.",)]),
        (
            ["story.txt"],
            {"kind": "blank-line-documents"},
            BlankLineDocuments,
            [("Once upon\na time.",), ("The end.",)],
        ),
        (
            ["labeled.tsv"],
            {"columns": ("text", "label")},
            LabeledCorpus,
            [("good film", "1"), ("bad film", "0")],
        ),
    ],
)
def test_corpora(folder, names, options, corpus_class, examples):
    corpus = open_corpus([str(folder / name) for name in names], **options)
    assert type(corpus) is corpus_class
    assert list(corpus) == examples


def test_patterns(folder):
    corpus = open_corpus([str(folder / "*.de"), str(folder / "*.en")])
    assert list(corpus) == [("Danke", "Thanks"), ("Bitte", "Please")]
    assert len(list(open_corpus([str(folder / "*.tsv")]))) == 3


def test_rules_are_passed_on(folder):
    (folder / "bad.tsv").write_bytes(b"Danke\tThanks\nno tab\nGr\xfc\xdfe\tGreetings\n")
    rules = {"on_bad_line": "skip", "encoding_errors": "replace"}
    report = open_corpus([folder / "bad.tsv"], **rules).check()
    assert (report.examples, report.bad_lines, report.replacements) == (2, 1, 2)


def test_documents_may_be_longer_than_sentences(folder):
    (folder / "long.txt").write_text("a" * 200_000)
    assert open_corpus([folder / "long.txt"]).check().examples == 1


def test_labels_of_the_training_corpus_bind_the_validation_corpus(folder):
    columns = ("text", "label")
    validation = open_corpus([folder / "labeled.tsv"], columns=columns, labels=("0", "2"))
    with pytest.raises(UserError, match=r"labeled.tsv:1: unknown label '1'"):
        validation.check()


@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        (
            ["pairs.jsonl"],
            {},
            "JSON lines need the keys of their texts. Give them with `keys`, for",
        ),
        (["pairs.tsv"], {"keys": {"text": "en"}}, "`keys` is for JSON lines; these files are tsv"),
        (["story.txt"], {"has_header": True}, "`columns` and `has_header` are for TSV files"),
        (["pairs.tsv"], {"columns": ("de", "en")}, r"`columns`: The columns must be one of"),
        (["pairs.jsonl"], {"keys": {"de": "en"}}, r"`keys`: The columns must be one of"),
        (["train.conllu"], {}, r"with parsed sources are two, a source and a target; got 1 \("),
        (["train.de"], {"kind": "parallel"}, r"two, a source and a target; got 1 \(.*train.de\)"),
    ],
)
def test_mistakes(folder, names, options, message):
    with pytest.raises(UserError, match=message):
        open_corpus([str(folder / name) for name in names], **options)


def test_the_command_line_offers_the_same_kinds():
    from keras_transformer.cli import data

    assert data.KINDS == KINDS


@pytest.mark.parametrize(
    ("name", "line", "kind"),
    [("pairs.txt", "Danke\tThank you", "tsv"), ("pairs.json", '{"a": "b"}', "json-lines")],
)
def test_a_table_is_not_taken_for_documents(tmp_path, name, line, kind):
    path = tmp_path / name
    path.write_text(f"{line}\n" * 30)
    with pytest.raises(UserError, match=rf"{name}: looks like {kind}, but its ending does not"):
        open_corpus([path])
    assert len(list(open_corpus([path], kind="line-documents"))) == 30
