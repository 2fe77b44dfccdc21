"""What a training tells about itself while it runs."""


class TrainingReport:
    """Says nothing: the base of all reports, and the one for programs.

    A training calls these methods in this order: `stage` for each piece of work before the first
    update, `begin`, then `update` and `busy` in turn, and `end`. A training that fails or is
    stopped does not come to its end. `say` may be called at any time and from any thread.

    Example:

    >>> with TrainingReport() as report:
    ...     report.stage("Building the model")
    ...     report.begin("CPU, float32", first_step=0, total_steps=100, epoch_steps=50)
    ...     report.update(10, {"loss": 2.5})
    """

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def stage(self, text):
        """A piece of work before the training starts; it ends when the next thing is told."""

    def advance(self, done, total=None):
        """How far the stage, or what keeps the training busy, is; `total` if it is known."""

    def begin(self, headline, first_step, total_steps, epoch_steps):
        """The training starts.

        Args:
            headline: device, precision, size and batches in one line.
            first_step: the updates that are made already: 0, or more if the training is resumed.
            total_steps: the updates to be made, these included.
            epoch_steps: the updates of one pass over the corpus, which need not be whole.
        """

    def update(self, step, logs):
        """So many updates are made.

        Args:
            step: the number of the last one.
            logs: floats by name: "loss", "accuracy", "tokens_per_second", … What is not there is
                not shown.
        """

    def busy(self, text):
        """Something else is done between updates or after them, such as "Evaluating"."""

    def say(self, text):
        """Something to be read, now and later: what an evaluation gave, a fallback, a stop."""

    def end(self, result):
        """The training has come to its end, with a `TrainingResult`."""

    def close(self):
        """Nothing more comes; the terminal is as it was."""
