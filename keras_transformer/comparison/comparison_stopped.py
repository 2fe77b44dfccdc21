"""A comparison that was stopped, or cannot go on."""


class ComparisonStopped(Exception):  # noqa: N818
    """One of its steps has ended otherwise than well, and has told why; all else is kept.

    Attributes:
        exit_code: of that step: 2 for a mistake of the user's, 130, 143 or 129 by a signal, 1 for
            any other failure.
    """

    def __init__(self, exit_code):
        super().__init__(exit_code)
        self.exit_code = exit_code
