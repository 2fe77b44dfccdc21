"""The command `keras-transformer data`."""

import gzip
import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest

from keras_transformer.cli.main import main

COMMAND = pathlib.Path(sys.executable).with_name("keras-transformer")

WORDS = ["eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn"]
PAIRS = [
    (" ".join(WORDS[: 1 + n % 9]) + f" {n}", " ".join(WORDS[: 1 + n % 9]) + f" {n}!")
    for n in range(120)
]


def write_pairs(folder, name, pairs):
    folder.mkdir(exist_ok=True)
    for column, language in enumerate(("de", "en")):
        content = "".join(f"{pair[column]}\n" for pair in pairs)
        (folder / f"{name}.{language}").write_text(content, encoding="utf-8")


def report_in(folder):
    return json.loads((folder / "data_report" / "report.json").read_text())


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Returns the result of a run in a pipe, without a locale, on paths with spaces and accents."""
    folder = tmp_path_factory.mktemp("corpora") / "Grüße & mehr"
    odd = [("", "nothing there"), ("kurz", "word " * 50), ("the same", "the same")]
    write_pairs(folder, "train", [*PAIRS, PAIRS[3], PAIRS[3], *odd])
    write_pairs(folder, "val", [*PAIRS[:4], ("noch nie gesehen", "never seen")])
    environment = {"PATH": os.environ["PATH"], "TERM": "dumb", "LANG": "C"}
    files = ["train.de", "train.en", "--validation", "val.de", "val.en"]
    result = subprocess.run(
        [COMMAND, "data", *files, "--vocabulary-size", "320"],
        cwd=folder,
        env=environment,
        capture_output=True,
    )
    return folder, result


def test_run_prints_only_learning_to_standard_error(finished):
    _, result = finished
    assert result.returncode == 0, result.stderr.decode()
    assert result.stderr.decode() == "Learning a sentencepiece vocabulary of 320\n"


def test_json_has_counts_of_files(finished):
    folder, _ = finished
    report = report_in(folder)
    assert (report["format"], report["version"]) == ("keras_transformer data report", 2)
    assert report["files"] == ["train.de", "train.en"]
    assert report["corpus"]["examples"] == len(PAIRS) + 4
    assert report["corpus"]["blank_lines"] == 1
    assert report["corpus"]["duplicates"] == 2
    assert report["corpus"]["identical_sides"] == 1
    assert report["overlap"] == 4
    assert report["validation"]["examples"] == 5
    assert report["settings"] == {
        "tokenizer": "sentencepiece",
        "vocabulary_size": 320,
        "tokens": 4096,
        "max_length": 256,
    }
    places = {
        odd["kind"]: [line["place"] for line in odd["lines"]] for odd in report["lines"]["odd"]
    }
    assert places["length ratio"] == ["train.en:124"]
    assert places["identical sides"] == ["train.en:125"]


def test_picture_is_png(finished):
    folder, _ = finished
    content = (folder / "data_report" / "report.png").read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = (int.from_bytes(content[place : place + 4]) for place in (16, 20))
    assert 1000 < width < 3000
    assert 700 < height < 2000


def test_printed_report_is_plain_and_ends_with_next_step(finished):
    folder, result = finished
    printed = result.stdout.decode()
    assert "\x1b" not in printed
    assert "pairs                                   124           5\n" in printed
    assert "    train.en:124  tokens: " in printed
    assert "4 of 5 validation examples are also in the training corpus." in printed
    *_, saved, following = printed.splitlines()
    output = folder / "data_report"
    assert saved == f"Saved: {output / 'report.json'} and {output / 'report.png'}"
    assert following.startswith("Next: remove the overlap")


def test_builtin_corpus_with_closed_pipe(tmp_path):
    command = f"set -o pipefail; '{COMMAND}' data --dates --tokenizer bytes | head -c 4"
    result = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True)
    assert (result.returncode, result.stdout, result.stderr) == (0, "Data", "")
    report = report_in(tmp_path)
    assert (report["corpus"]["examples"], report["validation"]["examples"]) == (20_000, 1_000)
    assert report["overlap"] == 0


def test_ctrl_c_is_quiet_and_leaves_nothing(tmp_path):
    # Enough text that the signal arrives while the vocabulary is learned.
    write_pairs(
        tmp_path,
        "train",
        [(f"{a} {n * 7919}", f"{b} {n * 104729}") for n in range(300) for a, b in PAIRS],
    )
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    process = subprocess.Popen(
        [COMMAND, "data", "train.de", "train.en"],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell that runs the tests in the background ignores SIGINT.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stderr.readline() == "Learning a sentencepiece vocabulary of 8000\n"
    process.send_signal(signal.SIGINT)
    printed, complaints = process.communicate()
    assert (process.returncode, printed, complaints) == (130, "", "")
    assert sorted(os.listdir(tmp_path)) == ["temporary", "train.de", "train.en"]
    assert os.listdir(temporary) == []


# The other tests run in this process: the exit code is the result of `main`.


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_pairs(tmp_path, "train", PAIRS)
    return tmp_path


def run(*arguments):
    return main(["data", "--tokenizer", "bytes", *arguments])


def test_json_lines_with_cache_directory(folder):
    lines = (json.dumps({"de": german, "en": english}) for german, english in PAIRS)
    (folder / "pairs.jsonl").write_text("\n".join(lines))
    assert run("pairs.jsonl", "--keys", "source=de,target=en", "--cache", "caches") == 0
    assert report_in(folder)["corpus"]["examples"] == 120
    (cache,) = (folder / "caches").glob("*/cache.json")
    assert json.loads(cache.read_text())["content"]["examples"] == 120


def test_bad_lines_are_skipped_on_request(folder, capsys):
    (folder / "pairs.tsv").write_text("de\ten\n" + "Danke\tThanks\nno tab\n" * 5)
    assert run("pairs.tsv", "--has-header", "--on-bad-line", "skip") == 0
    report = report_in(folder)
    assert (report["corpus"]["examples"], report["corpus"]["bad_lines"]) == (5, 5)
    assert "1 unique pair of 5." in capsys.readouterr().out


def test_labeled_texts_with_validation(folder):
    (folder / "reviews.tsv").write_text("good film\tgood\nbad film\tbad\n" * 9)
    assert run("reviews.tsv", "--columns", "text,label", "--validation", "reviews.tsv") == 0
    assert report_in(folder)["overlap"] == 18


def test_single_pair_that_looks_like_header(folder, capsys):
    (folder / "one.tsv").write_text("source\ttarget")
    assert run("one.tsv", "--validation", "one.tsv") == 0
    printed = capsys.readouterr().out
    assert "There is only one example." in printed
    assert "1 of 1 validation examples are also in the training corpus" in printed
    assert "looks like a header (source, target)" in printed


def make_broken_files(folder):
    (folder / "empty.tsv").write_text("")
    (folder / "blank.tsv").write_text("\n\n \n")
    (folder / "one_column.tsv").write_text("ja\tyes\nnein\n")
    (folder / "three_columns.tsv").write_text("ja\tyes\tsi\n")
    (folder / "utf16.tsv").write_bytes("ja\tyes\n".encode("utf-16"))
    (folder / "latin1.tsv").write_bytes("Grüße\tgreetings\n".encode("latin-1"))
    (folder / "old_mac.tsv").write_bytes(b"ja\tyes\rnein\tno\r")
    (folder / "short.en").write_text("only one\n")
    content = gzip.compress(os.urandom(5000).hex().encode())
    (folder / "cut.tsv.gz").write_bytes(content[: len(content) // 2])
    (folder / "pairs.jsonl").write_text('{"de": "ja", "en": "yes"}\n')
    (folder / "broken.jsonl").write_text('{"de": "ja"\n')
    (folder / "one_label.tsv").write_text("good\t1\nfine\t1\n")
    (folder / "taken").mkdir()
    (folder / "taken" / "report.json").write_text("{}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "Name the files of a corpus"),
        ("train.de --dates", "or use --dates"),
        ("--dates --validation train.de", "leave out the options for files"),
        ("missing.de train.en", "missing.de: no such file (the current directory is "),
        (". train.en", ".: is a directory."),
        ("no*.tsv", "no*.tsv: no file matches this pattern"),
        ("empty.tsv", "empty.tsv: no examples (0 blank lines"),
        ("blank.tsv", "blank.tsv: no examples (3 blank lines"),
        ("train.de train.en --validation empty.tsv blank.tsv", "empty.tsv and 1 more: no examples"),
        ("one_column.tsv", "one_column.tsv:2: 1 column, but 2 columns (source, target) were"),
        ("one_column.tsv", "`on_bad_line` to skip"),
        ("three_columns.tsv", "three_columns.tsv:1: 3 columns, but 2 columns"),
        ("utf16.tsv", "utf16.tsv: looks like UTF-16 (BOM FF FE)"),
        ("latin1.tsv", "latin1.tsv:1:3: byte 0xFC is not UTF-8"),
        ("latin1.tsv", "`encoding_errors` to replace"),
        ("old_mac.tsv", "a carriage return inside the line"),
        ("train.de short.en", "train.de: line count 120, but short.en: line count 1."),
        ("cut.tsv.gz", "gzip ends early"),
        ("broken.jsonl --keys source=de,target=en", "broken.jsonl:1: is not JSON"),
        ("pairs.jsonl", "`--keys`: "),
        ("pairs.jsonl --keys source", "`--keys`: must look like source=en,target=de"),
        ("pairs.jsonl --keys source=fr,target=en", "no key 'fr' for the source; found 'de', 'en'"),
        ("one_label.tsv --columns text,label", "all 2 examples have the label '1'"),
        ("train.de train.en short.en", "`--format`: cannot be guessed for these 3 files"),
        ("train.de train.en --format tsvv", "`--format` must be one of "),
        (
            "train.de train.en --has-header",
            "`--has-header`: is not an option of the format parallel",
        ),
        ("train.de train.en --validation train.de", "has the columns text, but the training"),
        ("train.de train.en --output train.de", "train.de is not a directory"),
        ("train.de train.en --output taken", "report.json: exists and does not belong"),
        ("train.de train.en --cache train.de", "train.de: cannot contain the token cache"),
        ("train.de train.en --tokens 0", "`--tokens` must be "),
        ("train.de train.en --tokens 20", "`--tokens`: a batch of 20 tokens cannot contain"),
        (
            "train.de train.en --max-length 2",
            "`--max-length`: all 120 examples are longer than 2 tokens",
        ),
        (
            "train.de train.en --vocabulary-size 999",
            "vocabulary that is learned; bytes has",
        ),
        ("train.de train.en --tokenizer sentencpiece", "neither a kind of tokenizer"),
    ],
)
def test_mistake_is_one_line_and_exit_code_2(folder, capsys, arguments, message):
    make_broken_files(folder)
    before = sorted(os.listdir(folder))
    assert run(*arguments.split()) == 2
    printed, complaint = capsys.readouterr()
    assert printed == ""
    assert complaint.startswith("keras-transformer: ")
    assert complaint.count("\n") == 1
    assert message in complaint
    assert sorted(os.listdir(folder)) == before


def test_list_formats_prints_names_extensions_and_options(capsys):
    assert main(["data", "--list-formats"]) == 0
    printed = capsys.readouterr().out
    for name in ("parallel", "conllu", "json-lines", "line-documents"):
        assert f"\n{name} " in f"\n{printed}"
    assert ".tsv, .tab" in printed
    assert "--has-header: " in printed
