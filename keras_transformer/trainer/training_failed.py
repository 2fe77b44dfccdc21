"""A training that cannot go on."""


class TrainingFailed(RuntimeError):  # noqa: N818
    """The training has failed for a reason that lies in its numbers, not in what the user gave.

    A loss that is not finite, for example. The message is one line: after which update, what
    happened, what may help. The command line prints it without a traceback and exits with code 1.
    """
