"""Registry of formats: guessing, opening, options, and formats that have no lines."""

import contextlib
import gzip
import json
import pathlib
import struct
import subprocess
import sys
import textwrap
import types

import numpy as np
import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.cli.main import main
from keras_transformer.data import (
    FORMATS,
    BlankLineDocuments,
    ConlluCorpus,
    FileCorpus,
    JsonLinesCorpus,
    LabeledCorpus,
    LineDocuments,
    PairBatches,
    ParallelCorpus,
    ReadingRules,
    TsvCorpus,
    choose_buckets,
    corpora,
    guess_format,
    open_corpus,
    register_format,
    tokenize_corpus,
)
from keras_transformer.data.corpora import find_columns
from keras_transformer.data.corpora.file_corpus import open_file
from keras_transformer.text import ByteTokenizer

RULES = ReadingRules()


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


def test_formats_are_known_without_tensorflow():
    code = (
        "import sys; from keras_transformer.data import FORMATS, BUILTIN_CORPORA\n"
        "assert FORMATS and BUILTIN_CORPORA and 'tensorflow' not in sys.modules\n"
        "print(*FORMATS, *BUILTIN_CORPORA, *FORMATS['tsv'].options)"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    formats = {"blank-line-documents", "conllu", "json-lines", "line-documents", "parallel", "tsv"}
    assert {*formats, "dates", "recall", "columns", "has_header"} <= set(printed.split())


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_format_describes_itself(name):
    kind = FORMATS[name]
    assert kind.registered_name == name
    assert kind.title
    assert all(extension.startswith(".") for extension in kind.extensions)
    assert all(kind.options.values())


@pytest.mark.parametrize(
    ("names", "format_name"),
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
def test_guess_format_by_extensions_and_number(names, format_name):
    assert guess_format(names) == format_name
    assert guess_format([pathlib.Path(name) for name in names]) == format_name


@pytest.mark.parametrize("names", [["a", "b", "c"], ["pairs.tsv", "train.de"], []])
def test_guess_format_of_unclear_files_raises_with_choices(names):
    with pytest.raises(UserError, match=rf"`format`.* {len(names)} files.*json-lines") as caught:
        guess_format(names)
    assert caught.value.argument == "format"


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
            {"format": "blank-line-documents"},
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
def test_open_corpus_reads_each_format(folder, names, options, corpus_class, examples):
    files = [str(folder / name) for name in names]
    corpus = open_corpus(files, **options)
    assert type(corpus) is corpus_class
    assert list(corpus) == examples
    assert find_columns(files, **options) == corpus.columns


def test_open_corpus_expands_patterns(folder):
    corpus = open_corpus([str(folder / "*.de"), str(folder / "*.en")])
    assert list(corpus) == [("Danke", "Thanks"), ("Bitte", "Please")]
    assert len(list(open_corpus([str(folder / "*.tsv")]))) == 3


def test_open_corpus_applies_reading_rules(folder):
    (folder / "bad.tsv").write_bytes(b"Danke\tThanks\nno tab\nGr\xfc\xdfe\tGreetings\n")
    rules = {"on_bad_line": "skip", "encoding_errors": "replace"}
    report = open_corpus([folder / "bad.tsv"], **rules).check()
    assert (report.examples, report.bad_lines, report.replacements) == (2, 1, 2)


@pytest.mark.parametrize(
    ("name", "options"), [("long.txt", {}), ("long.tsv", {"columns": ["text"]})]
)
def test_open_corpus_allows_longer_documents_than_sentences(folder, name, options):
    (folder / name).write_text("a" * 200_000)
    assert open_corpus([folder / name], **options).check().examples == 1


def test_open_corpus_with_labels_refuses_other_labels(folder):
    columns = ("text", "label")
    validation = open_corpus([folder / "labeled.tsv"], columns=columns, labels=("0", "2"))
    with pytest.raises(UserError, match=r"labeled.tsv:1: unknown label '1'"):
        validation.check()


@pytest.mark.parametrize(
    ("names", "options", "argument", "facts"),
    [
        (["pairs.jsonl"], {}, "keys", "pairs.jsonl.*source=en,target=de"),
        (["pairs.tsv"], {"keys": {"text": "en"}}, "keys", "tsv.* json-lines"),
        (["story.txt"], {"has_header": True}, "has_header", "line-documents.* tsv"),
        (["pairs.tsv"], {"no_such": 2}, "no_such", "no format has it"),
        (["pairs.tsv"], {"columns": ("de", "en")}, "columns", r"got \('de', 'en'\)"),
        (["pairs.jsonl"], {"keys": {"de": "en"}}, "keys", r"got \('de',\)"),
        (["train.conllu"], {}, None, r"conllu takes two files.* got 1 \("),
        (["train.de"], {"format": "parallel"}, None, r"two files.*got 1 \(.*train.de\)"),
        (["train.de"], {"format": "no_such"}, "format", "'no_such'"),
    ],
)
def test_open_corpus_with_wrong_options_raises(folder, names, options, argument, facts):
    with pytest.raises(UserError, match=facts) as caught:
        open_corpus([str(folder / name) for name in names], **options)
    assert caught.value.argument == argument


@pytest.mark.parametrize(
    ("name", "line", "format_name"),
    [("pairs.txt", "Danke\tThank you", "tsv"), ("pairs.json", '{"a": "b"}', "json-lines")],
)
def test_open_corpus_does_not_take_table_for_documents(tmp_path, name, line, format_name):
    path = tmp_path / name
    path.write_text(f"{line}\n" * 30)
    with pytest.raises(UserError, match=rf"{name}: looks like {format_name}"):
        open_corpus([path])
    assert len(list(open_corpus([path], format="line-documents"))) == 30


# A format whose files do not consist of lines.


@pytest.fixture
def records_format():
    """Registers a format of length-prefixed pairs for one test."""

    @register_format("test_records")
    class RecordsCorpus(FileCorpus):
        title = "length-prefixed records"
        extensions = (".test_rec",)
        columns = ("source", "target")
        options = types.MappingProxyType({"byte_order": "order of the bytes of lengths, < or >"})

        def __init__(self, paths, byte_order="<", rules=RULES):
            self.byte_order = byte_order
            super().__init__(paths, rules)

        def settings(self):
            return {"byte_order": self.byte_order}

        def records(self, tally):
            for path in self.files:
                self.verify(path)
                with open_file(path) as file:
                    number = 0
                    while header := file.read(8):
                        number += 1
                        tally.path, tally.line_number = path, number
                        sizes = struct.unpack(f"{self.byte_order}2I", header)
                        try:
                            yield tuple(file.read(size).decode() for size in sizes)
                        except UnicodeDecodeError:
                            yield tally.bad_record("not UTF-8.", "Write it again.")
                self.verify(path)

    yield RecordsCorpus
    del FORMATS["test_records"]


def record(source, target, byte_order="<"):
    return struct.pack(f"{byte_order}2I", len(source), len(target)) + source + target


def test_format_without_lines_is_guessed_checked_and_counted(records_format, tmp_path):
    path = tmp_path / "pairs.test_rec"
    path.write_bytes(
        record(b"one\ntwo", b"1\r2")
        + record(b"three", b"\xff")
        + record(b"four", b" ")
        + record(b"fi\0ve", b"5")
        + record(b"six" * 99, b"6")
    )
    assert guess_format([path]) == "test_records"
    corpus = open_corpus([path], on_bad_line="skip")
    assert type(corpus) is records_format
    assert list(corpus) == [("one\ntwo", "1\r2"), ("five", "5"), ("six" * 99, "6")]
    report = corpus.check()
    assert (report.bad_lines, report.blank_lines, report.nul_characters) == (1, 1, 1)
    assert report.lengths["source"].maximum == 3 * 99
    rules = ReadingRules(on_bad_line="skip", max_characters=10)
    short = records_format(path, rules=rules).check()
    assert (short.examples, short.too_long) == (2, 1)
    with pytest.raises(UserError) as caught:
        open_corpus([path]).check()
    assert caught.value.where == f"{path}:2"
    path.write_bytes(record(b"changed", b"7"))
    with pytest.raises(UserError, match=r"pairs\.test_rec: changed"):
        list(corpus)


@pytest.mark.usefixtures("records_format")
def test_batches_of_format_without_lines_equal_those_of_tsv(tmp_path):
    pairs = [(f"source {number}", f"target {number * 7}") for number in range(50)]
    binary, table = tmp_path / "pairs.test_rec", tmp_path / "pairs.tsv"
    binary.write_bytes(b"".join(record(a.encode(), b.encode()) for a, b in pairs))
    table.write_text("".join(f"{a}\t{b}\n" for a, b in pairs))
    made = []
    for path in (binary, table):
        cache = tokenize_corpus(open_corpus([path]), ByteTokenizer(), tmp_path / "caches")
        made.append(PairBatches(cache, choose_buckets(cache, tokens=200), seed=1))
    assert len(made[0]) == len(made[1]) > 1
    for number in range(len(made[0])):
        (inputs, labels), (other_inputs, other_labels) = (b.batch(0, number) for b in made)
        np.testing.assert_array_equal(labels, other_labels)
        np.testing.assert_array_equal(inputs["source"], other_inputs["source"])


@pytest.mark.usefixtures("records_format")
def test_command_reports_on_format_without_lines(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    pairs = [(f"source {number}", f"target {number * 7}") for number in range(50)]
    content = b"".join(record(a.encode(), b.encode(), ">") for a, b in pairs)
    (tmp_path / "pairs.test_rec").write_bytes(content)
    options = ["--format-option", "byte_order='>'", "--tokenizer", "bytes", "--cache", "caches"]
    assert main(["data", "pairs.test_rec", "--validation", "pairs.test_rec", *options]) == 0
    report = json.loads((tmp_path / "data_report" / "report.json").read_text())
    assert report["corpus"]["examples"] == report["overlap"] == 50
    assert report["corpus"]["lengths"]["source"]["maximum"] == len("source 49")
    assert len(list((tmp_path / "caches").glob("*.lock"))) == 1
    capsys.readouterr()
    assert main(["data", "--list-formats"]) == 0
    assert "--format-option byte_order=VALUE: order of" in capsys.readouterr().out


@pytest.mark.usefixtures("records_format")
@pytest.mark.parametrize(
    ("option", "facts"),
    [
        ("order=>", "`--format-option` must be one of '"),
        ("order=>", "'byte_order', "),
        ("byte_order", "--format-option byte_order: must look like NAME=VALUE"),
        ("byte_order=[", "--format-option byte_order=[: "),
        ("columns=[text]", "`--format-option columns`: is not an option of the format test_re"),
        ("columns=[text]", "Options of test_records: byte_order."),
    ],
)
def test_command_refuses_wrong_option_of_format(tmp_path, monkeypatch, capsys, option, facts):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs.test_rec").write_bytes(record(b"one", b"1"))
    assert main(["data", "pairs.test_rec", "--format-option", option]) == 2
    complaint = capsys.readouterr().err
    assert complaint.count("\n") == 1
    assert facts in complaint


@pytest.mark.usefixtures("records_format")
def test_gzip_extension_does_not_belong_to_format_without_lines():
    assert guess_format(["pairs.test_rec"]) == "test_records"
    assert guess_format(["pairs.tsv.GZ"]) == "tsv"
    with pytest.raises(UserError, match="cannot be guessed"):
        guess_format(["pairs.test_rec.gz"])


# The format that the documentation of the package shows.

LINES = (corpora.__doc__ or "").splitlines()
SKETCH = "\n".join(line for line in LINES if line.startswith("    ") or not line)
SKETCH = textwrap.dedent(SKETCH).strip() + "\n"


class FakeParquet(types.ModuleType):
    """Stands for `pyarrow.parquet`: a file is JSON, a list of row groups with their columns."""

    @contextlib.contextmanager
    def ParquetFile(self, path):  # noqa: N802
        groups = json.loads(pathlib.Path(path).read_text())

        def iter_batches(columns):
            for group in groups:
                texts = {name: group[name] for name in columns}
                yield types.SimpleNamespace(
                    column=lambda name, texts=texts: types.SimpleNamespace(
                        to_pylist=lambda: texts[name]
                    )
                )

        names = types.SimpleNamespace(names=list(groups[0]))
        yield types.SimpleNamespace(schema_arrow=names, iter_batches=iter_batches)


@pytest.fixture
def sketched_format(monkeypatch):
    """Registers the format of the documentation under another name, for one test."""
    monkeypatch.setitem(sys.modules, "pyarrow", types.ModuleType("pyarrow"))
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", FakeParquet("pyarrow.parquet"))
    names = {"__name__": __name__}
    source = SKETCH.replace('"parquet"', '"test_parquet"').replace('.parquet"', '.test_parquet"')
    exec(compile(source, "parquet.py", "exec"), names)
    yield names["ParquetCorpus"]
    del FORMATS["test_parquet"]


@pytest.mark.usefixtures("sketched_format")
def test_sketched_format_reads_row_groups(tmp_path):
    path = tmp_path / "pairs.test_parquet"
    groups = [
        {"target": ["1", None], "source": ["a", "b"], "de": ["eins", "zwei"]},
        {"target": ["3", "4"], "source": ["c", 4], "de": ["drei", "vier"]},
    ]
    path.write_text(json.dumps(groups))
    with pytest.raises(UserError, match=r"\('b', None\)") as caught:
        open_corpus([path]).check()
    assert caught.value.where == f"{path}:2"
    corpus = open_corpus([path], on_bad_line="skip")
    assert list(corpus) == [("a", "1"), ("c", "3")]
    assert corpus.check().bad_lines == 2
    keys = {"text": "de"}
    assert find_columns([path], keys=keys) == ("text",)
    assert list(open_corpus([path], keys=keys)) == [("eins",), ("zwei",), ("drei",), ("vier",)]
    other = open_corpus([path], keys={"text": "target"})
    assert other.fingerprint() != open_corpus([path], keys=keys).fingerprint()


@pytest.mark.usefixtures("sketched_format")
@pytest.mark.parametrize(
    ("content", "facts"),
    [('[{"source": [], "de": []}]', r"'target'.*'source', 'de'.*`keys`"), ("PAR1", "is damaged")],
)
def test_sketched_format_refuses_wrong_files_when_it_opens_them(tmp_path, content, facts):
    path = tmp_path / "pairs.test_parquet"
    path.write_text(content)
    with pytest.raises(UserError, match=facts) as caught:
        open_corpus([path])
    assert caught.value.where == str(path)


@pytest.mark.usefixtures("sketched_format")
def test_sketched_format_without_its_library_names_it(tmp_path, monkeypatch):
    (tmp_path / "pairs.test_parquet").touch()
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(UserError, match="pip install pyarrow"):
        open_corpus([tmp_path / "pairs.test_parquet"])


@pytest.mark.parametrize("command", ["check", "format --check"])
def test_sketched_format_keeps_the_rules_of_the_code(command):
    pytest.importorskip("ruff")
    path = pathlib.Path(corpora.__file__).with_name("parquet.py")
    ruff = [sys.executable, "-m", "ruff", *command.split(), "--stdin-filename", str(path), "-"]
    done = subprocess.run(ruff, input=SKETCH, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_register_format_refuses_taken_name():
    with pytest.raises(UserError, match="'tsv' is taken"):
        register_format("tsv")(LineDocuments)
