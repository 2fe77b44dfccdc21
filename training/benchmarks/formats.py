"""Compares the export formats of a trained model: size, memory, load time, speed and quality.

  python -m training.benchmarks.formats runs/dates --sources test.src --references test.ref
  python -m training.benchmarks.formats runs/dates --sources test.src --beams 4 --threads 2

Run it in the project's root directory. The run is exported in each format, and each export is
loaded in a process of its own, always on the same cores, with the runtime of the format alone. A
table in Markdown follows on standard output, and lines of JSON if you add --json.

Load is the time to load the export, without importing the runtime. Memory is the peak of the whole
process. Sentences per second are texts to texts, on one thread by processor time, on several by the
clock. Quality is BLEU with --references, and the number of texts that are not those of the first
export. With more than one beam, ONNX is left out: its program has greedy search alone.
"""

import argparse
import json
import pathlib
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

from keras_transformer._utils.errors import UserError
from training.benchmarks.command import tell
from training.benchmarks.processes import MeasurementError, Processes
from training.benchmarks.timing import Row

#: The exports: format, and settings other than the search.
EXPORTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("saved_model", {}),
    ("saved_model", {"signatures": ["translate"]}),
    ("saved_model", {"signatures": ["translate"], "weights": "int8"}),
    ("ctranslate2", {}),
    ("ctranslate2", {"weights": "float16"}),
    ("ctranslate2", {"weights": "int8"}),
    ("litert", {}),
    ("litert", {"weights": "float16"}),
    ("litert", {"weights": "int8"}),
    ("onnx", {}),
)
COLUMNS = ("format", "size", "memory", "load", "batch 1", "batch 32", "BLEU", "texts changed")

# Measures an export with its runtime alone: directory, number of texts for batches of 1, and the
# file of the texts.
_MEASURE = r"""
import json, os, pathlib, re, sys, time
directory, few, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
texts = pathlib.Path(path).read_bytes().split(b"\n")
threads = int(os.environ["THREADS"])
if os.path.exists(os.path.join(directory, "run.py")):
    sys.path.insert(0, directory)
    import run
    name = {"Interpreter": "num_threads", "onnxruntime": "num_threads"}
    known = next((name[each] for each in name if hasattr(run, each)), "intra_threads")
    start = time.perf_counter()
    model = run.Model(directory, **{known: threads})
    load = time.perf_counter() - start
    answer = lambda batch: model.generate(batch, with_scores=False)["text"]
else:
    import tensorflow as tf
    import tensorflow_text
    start = time.perf_counter()
    signatures = tf.saved_model.load(directory).signatures
    load = time.perf_counter() - start
    answer = lambda batch: signatures["serving_default"](text=tf.constant(batch))["text"].numpy()
clock = time.process_time if threads == 1 else time.perf_counter
def rate(size, texts):
    batches = [texts[i : i + size] for i in range(0, len(texts), size)]
    answer(batches[0])
    start = clock()
    found = [text for batch in batches for text in answer(batch)]
    return len(texts) / (clock() - start), found
one, _ = rate(1, texts[:few])
many, found = rate(32, texts)
# Not the resource usage, which remembers the memory of the process that started this one.
status = pathlib.Path("/proc/self/status").read_text()
peak = int(re.search(r"VmHWM:\s*(\d+) kB", status)[1])
print(json.dumps({
    "load_seconds": load, "batch_1": one, "batch_32": many,
    "memory_mb": peak / 1024,
    "texts": [text.decode("utf-8", "replace") for text in found],
}))
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code.

    Args:
        arguments: the command's arguments. Default: those of this process.
    """
    options = make_parser().parse_args(arguments)
    try:
        rows = list(measure_formats(options))
    except (UserError, MeasurementError, OSError) as error:
        tell(f"benchmarks: {error}")
        return 2 if isinstance(error, UserError) else 1
    for row in rows if options.json else ():
        print(json.dumps(row))
    print(as_markdown(rows))
    return 0 if rows else 1


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command's options."""
    parser = argparse.ArgumentParser(
        prog="python -m training.benchmarks.formats",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("run", help="the directory of a training run")
    add("--sources", required=True, metavar="FILE", help="source texts, one a line")
    add("--references", metavar="FILE", help="as many translations, for BLEU")
    add("--formats", nargs="+", metavar="NAME", help="formats to measure (default: all)")
    add("--beams", type=int, default=1, metavar="N", help="default: 1, greedy search")
    add("--threads", type=int, default=1, metavar="N", help="cores and threads (default: 1)")
    add("--few", type=int, default=100, metavar="N", help="texts at batch 1 (default: 100)")
    add("--json", action="store_true", help="print a line of JSON for each export as well")
    return parser


def measure_formats(options: argparse.Namespace) -> Iterator[Row]:
    """Yields a row for each export; what a format cannot express is reported and left out."""
    from keras_transformer.cli.main import import_tensorflow_quietly

    import_tensorflow_quietly()
    from keras_transformer.export import TrainedModel, export_model
    from keras_transformer.metrics import TEXT_METRICS

    trained, processes = TrainedModel.load(options.run), Processes(options.threads)
    sources = pathlib.Path(options.sources).read_bytes().rstrip(b"\n")
    references = None
    if options.references is not None:
        lines = pathlib.Path(options.references).read_text(encoding="utf-8").rstrip("\n")
        references = lines.split("\n")
        if len(references) != len(sources.split(b"\n")):
            raise UserError("needs as many lines as the sources.", where=options.references)
    search = trained.search_settings(beams=options.beams)
    first: list[str] | None = None
    with tempfile.TemporaryDirectory(prefix="keras_transformer_") as work:
        texts = pathlib.Path(work, "sources.txt")
        texts.write_bytes(sources)
        for number, (name, settings) in enumerate(EXPORTS):
            if options.formats is not None and name not in options.formats:
                continue
            if name == "onnx" and options.beams > 1:
                continue
            title = " ".join([name, *map(_shown, settings.values())])
            to = pathlib.Path(work, str(number), "model")
            try:
                path = export_model(trained, to, name, search=search, **settings)
            except (UserError, RuntimeError) as error:
                tell(f"{title} is left out: {error}")
                continue
            command = [sys.executable, "-c", _MEASURE, str(path), str(options.few), str(texts)]
            (row,) = processes.run(command)
            found = row.pop("texts")
            first = found if first is None else first
            files = [each for each in path.rglob("*") if each.is_file()]
            row |= {
                "format": title,
                "threads": options.threads,
                "beams": options.beams,
                "bytes": sum(each.stat().st_size for each in files),
                "texts_changed": sum(a != b for a, b in zip(first, found, strict=True)),
                "bleu": None,
            }
            if references is not None:
                row["bleu"] = TEXT_METRICS["bleu"].compute(found, references)
            yield row


def as_markdown(rows: Sequence[Row]) -> str:
    """Returns a table of the rows in Markdown."""
    lines = [COLUMNS, ["---"] * len(COLUMNS)]
    for row in rows:
        bleu = "–" if row["bleu"] is None else f"{row['bleu']:.2f}"
        lines.append(
            [
                row["format"],
                f"{row['bytes'] / 1e6:.1f} MB",
                f"{row['memory_mb']:,.0f} MB",
                f"{row['load_seconds']:.2f} s",
                f"{row['batch_1']:,.0f}",
                f"{row['batch_32']:,.0f}",
                bleu,
                str(row["texts_changed"]),
            ]
        )
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _shown(setting: Any) -> str:
    return f"({', '.join(setting)})" if isinstance(setting, list) else str(setting)


if __name__ == "__main__":
    sys.exit(main())
