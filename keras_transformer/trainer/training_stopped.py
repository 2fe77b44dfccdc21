"""A training that was told to stop, and has saved what it had."""


class TrainingStopped(Exception):  # noqa: N818
    """Says that everything up to an update is saved; the same command goes on from there.

    It is no error, but neither is there a result.

    Attributes:
        step: the update after which the training was saved.
        exit_code: of the process, by the signal that came: see `StopRequest.exit_code`.
        is_dry_run: whether it was a dry run, of which nothing stays.
    """

    def __init__(self, step, exit_code, is_dry_run=False):
        super().__init__(step, exit_code, is_dry_run)
        self.step = step
        self.exit_code = exit_code
        self.is_dry_run = is_dry_run

    def __str__(self):
        if self.is_dry_run:
            return f"Stopped at update {self.step:,}. Nothing is kept of a dry run."
        return f"Saved at update {self.step:,}. The same command goes on from there."
