"""Measures how fast training and decoding are on this machine, alone or beside others.

  keras-transformer bench
  keras-transformer bench --threads 1 --what train --config base
  keras-transformer bench --peers DIR --rounds 3
  keras-transformer bench --peers DIR --what decode --contenders 'keras_transformer xla' CTrans
  keras-transformer bench --scaling --output growth
  keras-transformer bench --attention --lengths 512 2048 8192 --mechanisms chunked local

Each measurement is a process of its own and one line of JSON on standard output, of the form that
the peers' scripts print; tables follow on standard error. With --peers those scripts run in turn
with ours, one measurement of each contender a round, and the tables tell how many times faster ours
are: the median over the rounds, with the least and the most.

Training is `tiny` or `base` on batches of 4,096 tokens, padding included, in target tokens that are
not padding. Decoding gives sentences, 16 tokens each. On one thread rates are per second of the
processor, on several by the clock. The peers' data is Multi30k; without them ids are drawn whose
lengths are distributed like its, so that nothing has to be there.

--scaling measures instead how time and memory of training grow with length, batch, depth,
vocabulary and corpus, and tokens per second with 1 and 2 worker processes: scaling.jsonl and
scaling.png, with fitted exponents.

--attention measures how time and memory of one attention layer, forward and backward, grow with
length, mechanism by mechanism: attention.jsonl and attention.png, with fitted exponents. Full
attention goes as far as memory does.
"""

import argparse
import json
import pathlib
import signal
import sys
import tempfile

from keras_transformer._utils.checks import require_positive
from keras_transformer._utils.errors import UserError
from keras_transformer._utils.process import answered_signals
from keras_transformer.cli.text_input import require_whole_numbers
from keras_transformer.cli.text_output import tell
from training.benchmarks.growth_curves import (
    draw_attention_growth,
    draw_training_growth,
    tell_who_waits,
)

SUMMARY = "measure the speed of training and decoding"

WHAT = ("train", "decode", "start")
USUAL = ("train", "decode")
CONFIGS = ("tiny", "base")
# Measurements of what the verb `train` does.
TRAINING = ("train", "step", "preparation", "worker")


def add_arguments(parser):
    parser.add_argument(
        "--what",
        nargs="+",
        choices=(*WHAT, "all"),
        default=list(USUAL),
        help=f"default: {' '.join(USUAL)}",
    )
    parser.add_argument("--config", choices=CONFIGS, default="tiny", help="default: %(default)s")
    parser.add_argument(
        "--threads", type=int, metavar="N", help="cores and threads (default: all there are)"
    )
    parser.add_argument(
        "--peers", metavar="DIR", help="the folder that the peers' setup.sh has filled"
    )
    parser.add_argument(
        "--contenders",
        nargs="+",
        metavar="NAME",
        help="only these; a whole name stands for itself, a part for all that have it",
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
        help="how often a measurement times the same work (default: 3)",
    )
    parser.add_argument(
        "--data",
        metavar="DIR",
        help="where train.npz and test.npz are (default: the peers', or drawn at random)",
    )
    training = parser.add_argument_group("training")
    training.add_argument(
        "--batches", type=int, metavar="N", default=6, help="batches of a repeat (default: 6)"
    )
    training.add_argument(
        "--peak",
        type=float,
        metavar="GFLOPS",
        help="the machine's matrix-multiply peak, if it is known (default: measured first)",
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
        "--sentences", type=int, metavar="N", help="so many at most (default: 100 to 1,000)"
    )

    growth = parser.add_argument_group("how cost grows")
    curves = growth.add_mutually_exclusive_group()
    curves.add_argument("--scaling", action="store_true", help="draw curves, compare nothing")
    curves.add_argument("--attention", action="store_true", help="draw those of attention alone")
    growth.add_argument(
        "--lengths",
        nargs="+",
        type=int,
        metavar="N",
        help="tokens, for --attention (default: 512 to 16384, twice as many each time)",
    )
    growth.add_argument(
        "--mechanisms",
        nargs="+",
        metavar="NAME",
        help="registered names, for --attention (default: full attention and those that save)",
    )
    growth.add_argument(
        "--output",
        metavar="DIR",
        help="where rows and picture go (default: ./scaling or ./attention)",
    )
    # For itself: one measurement in this process.
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    start = parser.add_argument_group("start")
    start.add_argument(
        "--model", metavar="DIR", help="an export (default: one that is made for the purpose)"
    )


def run(arguments):
    if arguments.measure:
        print_measurement(*arguments.measure)
        return 0
    from keras_transformer._utils.process import available_cores
    from training.benchmarks.processes import MeasurementError

    require_sensible(arguments)
    cores = len(available_cores())
    arguments.threads = arguments.threads or cores
    if arguments.threads > cores:
        raise UserError(f"--threads is {arguments.threads}; cores to run on: {cores}.")
    try:
        with answered_signals((signal.SIGTERM, signal.SIGHUP), interrupt):
            if arguments.scaling:
                return draw_training_growth(arguments)
            return draw_attention_growth(arguments) if arguments.attention else compare(arguments)
    except MeasurementError as error:
        tell(f"keras-transformer: {error}")
        return 1


def interrupt(number):
    """Ends this process as Ctrl-C does, and with it the measurement that it waits for."""
    as_ctrl_c = KeyboardInterrupt()
    as_ctrl_c.exit_code = 128 + number
    raise as_ctrl_c


def print_measurement(what, settings):
    """Measures in this process; prints the row of JSON, if there is one."""
    from keras_transformer._utils.process import prepare_process, use_onednn
    from keras_transformer.cli.main import import_tensorflow_quietly

    if what in TRAINING:
        prepare_process()  # as `train` does
    elif what == "attention":
        use_onednn()  # it keeps freed memory later, since memory is measured first
    import_tensorflow_quietly()
    from training.benchmarks.measure import measure

    row = measure(what, json.loads(settings))
    if row is not None:
        print(json.dumps(row))


def require_sensible(arguments):
    """Raises a `UserError` for numbers that cannot be."""
    require_whole_numbers(arguments, 1, "rounds", "repeats", "batches", "threads", "sentences")
    for name in ("batch_sizes", "beams", "lengths"):
        least = min(getattr(arguments, name) or [1])
        if least < 1:
            option = "--" + name.replace("_", "-")
            raise UserError(f"{option} must be whole numbers of at least 1; got {least}.")
    if arguments.peak is not None:
        try:
            require_positive("--peak", arguments.peak)
        except ValueError as error:
            raise UserError(str(error)) from error


def compare(arguments):
    """Measures all contenders in turn; returns the exit code."""
    from training.benchmarks.cells import make_cells
    from training.benchmarks.comparison import Comparison, require_peers
    from training.benchmarks.processes import Processes
    from training.benchmarks.workload import require_data

    peers = None if arguments.peers is None else require_peers(arguments.peers)
    data = arguments.data if peers is None or arguments.data else peers / "data"
    if data is not None:
        data = require_data(data)
    tasks = WHAT if "all" in arguments.what else tuple(dict.fromkeys(arguments.what))
    cells = make_cells(
        [task for task in tasks if task != "start"],
        arguments.config,
        batch_sizes=arguments.batch_sizes,
        beams=arguments.beams,
        sentences=arguments.sentences,
        with_peers=peers is not None,
        wanted=arguments.contenders,
    )
    processes = Processes(arguments.threads)
    rows = []

    def note(row):
        print(json.dumps(row), flush=True)
        rows.append(row)

    with tempfile.TemporaryDirectory(prefix="keras_transformer_") as work:
        comparison = Comparison(
            cells=cells,
            processes=processes,
            work=pathlib.Path(work),
            peers=peers,
            data=data,
            rounds=arguments.rounds,
            batches=arguments.batches,
            repeats=arguments.repeats,
            peak=choose_peak(arguments, tasks, processes, peers),
            say=tell_who_waits,
            warn=tell,
        )
        for row in comparison.rows():
            note(row)
        if "start" in tasks:
            for row in start_rows(arguments, comparison):
                note(row)
    print_tables(rows)
    return 0 if rows else 1


def start_rows(arguments, comparison):
    """Yields the rows of both ways to a first line, round by round."""
    from training.benchmarks.start_measurement import measure_start

    export = arguments.model or comparison.write_decoder(
        config=arguments.config, beams=4, kind="strings", xla=False
    )
    for number in range(1, arguments.rounds + 1):
        tell_who_waits(f"Round {number} of {arguments.rounds}: start")
        rows = measure_start(export, comparison.processes, arguments.repeats, arguments.config)
        for row in rows:
            yield {**row, "round": number}


def choose_peak(arguments, tasks, processes, peers):
    """The matrix-multiply peak in GFLOP/s, measured if it was not given; None if not needed."""
    from training.benchmarks.peak import find_peak

    if arguments.peak is not None or "train" not in tasks:
        return arguments.peak
    tell_who_waits("Measuring the matrix-multiply peak")
    row = find_peak(processes, peers, warn=tell)
    print(json.dumps(row), flush=True)
    return row["value"]


def print_tables(rows):
    """Prints a table for each task to standard error."""
    from rich.console import Console

    from training.benchmarks.ratio_table import make_tables

    console = Console(file=sys.stderr, highlight=False, width=None if sys.stderr.isatty() else 120)
    # Printed in one piece by Python itself: at a closed pipe, rich would end the process with 1.
    with console.capture() as capture:
        for table in make_tables(rows):
            console.print(table)
    tell(capture.get())
