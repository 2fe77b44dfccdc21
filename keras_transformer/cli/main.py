"""`keras-transformer VERB …`: finds the verb, runs it, turns what goes wrong into exit codes."""

import argparse
import contextlib
import importlib
import os
import sys

from keras_transformer.cli.standard_streams import forget, open_closed_streams, tell
from keras_transformer.errors import UserError
from keras_transformer.version import __version__

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
    "bench",
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
