"""Parsers of untrusted bytes, as functions of bytes that a fuzzer calls."""

import dataclasses
import functools
import io
import json
import pathlib
from collections.abc import Callable

from training.reliability.sealing import seal_text

SEEDS = pathlib.Path(__file__).parents[1] / "seeds"

#: Reads bytes; a `UserError` refuses them, and every other exception is a finding.
Reader = Callable[[bytes], object]


@dataclasses.dataclass(frozen=True)
class Target:
    """A parser.

    Attributes:
        title: What is parsed, for tables.
        make: Imports the parser; takes an empty directory for files and returns the reader.
        words: Words of the format, which the fuzzer inserts.
        max_bytes: Size of the largest input.
        modules: Modules whose coverage guides the fuzzer.
    """

    title: str
    make: Callable[[pathlib.Path], Reader]
    words: tuple[bytes, ...] = ()
    max_bytes: int = 4096
    modules: tuple[str, ...] = ("keras_transformer",)

    @property
    def name(self) -> str:
        """Name of the target and of the directory of its seeds."""
        return next(name for name, target in TARGETS.items() if target is self)

    def seeds(self) -> list[bytes]:
        """Returns the committed seeds in the order of their names."""
        return [path.read_bytes() for path in sorted((SEEDS / self.name).iterdir())]


class UnclearError(AssertionError):
    """Raised if the message of a refusal is not plain text on one line for each mistake."""


def attempt(read: Reader, data: bytes) -> bool:
    """Returns whether a reader accepts bytes; checks the message of a refusal.

    Raises:
        Exception: Everything but a `UserError`; these are the findings.
    """
    from keras_transformer._utils.errors import UserError

    try:
        read(data)
    except UserError as error:
        mistakes = getattr(error, "mistakes", (error,))
        for line in map(str, mistakes):
            if not line.isprintable() or not line.strip():
                raise UnclearError(f"the message is not one plain line: {line!r}") from error
        return False
    return True


def _manifest(directory: pathlib.Path) -> Reader:
    from keras_transformer.export.manifest import MANIFEST, check_files, read_manifest

    path = directory / MANIFEST
    path.parent.mkdir()
    (directory / "saved_model.pb").write_bytes(b"graph")

    def read(data: bytes) -> None:
        path.write_bytes(seal_text(data))
        check_files(directory, read_manifest(directory))

    return read


def _saved_model(directory: pathlib.Path) -> Reader:
    from keras_transformer.export.allowed_ops import check_ops
    from keras_transformer.export.entry_points import check_entry_points
    from keras_transformer.export.graph import signatures_of
    from keras_transformer.export.modules import signatures_of_kind
    from keras_transformer.export.saved_model_file import SAVED_MODEL, read_meta_graph
    from keras_transformer.export.signatures import check_signatures
    from keras_transformer.export.tokenizer_models import check_tokenizer_models

    kind = "Transformer"
    # The seed is an export of an earlier version, which has fewer signatures.
    names = ("serving_default", "n_best", "sample", "score", "attention", "encode")
    signatures = [each for each in signatures_of_kind(kind) if each.name in names]

    def read(data: bytes) -> None:
        (directory / SAVED_MODEL).write_bytes(data)
        meta_graph = read_meta_graph(directory)
        check_ops(directory, meta_graph)
        check_entry_points(directory, meta_graph)
        check_tokenizer_models(directory, meta_graph)
        check_signatures(directory, signatures_of(meta_graph), kind, signatures, names)

    return read


class _EverySum(int):
    """A checksum that fits everything, as an adversary computes checksums that fit."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = int.__hash__


def _variables_index(directory: pathlib.Path) -> Reader:
    from keras_transformer.export import variables_index

    (directory / variables_index.DATA).parent.mkdir()
    content = (SEEDS / "variables.data").read_bytes()
    (directory / variables_index.DATA).write_bytes(content)

    def read(data: bytes) -> None:
        computed = variables_index.masked_crc32c
        variables_index.masked_crc32c = lambda content: _EverySum()
        try:
            (directory / variables_index.INDEX).write_bytes(data)
            entries = variables_index.read_index(directory)
            variables_index.read_objects(directory, entries)
        finally:
            variables_index.masked_crc32c = computed

    return read


def _recipe(directory: pathlib.Path) -> Reader:
    from keras_transformer.trainer.config import Recipe
    from keras_transformer.trainer.recipe_file import read_yaml, write_yaml
    from keras_transformer.trainer.recipes import make_recipe, read_recipe_file

    path = directory / "recipe.yaml"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        recipe = make_recipe(read_recipe_file(path))
        # A run keeps its recipe in a file, which must mean the same.
        again = Recipe.from_dictionary(read_yaml(write_yaml(recipe.to_dictionary()))[0])
        if again != recipe and "nan" not in repr(recipe):
            raise AssertionError(f"written and read again: {again}, not {recipe}")

    return read


def _override(directory: pathlib.Path) -> Reader:
    from keras_transformer.trainer.recipes import load_recipe

    def read(data: bytes) -> None:
        # Arguments of a command are decoded in this way.
        load_recipe("quickstart", [data.decode("utf-8", "surrogateescape")])

    return read


def _conllu(directory: pathlib.Path) -> Reader:
    from keras_transformer.data.corpora.conllu import DependencyTree, conllu_text, read_sentences
    from keras_transformer.data.corpora.corpus import Tally
    from keras_transformer.data.corpora.file_corpus import decode_lines, unpack

    def sentences(data: bytes, encoding_errors: str, limit: int) -> list[object]:
        tally = Tally()
        stream = unpack(io.BufferedReader(io.BytesIO(data)))  # type: ignore[arg-type]
        lines = decode_lines(stream, "a.conllu", tally, encoding_errors, limit)
        found = list(read_sentences(lines, tally))
        for error in found:
            if isinstance(error, ValueError) and not str(error).isprintable():
                raise UnclearError(f"the message is not one plain line: {error}")
        return found

    def read(data: bytes) -> None:
        first = sentences(data, "error", 100_000)
        if len(data) % 8 == 0:
            sentences(data, "replace", 50)
        for tree in first:
            if isinstance(tree, DependencyTree):
                if len(tree.words) <= 500:
                    tree.distances()
                if conllu_text(tree.conllu) != tree.text:
                    raise AssertionError(f"{tree.conllu!r} has another text than {tree.text!r}")
                if not any("\0" in word for word in tree.words):
                    again = sentences(tree.conllu.encode(), "error", 100_000)
                    if again != [tree]:
                        raise AssertionError(f"written and read again: {again}, not {tree}")

    return read


def _text_corpus(extension: str, directory: pathlib.Path, **options: object) -> Reader:
    from keras_transformer.data.corpora import open_corpus

    path = directory / f"corpus{extension}"
    lenient = {"on_bad_line": "skip", "encoding_errors": "replace"}

    def read(data: bytes) -> None:
        path.write_bytes(data)
        rules = lenient if len(data) % 4 == 0 else {}
        open_corpus([path], **rules, **options).check()  # type: ignore[arg-type]

    return read


def _json_lines(directory: pathlib.Path) -> Reader:
    return _text_corpus(".jsonl", directory, keys={"source": "a", "target": "b"})


def _tokenizer(directory: pathlib.Path) -> Reader:
    from keras_transformer.text import load_tokenizer

    path = directory / "tokenizer.json"
    vocabulary = b"the\nhouse\n##s\n"
    (directory / "vocabulary.txt").write_bytes(vocabulary)

    def read(data: bytes) -> None:
        content = vocabulary if b"vocabulary.txt" in data else b""
        path.write_bytes(seal_tokenizer(data, content))
        load_tokenizer(directory)

    return read


def seal_tokenizer(description: bytes, content: bytes) -> bytes:
    """Returns the description of a tokenizer with a sha256 that fits it, if it is a JSON object."""
    from keras_transformer.text.special_ids import SpecialIds
    from keras_transformer.text.tokenizer import _hash

    try:
        values = json.loads(description)
        special_ids = SpecialIds(**values.get("special_ids", {}))
        values["sha256"] = _hash(values["name"], values["settings"], special_ids, content)
        return json.dumps(values).encode()
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return description


_TEXTS = ["ein Haus am See", "", "\ufffd ▁ \x10 the houses.", "#\u0301" * 3]


def _use(tokenizer: "object") -> None:
    """Tokenizes and restores texts."""
    ids = tokenizer.tokenize(_TEXTS)  # type: ignore[attr-defined]
    tokenizer.detokenize(ids)  # type: ignore[attr-defined]
    tokenizer.tokens(ids)  # type: ignore[attr-defined]


def _wordpiece(directory: pathlib.Path) -> Reader:
    from keras_transformer.text import SpecialIds
    from keras_transformer.text.registry import tokenizer_class

    kind = tokenizer_class("wordpiece")

    def read(data: bytes) -> None:
        _use(kind.from_bytes(data, {"lowercase": False}, SpecialIds()))

    return read


def _sentencepiece(directory: pathlib.Path) -> Reader:
    from keras_transformer.text import SpecialIds
    from keras_transformer.text.registry import tokenizer_class

    kind = tokenizer_class("sentencepiece")

    def read(data: bytes) -> None:
        _use(kind.from_bytes(data, {}, SpecialIds()))

    return read


_JSON = (b'{"', b'":', b"[]", b"{}", b"null", b"true", b"NaN", b"-Infinity", b"1e999", b"\\ud800")

#: All targets by name.
TARGETS: dict[str, Target] = {
    "manifest": Target(
        "manifest of an export (sealed)",
        _manifest,
        (
            *_JSON,
            b'"files":',
            b'"bytes":',
            b'"golden":',
            b'"kind":',
            b'"ops":',
            b'"../',
            b"\\u0000",
        ),
    ),
    "saved_model": Target(
        "saved_model.pb: structure, ops, signatures",
        _saved_model,
        (b"serve", b"WriteFile", b"__saved_model_init_op", b"local_variables", b"SaveV2", b"Const"),
        max_bytes=1 << 16,
    ),
    "variables_index": Target(
        "index of the weights (checksums fit)",
        _variables_index,
        (b"_CHECKPOINTABLE_OBJECT_GRAPH", b"embedding/.ATTRIBUTES/VARIABLE_VALUE", b"\xff\x7f"),
    ),
    "recipe": Target(
        "recipe",
        _recipe,
        (
            b"name: ",
            b"task: ",
            b"data:\n",
            b"\n  ",
            b"- ",
            b"null",
            b".inf",
            b"!!",
            b"&a",
            b"*a",
            b'"\\U',
            b"'",
            b"|",
            b">",
            b"---",
            b"? ",
            b"<<: ",
            b"1e400",
            b"[",
            b"{",
            b"training:",
        ),
        modules=("keras_transformer", "ruamel"),
    ),
    "override": Target(
        "--set KEY=VALUE",
        _override,
        (b"training.steps=", b"model.", b"data.test.", b"evaluation.search.", b"null", b".nan"),
        max_bytes=200,
        modules=("keras_transformer", "ruamel"),
    ),
    "conllu": Target(
        "CoNLL-U",
        _conllu,
        (
            b"1\ta\t_\t_\t_\t_\t0\t_\t_\t_\n",
            b"\t_\t",
            b"1-2\t",
            b"1.1\t",
            b"# ",
            b"\n\n",
            b"\r\n",
            b"\x1f\x8b",
            b"\xef\xbb\xbf",
            b"\xff\xfe",
            b"\x00",
            b"\xe2\x80\xa8",
        ),
    ),
    "tsv": Target(
        "tab-separated corpus",
        functools.partial(_text_corpus, ".tsv"),
        (b"\t", b"\n", b"\r\n", b"\xef\xbb\xbf", b"\xff\xfe", b"\x1f\x8b", b"\x00", b'"'),
    ),
    "json_lines": Target("JSON lines corpus", _json_lines, (*_JSON, b'"a":', b'"b":', b"}\n{")),
    "tokenizer": Target(
        "description of a tokenizer (sealed)",
        _tokenizer,
        (*_JSON, b'"name":', b'"settings":', b'"special_ids":', b'"version":', b'"file":'),
    ),
    "wordpiece": Target("WordPiece vocabulary", _wordpiece, (b"##", b"\n", b"\xcc\x81", b"[UNK]")),
    "sentencepiece": Target(
        "SentencePiece model",
        _sentencepiece,
        (b"<padding >", b"<unknown >", b"<start >", b"<end >", b"<0x00>", b"\xe2\x96\x81"),
        max_bytes=1 << 15,
    ),
}
