"""`keras-transformer VERB …`: finds the verb, runs it, turns what goes wrong into exit codes."""

import argparse
import contextlib
import importlib
import os
import sys

from keras_transformer import __version__
from keras_transformer._utils.errors import UserError
from keras_transformer.cli.text_output import forget, open_closed_streams, tell


def import_tensorflow_quietly():
    """Imports TensorFlow and Keras without a word, unless the user has asked for their log.

    Most lines stop at `TF_CPP_MIN_LOG_LEVEL=3`; some are written to file descriptor 2 by C++ code
    before any setting is read, so it is pointed elsewhere during the import alone. Keras gets the
    backend that the package needs, whatever is set for other programs, and a GPU's memory is taken
    as it is needed.
    """
    os.environ["KERAS_BACKEND"] = "tensorflow"
    # By default a process takes a GPU's whole memory, and a replay of its export would find none.
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    is_quiet = os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3") == "3"
    with silent_standard_error() if is_quiet else contextlib.nullcontext():
        importlib.import_module("keras")


@contextlib.contextmanager
def silent_standard_error():
    """What is written to file descriptor 2 inside, by Python or by C++, is lost."""
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


#: Each is a module beside this one, with SUMMARY, `add_arguments(parser)` and `run(arguments)`,
#: which returns an exit code if that is not 0. None may import TensorFlow before `run`.
VERBS = (
    "models",
    "data",
    "train",
    "export",
    "verify",
    "translate",
    "evaluate",
    "score",
    "explain",
    "compare",
)


class HelpOfVerbs(argparse.HelpFormatter):
    """Puts the longest verb and its summary on one line, as all the others."""

    def add_argument(self, action):
        super().add_argument(action)
        # argparse forgets that verbs are indented when it looks for the longest.
        self._action_max_length = max(self._action_max_length, 4 + max(map(len, VERBS)))


def make_parser():
    parser = argparse.ArgumentParser(
        prog="keras-transformer",
        description="Build, train, watch and serve Transformers in TensorFlow and Keras 3.",
        epilog="`keras-transformer VERB --help` tells all about a verb.",
        formatter_class=HelpOfVerbs,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for name in VERBS:
        module = importlib.import_module(f"keras_transformer.cli.{name}")
        verb = verbs.add_parser(
            name,
            help=module.SUMMARY,
            description=module.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(verb)
        verb.set_defaults(run=module.run)
    return parser


def main(arguments=None):
    """Returns the exit code.

    It is 0, 1 (failed), 2 (the user's mistake), or by the signal that came: 130 (Ctrl-C), 143
    (SIGTERM) or 129 (the terminal is gone).
    """
    open_closed_streams()
    arguments = make_parser().parse_args(arguments)
    exit_code = 0
    try:
        exit_code = arguments.run(arguments) or 0
        sys.stdout.flush()
    except UserError as error:
        exit_code = 2
        tell(f"keras-transformer: {error}")
    except BrokenPipeError:  # the reader, `head` say, has had enough
        forget(sys.stdout)
    except OSError as error:  # a full disk, a network drive that has gone
        exit_code = 1
        tell(f"keras-transformer: {error}")
    except KeyboardInterrupt as interrupt:
        # At once: what had to be tidied up has been, and a thread may still be busy in C++.
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError):
                stream.flush()
        # The trainer's says by which signal it came.
        os._exit(getattr(interrupt, "exit_code", 130))
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
