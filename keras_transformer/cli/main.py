"""Entry point of the command line: the parser of all commands, and the rendering of all errors."""

import argparse
import contextlib
import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from typing import NoReturn

from keras_transformer import __version__
from keras_transformer._utils.console import shown
from keras_transformer._utils.errors import UserError
from keras_transformer.cli.shared import forget, open_closed_streams, tell
from keras_transformer.trainer.signals import StopSignal, TrainingFailed, TrainingStopped

#: Each command is a module of this package with `SUMMARY`, `add_arguments(parser)` and
#: `run(arguments)`, which returns the exit code, or None for 0. No module imports TensorFlow before
#: `run` is called.
VERBS = (
    *("models", "import", "data", "train", "seal", "export", "sign", "verify"),
    *("translate", "evaluate", "score", "explain", "compare", "serve", "stream"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns the exit code.

    The exit code is 0 (success), 1 (failure), 2 (a mistake of the user), or 128 plus the number of
    the signal that ended the command: 130 (Ctrl-C), 143 (SIGTERM) or 129 (the terminal was closed).

    Args:
        arguments: Arguments of the command. Default: those of the process.
    """
    open_closed_streams()
    options = make_parser().parse_args(arguments)
    try:
        exit_code = options.run(options) or 0
        sys.stdout.flush()
    except UserError as error:
        exit_code = 2
        tell(f"keras-transformer: {error}")
    except TrainingStopped as stopped:
        tell(stopped)
        end_at_once(stopped.exit_code)
    except BrokenPipeError:  # the reader of standard output, such as `head`, has ended
        exit_code = 0
        forget(sys.stdout)
    except (TrainingFailed, OSError) as error:  # a loss that is not finite, a full disk
        exit_code = 1
        tell(shown(f"keras-transformer: {error}"))
    except StopSignal as stop:
        tell("Interrupted; there was nothing to save. Run the same command to resume.")
        end_at_once(stop.exit_code)
    except KeyboardInterrupt:
        end_at_once(130)
    return exit_code


def end_at_once(exit_code: int) -> NoReturn:
    """Ends the process without waiting for its threads, which may be busy in C++ code."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(exit_code)


class _Parser(argparse.ArgumentParser):
    """Parser whose messages are escaped: they quote the arguments."""

    def error(self, message: str) -> NoReturn:
        super().error(shown(message))


class _HelpFormatter(argparse.HelpFormatter):
    """Formatter that puts each command and its summary on one line."""

    def add_argument(self, action: argparse.Action) -> None:
        super().add_argument(action)
        # argparse does not count the indentation of commands when it aligns their summaries.
        self._action_max_length = max(self._action_max_length, 4 + max(map(len, VERBS)))


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line with all commands."""
    parser = _Parser(
        prog="keras-transformer",
        description="Build, train, watch and serve Transformers in TensorFlow and Keras 3.",
        epilog="`keras-transformer COMMAND --help` explains a command and its options.",
        formatter_class=_HelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    verbs = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in VERBS:
        # `import` is a keyword of Python, so it cannot be the name of a module.
        module_name = "import_model" if name == "import" else name
        module = importlib.import_module(f"keras_transformer.cli.{module_name}")
        verb = verbs.add_parser(
            name,
            help=module.SUMMARY,
            description=module.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(verb)
        verb.set_defaults(run=module.run)
    return parser


def import_tensorflow_quietly() -> None:
    """Imports TensorFlow and Keras without log lines, unless TF_CPP_MIN_LOG_LEVEL asks for them.

    C++ code writes some lines to file descriptor 2 before it reads any setting, so the descriptor
    is redirected during the import. Keras gets the TensorFlow backend, whatever is set for other
    programs, and GPU memory is allocated as it is needed.
    """
    os.environ["KERAS_BACKEND"] = "tensorflow"
    # By default a process allocates all memory of a GPU, which leaves none for replaying an export.
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    is_quiet = os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3") == "3"
    with _silent_standard_error() if is_quiet else contextlib.nullcontext():
        importlib.import_module("keras")


@contextlib.contextmanager
def _silent_standard_error() -> Iterator[None]:
    """Discards what Python or C++ code writes to file descriptor 2 inside the block."""
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(nowhere)
        os.close(kept)


if __name__ == "__main__":
    sys.exit(main())
