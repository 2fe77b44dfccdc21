"""A training that was told to stop, and has saved what it had."""


class TrainingStopped(Exception):  # noqa: N818
    """Says that everything up to an update is saved; the same command goes on from there.

    It is no error, but neither is there a result.

    Attributes:
        step: the update after which the training was saved.
        exit_code: of the process, by the signal that came: see `StopRequest.exit_code`.
    """

    def __init__(self, step, exit_code):
        super().__init__(step, exit_code)
        self.step = step
        self.exit_code = exit_code

    def __str__(self):
        return f"Saved at update {self.step:,}. The same command goes on from there."
