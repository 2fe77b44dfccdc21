"""A C program, compiled as in saved_models/README.md, gives the same answers as Python."""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tarfile

import pytest
import tensorflow as tf
import tensorflow_text

from keras_transformer.hub import load_tokenizer
from tests import phrases
from tests.export.small_export import SmallModel, save_module
from tests.fixtures.hard_strings import hard_strings

ROOT = pathlib.Path(__file__).parent.parent.parent
LIBRARIES = sorted((pathlib.Path(tensorflow_text.__file__).parent / "python/ops").glob("*.so"))


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """The path of the compiled program."""
    if shutil.which("gcc") is None:
        pytest.fail("tests/c needs gcc, which is not installed: apt install gcc libc6-dev")
    directory = phrases.shared_directory(tmp_path_factory)
    return phrases.made_once(directory, "translate", compile_program)


def compile_program(path):
    readme = (ROOT / "saved_models/README.md").read_text(encoding="utf-8")
    command = re.search(r"^gcc (?:.*\\\n)*.*", readme, re.MULTILINE)[0]
    words = shlex.split(command.replace("\\\n", "").replace("$TF", tf.sysconfig.get_lib()))
    words[words.index("-o") + 1] = str(path)
    if shutil.which("ld.gold"):  # reads half a million symbols in 2 s instead of 10 s
        words.append("-fuse-ld=gold")
    result = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""


def run(program, *arguments):
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    return subprocess.run([program, *arguments], capture_output=True, env=environment, check=False)


def assert_c_answers_like_python(program, directory, libraries, texts):
    signature = tf.saved_model.load(str(directory)).signatures["serving_default"]
    wanted = signature(text=tf.constant(texts))
    result = run(program, directory, *libraries, "--", *texts)
    assert result.returncode == 0, result.stderr.decode()
    # Texts may contain line breaks, so the output cannot be split into lines.
    lines = [rb"(-?\d+\.\d+)\t" + re.escape(text) + rb"\n" for text in wanted["text"].numpy()]
    match = re.fullmatch(b"".join(lines), result.stdout)
    assert match, (wanted["text"].numpy().tolist(), result.stdout)
    assert [float(score) for score in match.groups()] == pytest.approx(
        wanted["score"].numpy().tolist(), rel=0, abs=1e-5
    )
    return wanted["text"].numpy().tolist()


def test_c_program_answers_as_python_for_sentencepiece(program, phrases_export):
    texts = [
        *phrases.EXAMPLES,
        "fünf weiße Vögel",
        "",
        " \t\n ",
        "fünf grüne Kühe und neun weiße Vögel",
        "zwei rote Hunde " * 7_000,  # 112,000 bytes; one argument can have 128 KiB
        "Two words, и ещё несколько – 三つ 🙂.",
        b"\xff\xfe not UTF-8",
    ]
    answers = assert_c_answers_like_python(program, phrases_export / "1", LIBRARIES, texts)
    assert answers[:6] == [
        b"two red dogs",
        b"nine gray cows and three blue cats",
        b"five white birds",
        b"",
        b"",
        b"five green cows and nine white birds",
    ]


def test_c_program_runs_a_portable_export_without_libraries(program, bytes_export):
    """Its weights are stored in bfloat16; core operations suffice for that too."""
    texts = ["Grüße", "", "a" * 100_000, "x"]
    answers = assert_c_answers_like_python(program, bytes_export / "7", [], texts)
    assert answers[1] == b""
    assert len(set(answers)) > 1


def assert_fails(program, arguments, *message):
    result = run(program, *arguments)
    assert (result.returncode, result.stdout) == (2, b"")
    last_line = result.stderr.decode().splitlines()[-1]
    for part in message:
        assert part in last_line
    assert last_line.startswith("translate: ")


def test_c_program_without_libraries_names_the_missing_operation(program, phrases_export):
    directory = str(phrases_export / "1")
    message = f"translate: {directory}: Op type not registered 'Sentencepiece"
    assert_fails(program, [directory, "--", "zwei"], message)


def test_c_program_with_a_missing_directory_fails(program, tmp_path):
    directory = str(tmp_path / "nowhere")
    message = "Could not find SavedModel .pb or .pbtxt at supplied export directory path"
    assert_fails(program, [directory, "--", "zwei"], f"translate: {directory}: {message}")


def test_c_program_with_a_missing_library_fails(program, tmp_path):
    library = str(tmp_path / "text.so")
    assert_fails(
        program, [tmp_path, library, "--", "a"], f"{library}: cannot open shared object file"
    )


@pytest.mark.parametrize("arguments", [[], ["1"], ["1", "--"], ["1", "text"], ["--", "text"]])
def test_c_program_with_wrong_arguments_prints_its_usage(program, arguments):
    message = "usage: translate EXPORT_DIR [LIBRARY.so ...] -- TEXT..."
    assert_fails(program, arguments, message)


def test_c_program_with_a_signature_without_texts_fails(program, tmp_path):
    model = SmallModel()
    directory = save_module(model, tmp_path / "1", {"serving_default": model.encode})
    message = "1: serving_default must take `text` and give texts and float scores"
    assert_fails(program, [directory, "--", "guten"], message)


class Echo(tf.Module):
    """Splits texts into tokens and joins them; the score is their number."""

    def __init__(self, tokenizer):
        super().__init__()
        self.tokenizer = tokenizer

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def serve(self, text):
        ids = self.tokenizer.with_template(self.tokenizer.tokenize(text))
        return {
            "text": self.tokenizer.detokenize(ids.to_tensor(self.tokenizer.special_ids.padding)),
            "score": tf.cast(ids.row_lengths(), tf.float32),
        }


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["translation/marian", "bert/bert", "byte_pair/llama3", "sentencepiece/t5"]
)
def test_c_program_answers_as_python_for_pretrained_tokenizers(program, kind, tmp_path):
    archive, name = kind.split("/")
    with tarfile.open(ROOT / f"tests/fixtures/tokenizers/{archive}.tar.xz") as tar:
        tar.extractall(tmp_path, filter="data")
    module = Echo(load_tokenizer(tmp_path / name).source)
    tf.saved_model.save(module, str(tmp_path / "export"), signatures=module.serve)
    texts = [text for text in hard_strings(60) if "\0" not in text]  # arguments cannot have it
    assert_c_answers_like_python(program, tmp_path / "export", LIBRARIES, texts)
