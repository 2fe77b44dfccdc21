"""Measures the speed of training and decoding on this machine, and compares other libraries.

  python -m training.benchmarks
  python -m training.benchmarks --threads 1 --what train --config base
  python -m training.benchmarks --peers DIR --rounds 3
  python -m training.benchmarks --peers DIR --what decode --contenders 'keras_transformer xla' CT
  python -m training.benchmarks --scaling --output growth
  python -m training.benchmarks --attention --lengths 512 2048 8192 --mechanisms chunked local

Run it in the project's root directory. Each measurement is a process of its own and prints one line
of JSON to standard output; tables follow on standard error.

`training/benchmarks/peers/setup.sh DIR` installs other libraries. With --peers they are measured in
turn with this package, each once per round, and the tables show how many times faster this package
is: the median over the rounds, with the smallest and the largest ratio.

Training uses the model `tiny` or `base` and batches of 4,096 tokens, padding included; the unit is
target tokens per second, padding not counted. Decoding generates 16 tokens per sentence; the unit
is sentences per second. On one thread, seconds are processor time, on several threads wall-clock
time.
The peers' data is Multi30k. Without peers, ids are random and lengths distributed like Multi30k's.

--scaling measures how time and memory of training grow with length, batch, depth, vocabulary and
corpus, and tokens per second with 1 and 2 worker processes. It writes scaling.jsonl and
scaling.png, with fitted exponents.

--attention measures how time and memory of one attention layer, forward and backward, grow with
length, by mechanism. It writes attention.jsonl and attention.png, with fitted exponents. A
mechanism ends at the length that needs too much memory.

Exit codes: 0 measured, 1 nothing could be measured, 2 a mistake in the options, 130, 143 or 129
stopped by Ctrl-C, SIGTERM or the end of the terminal.
"""

import argparse
import contextlib
import itertools
import json
import pathlib
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from keras_transformer._utils.checks import require_choice, require_integer, require_positive
from keras_transformer._utils.console import render
from keras_transformer._utils.errors import UserError
from keras_transformer._utils.process import answered_signals, available_cores
from training.benchmarks.comparison import Rounds, make_tasks, require_peers
from training.benchmarks.growth import require_output_directory, save_growth
from training.benchmarks.matrix_speed import find_peak
from training.benchmarks.processes import MeasurementError, Processes
from training.benchmarks.start_time import measure_start
from training.benchmarks.tables import draw_tables
from training.benchmarks.timing import Row
from training.benchmarks.workload import require_data

WHAT = ("train", "decode", "start")
USUAL = ("train", "decode")
CONFIGS = ("tiny", "base")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code.

    Args:
        arguments: the command's arguments. Default: those of this process.
    """
    options = make_parser().parse_args(arguments)
    try:
        with answered_signals((signal.SIGTERM, signal.SIGHUP), _exit_by_signal):
            exit_code = run(options)
        sys.stdout.flush()
    except UserError as error:
        tell(f"benchmarks: {error}")
        return 2
    except (MeasurementError, OSError) as error:
        tell(f"benchmarks: {error}")
        return 1
    except KeyboardInterrupt:
        return 130
    return exit_code


def _exit_by_signal(number: int) -> None:
    # `subprocess.run` kills the measuring process when an exception passes through it.
    sys.exit(128 + number)


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command's options."""
    parser = argparse.ArgumentParser(
        prog="python -m training.benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--what",
        nargs="+",
        choices=(*WHAT, "all"),
        default=list(USUAL),
        help=f"default: {' '.join(USUAL)}",
    )
    parser.add_argument("--config", choices=CONFIGS, default="tiny", help="default: %(default)s")
    parser.add_argument(
        "--threads", type=int, metavar="N", help="number of cores and threads (default: all cores)"
    )
    parser.add_argument(
        "--peers",
        metavar="DIR",
        help="directory filled by training/benchmarks/peers/setup.sh",
    )
    parser.add_argument(
        "--contenders",
        nargs="+",
        metavar="NAME",
        help="names of contenders, or parts of names (default: all)",
    )
    parser.add_argument(
        "--rounds",
        type=int,
        metavar="N",
        default=1,
        help="measurements of each contender (default: 1)",
    )
    parser.add_argument(
        "--repeats",
        type=int,
        metavar="N",
        default=3,
        help="repeats of the timed work in a measurement (default: 3)",
    )
    parser.add_argument(
        "--data",
        metavar="DIR",
        help="directory with train.npz and test.npz (default: the peers', or random ids)",
    )
    training = parser.add_argument_group("training")
    training.add_argument(
        "--batches", type=int, metavar="N", default=6, help="batches of a repeat (default: 6)"
    )
    training.add_argument(
        "--peak",
        type=float,
        metavar="GFLOPS",
        help="matrix-multiply peak of the machine (default: measured first)",
    )
    decoding = parser.add_argument_group("decoding")
    decoding.add_argument(
        "--batch-sizes",
        nargs="+",
        type=int,
        metavar="N",
        default=[32, 1],
        help="default: 32 1",
    )
    decoding.add_argument(
        "--beams", nargs="+", type=int, metavar="N", default=[1, 4], help="default: 1 4"
    )
    decoding.add_argument(
        "--sentences",
        type=int,
        metavar="N",
        help="maximum number of sentences (default: 100 to 1,000)",
    )
    growth = parser.add_argument_group("growth of cost")
    curves = growth.add_mutually_exclusive_group()
    curves.add_argument("--scaling", action="store_true", help="measure how training scales")
    curves.add_argument("--attention", action="store_true", help="measure how attention scales")
    growth.add_argument(
        "--lengths",
        nargs="+",
        type=int,
        metavar="N",
        help="numbers of tokens for --attention (default: 512, 1024, … 16384)",
    )
    growth.add_argument(
        "--mechanisms",
        nargs="+",
        metavar="NAME",
        help="registered names for --attention (default: full and efficient attention)",
    )
    growth.add_argument(
        "--output",
        metavar="DIR",
        help="directory for rows and picture (default: ./scaling or ./attention)",
    )
    start = parser.add_argument_group("start")
    start.add_argument("--model", metavar="DIR", help="an export (default: one is made)")
    # For the command itself: one measurement in this process.
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    return parser


def run(options: argparse.Namespace) -> int:
    """Measures what the options say and returns the exit code."""
    if options.measure:
        print_measurement(*options.measure)
        return 0
    require_sensible(options)
    cores = len(available_cores())
    options.threads = options.threads or cores
    if options.threads > cores:
        raise UserError(f"--threads is {options.threads}, but there are {cores} cores.")
    if options.scaling:
        return measure_scaling(options)
    if options.attention:
        return measure_attention_growth(options)
    return compare(options)


def require_sensible(options: argparse.Namespace) -> None:
    """Raises a `UserError` if a number is out of range."""
    for name in ("rounds", "repeats", "batches", "threads", "sentences"):
        if (value := getattr(options, name)) is not None:
            require_integer(f"--{name}", value, minimum=1)
    for name in ("batch_sizes", "beams", "lengths"):
        for value in getattr(options, name) or ():
            require_integer(f"--{name.replace('_', '-')}", value, minimum=1)
    if options.peak is not None:
        require_positive("--peak", options.peak)


def compare(options: argparse.Namespace) -> int:
    """Measures all contenders in turn and returns the exit code."""
    peers = None if options.peers is None else require_peers(options.peers)
    data = options.data if peers is None or options.data else peers / "data"
    if data is not None:
        data = require_data(data)
    kinds = WHAT if "all" in options.what else tuple(dict.fromkeys(options.what))
    tasks = make_tasks(
        [kind for kind in kinds if kind != "start"],
        options.config,
        batch_sizes=options.batch_sizes,
        beams=options.beams,
        sentences=options.sentences,
        with_peers=peers is not None,
        names=options.contenders,
    )
    processes = Processes(options.threads)
    rows = []
    with tempfile.TemporaryDirectory(prefix="keras_transformer_") as work:
        rounds = Rounds(
            tasks=tasks,
            processes=processes,
            work=pathlib.Path(work),
            peers=peers,
            data=data,
            count=options.rounds,
            batches=options.batches,
            repeats=options.repeats,
            peak=_choose_peak(options, processes, peers) if "train" in kinds else None,
            report=report_progress,
            warn=tell,
        )
        starts = _start_rows(options, rounds) if "start" in kinds else ()
        for row in itertools.chain(rounds.rows(), starts):
            print(json.dumps(row), flush=True)
            rows.append(row)
    tell(render(lambda console: draw_tables(console, rows), sys.stderr, plain_width=120))
    return 0 if rows else 1


def _choose_peak(
    options: argparse.Namespace, processes: Processes, peers: pathlib.Path | None
) -> float:
    """Returns the matrix-multiply peak in GFLOP/s, measured if it was not given."""
    if options.peak is not None:
        return options.peak
    report_progress("Measuring the matrix-multiply peak")
    row = find_peak(processes, peers, warn=tell)
    print(json.dumps(row), flush=True)
    return row["value"]


def _start_rows(options: argparse.Namespace, rounds: Rounds) -> Iterator[Row]:
    """Yields the rows of `measure_start`, round by round."""
    export = options.model or rounds.write_decoder(
        config=options.config, beams=4, kind="strings", xla=False
    )
    for number in range(1, options.rounds + 1):
        report_progress(f"Round {number} of {options.rounds}: start")
        for row in measure_start(export, rounds.processes, options.repeats, options.config):
            yield {**row, "round": number}


def measure_scaling(options: argparse.Namespace) -> int:
    """Measures how the cost of training grows and returns the exit code."""
    from training.benchmarks import training_growth

    output = require_output_directory(options.output or "scaling")
    measured = itertools.chain(
        training_growth.measure_curves(
            Processes(options.threads), options.repeats, report=report_progress, warn=tell
        ),
        training_growth.measure_workers(
            options.batches, options.repeats, report=report_progress, warn=tell
        ),
    )
    title = f"Growth of the cost of training tiny, {_name_threads(options.threads)}"
    is_measured = save_growth(
        output,
        "scaling",
        measured,
        training_growth.fit_curves,
        lambda rows: training_growth.draw_training_growth(rows, title),
        report=tell,
    )
    return 0 if is_measured else 1


def measure_attention_growth(options: argparse.Namespace) -> int:
    """Measures how the cost of attention grows and returns the exit code."""
    from training.benchmarks import attention_growth

    mechanisms = require_mechanisms(options.mechanisms or attention_growth.USUAL_MECHANISMS)
    output = require_output_directory(options.output or "attention")
    measured = attention_growth.measure_growth(
        Processes(options.threads),
        options.repeats,
        mechanisms,
        options.lengths or attention_growth.LENGTHS,
        report=report_progress,
        warn=tell,
    )
    title = f"Growth of the cost of attention, {_name_threads(options.threads)}"
    is_measured = save_growth(
        output,
        "attention",
        measured,
        attention_growth.fit_growth,
        lambda rows: attention_growth.draw_growth(rows, title),
        report=tell,
    )
    return 0 if is_measured else 1


def require_mechanisms(names: Sequence[str]) -> Sequence[str]:
    """Returns the names if all are registered attention mechanisms."""
    from keras_transformer.cli.main import import_tensorflow_quietly

    import_tensorflow_quietly()
    from keras_transformer.layers import MECHANISMS

    for name in names:
        require_choice("--mechanisms", name, MECHANISMS)
    return names


def _name_threads(count: int) -> str:
    return f"{count} thread{'s' if count > 1 else ''}"


def print_measurement(name: str, settings: str) -> None:
    """Measures in this process and prints the row of JSON, if there is one."""
    from keras_transformer._utils.process import prepare_process, use_onednn

    if name in ("train", "step", "preparation", "worker"):
        prepare_process()  # as `keras-transformer train` does
    elif name == "attention":
        use_onednn()  # freed memory is kept only after memory has been measured
    row = measure(name, json.loads(settings))
    if row is not None:
        print(json.dumps(row))


def measure(name: str, settings: Mapping[str, Any]) -> Row | None:
    """Measures in this process, or writes a model to be measured; returns the row, if any.

    Args:
        name: name of the measurement.
        settings: its keyword arguments.
    """
    from training.benchmarks.attention_growth import measure_attention
    from training.benchmarks.decoding_speed import measure_decoding, write_decoder
    from training.benchmarks.matrix_speed import measure_peak
    from training.benchmarks.training_growth import (
        measure_preparation,
        measure_step,
        measure_worker,
    )
    from training.benchmarks.training_speed import measure_training

    measurements = {
        "train": measure_training,
        "decode": measure_decoding,
        "write_decoder": write_decoder,
        "peak": measure_peak,
        "step": measure_step,
        "preparation": measure_preparation,
        "worker": measure_worker,
        "attention": measure_attention,
    }
    return measurements[name](**settings)


def tell(text: str) -> None:
    """Writes a line to standard error; a closed standard error is ignored."""
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)


def report_progress(text: str) -> None:
    """Writes what is being measured to standard error if it is a terminal."""
    with contextlib.suppress(OSError):
        if sys.stderr.isatty():
            print(f"{text} …", file=sys.stderr, flush=True)
