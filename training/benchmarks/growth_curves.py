"""What the verb `bench` does when it draws curves: measures, prints, fits, draws."""

import contextlib
import itertools
import json
import logging
import pathlib
import sys

from keras_transformer._utils.checks import require_choice
from keras_transformer._utils.errors import UserError
from keras_transformer.cli.text_output import tell


def draw_training_growth(arguments):
    """Measures how the cost of training grows, writes rows and picture; returns the exit code."""
    from training.benchmarks.processes import Processes
    from training.benchmarks.scaling import fit_curves, measure_curves, measure_workers
    from training.benchmarks.scaling_picture import draw_scaling

    output = require_output_directory(arguments.output or "scaling")
    processes = Processes(arguments.threads)
    measured = itertools.chain(
        measure_curves(processes, arguments.repeats, say=tell_who_waits, warn=tell),
        measure_workers(arguments.batches, arguments.repeats, say=tell_who_waits, warn=tell),
    )
    title = f"How the cost of training tiny grows, {name_threads(arguments.threads)}"
    return keep(output, "scaling", measured, fit_curves, lambda rows: draw_scaling(rows, title))


def draw_attention_growth(arguments):
    """Measures how the cost of attention grows, writes rows and picture; returns the exit code."""
    from training.benchmarks.attention import LENGTHS, USUAL_MECHANISMS, fit_growth, measure_growth
    from training.benchmarks.attention_picture import draw_growth
    from training.benchmarks.processes import Processes

    mechanisms = require_mechanisms(arguments.mechanisms or USUAL_MECHANISMS)
    output = require_output_directory(arguments.output or "attention")
    measured = measure_growth(
        Processes(arguments.threads),
        arguments.repeats,
        mechanisms,
        arguments.lengths or LENGTHS,
        say=tell_who_waits,
        warn=tell,
    )
    title = f"How the cost of attention grows, {name_threads(arguments.threads)}"
    return keep(output, "attention", measured, fit_growth, lambda rows: draw_growth(rows, title))


def keep(output, name, measured, fit, draw):
    """Prints rows as they come; writes them, their fits and their picture. Returns the exit code.

    Args:
        output: the directory.
        name: of the files, before their endings.
        measured: an iterable of rows.
        fit: a function from them to more rows.
        draw: a function from them to the bytes of a picture.
    """
    from keras_transformer._utils.files import atomic_file

    # Otherwise it speaks up when it has no directory of its own, or looks for fonts.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    rows = []
    for row in measured:
        print(json.dumps(row), flush=True)
        rows.append(row)
    if not rows:
        return 1
    fits = fit(rows)
    for row in fits:
        print(json.dumps(row), flush=True)
    table, picture = (output / f"{name}.{ending}" for ending in ("jsonl", "png"))
    with atomic_file(table) as file:
        file.writelines(json.dumps(row) + "\n" for row in rows + fits)
    with atomic_file(picture, "wb") as file:
        file.write(draw(rows))
    tell(f"Saved: {table} and {picture}")
    return 0


def require_mechanisms(names):
    """Returns the names if all are registered."""
    from keras_transformer.cli.main import import_tensorflow_quietly

    import_tensorflow_quietly()
    from keras_transformer.layers import MECHANISMS

    for name in names:
        try:
            require_choice("--mechanisms", name, MECHANISMS)
        except ValueError as error:
            raise UserError(str(error)) from error
    return names


def name_threads(count):
    return f"{count} thread{'s' if count > 1 else ''}"


def require_output_directory(path):
    """Returns the directory, made if it was not there."""
    path = pathlib.Path(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--output {path}: cannot be a directory: {error.strerror}.") from error
    return path


def tell_who_waits(text):
    """Tells a person at a terminal what is being done; a file or a pipe is not told."""
    with contextlib.suppress(OSError):
        if sys.stderr.isatty():
            print(f"{text} …", file=sys.stderr, flush=True)
