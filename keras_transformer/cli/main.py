"""`keras-transformer VERB …`: finds the verb, runs it, turns what goes wrong into exit codes."""

import argparse
import importlib
import os
import sys

from keras_transformer.errors import UserError
from keras_transformer.version import __version__

#: Each is a module beside this one, with SUMMARY, `add_arguments(parser)` and `run(arguments)`.
#: None of them may import TensorFlow before `run`.
VERBS = ("models", "data", "export", "verify", "translate", "evaluate", "score")


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
    """Returns the exit code: 0, 1 (failed), 2 (the user's mistake) or 130 (Ctrl-C)."""
    arguments = make_parser().parse_args(arguments)
    try:
        arguments.run(arguments)
        sys.stdout.flush()
    except UserError as error:
        print(f"keras-transformer: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader, `head` say, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:  # a full disk, a network drive that has gone
        print(f"keras-transformer: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        # At once: what had to be tidied up has been, and a thread may still be busy in C++.
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(130)
    return 0


if __name__ == "__main__":
    sys.exit(main())
