"""What a training has come to, in a few tables, and where everything is."""

import shlex

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from keras_transformer._utils.console import shown

# Metrics by the names that logs have for them: a heading and a format.
_METRIC_FORMATS = {
    "loss": ("loss", "{:.4f}"),
    "accuracy": ("accuracy", "{:.1%}"),
    "perplexity": ("perplexity", "{:,.2f}"),
    "bleu": ("BLEU", "{:.2f}"),
    "chrf": ("chrF", "{:.2f}"),
    "exact_match": ("exact match", "{:.1%}"),
    "tokens_per_second": ("tokens/s", "{:,.0f}"),
    "learning_rate": ("learning rate", "{:.2e}"),
}


def metric_name(name):
    """Returns the name of a metric as people write it.

    >>> metric_name("chrf"), metric_name("gradient_norm")
    ('chrF', 'gradient norm')
    """
    return _METRIC_FORMATS.get(name, (name.replace("_", " "), None))[0]


def metric_value(name, value):
    """Returns the value of a metric with as many digits as it deserves.

    >>> metric_value("accuracy", 0.98765), metric_value("gradient_norm", 1.23456789)
    ('98.8%', '1.235')
    """
    return _METRIC_FORMATS.get(name, (None, "{:.4g}"))[1].format(value)


def metric_phrase(name, value):
    """Returns name and value of a metric in a few words.

    >>> metric_phrase("loss", 2.5), metric_phrase("tokens_per_second", 12345.6)
    ('loss 2.5000', '12,346 tokens/s')
    """
    words = [metric_name(name), metric_value(name, value)]
    return " ".join(reversed(words) if name.endswith("_per_second") else words)


def duration(seconds):
    """Returns a time in words.

    >>> duration(4.06), duration(151), duration(7265), duration(93784)
    ('4.1 s', '2 min 31 s', '2 h 1 min', '1 d 2 h')
    """
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"


def countdown(seconds):
    """Returns a time that is left, in the form of a clock.

    >>> countdown(4.6), countdown(151), countdown(7265), countdown(93784), countdown(None)
    ('0:05', '2:31', '2:01:05', '1 d 2 h', '-:--')
    """
    if seconds is None:
        return "-:--"
    if seconds >= 24 * 3600:
        return duration(seconds)
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


# Of a file or a pipe, which have no width.
_PLAIN_WIDTH = 100

# A longer text is no example to be typed.
_LONGEST_EXAMPLE = 60


def print_summary(result, stream):
    """Prints a summary: tables with rules on a terminal, plain columns elsewhere.

    Args:
        result: a `TrainingResult`.
        stream: a text stream.
    """
    console = Console(file=stream, highlight=False, width=None if stream.isatty() else _PLAIN_WIDTH)
    with console.capture() as capture:
        _SummaryPrinter(result, console).print()
    stream.write("".join(line.rstrip() + "\n" for line in capture.get().splitlines()))
    stream.flush()


class _SummaryPrinter:
    def __init__(self, result, console):
        self._result = result
        self._console = console
        self._is_plain = not console.is_terminal or console.is_dumb_terminal
        self._is_unicode = console.encoding.lower().startswith("utf")

    def print(self):
        if self._result.is_dry_run:
            self._print_dry_run()
            return
        self._print_training()
        self._print_validation()
        self._print_tests()
        self._print_samples()
        self._print_places()

    def _print_dry_run(self):
        result = self._result
        updates = "1 update" if result.steps == 1 else f"{result.steps:,} updates"
        self._line(
            f"Dry run of {result.name}: everything was built, {updates} made with "
            f"{result.parameters:,} parameters in {duration(result.seconds)}. {self._plan()}"
            "Nothing is kept.",
            soft_wrap=self._is_plain,
        )

    def _plan(self):
        """How long the whole recipe would take, in a sentence; nothing if that is not known."""
        result = self._result
        if result.planned_seconds is None:
            return ""
        return (
            f"At {metric_phrase('tokens_per_second', result.tokens_per_second)}, as on this device "
            f"just now, all {result.planned_steps:,} updates would take "
            f"{duration(result.planned_seconds)}, evaluations aside. "
        )

    def _print_training(self):
        result = self._result
        updates = f"{result.steps:,}"
        if result.stopped_by:
            updates += f", ended by {result.stopped_by}"
        if result.resumed_from is not None:
            updates += f", resumed from {result.resumed_from:,}"
        self._line()
        self._line(result.name, style="bold")
        self._table(
            ("", ""),
            [
                ("updates", updates),
                ("epochs", f"{result.epochs:,.1f}"),
                ("time", duration(result.seconds)),
                ("parameters", f"{result.parameters:,}"),
                ("traces", f"{result.traces:,}"),
            ],
            left=2,
        )

    def _print_validation(self):
        validation, best = self._result.validation, self._result.best or {}
        names = [*validation, *(name for name in best if name not in validation)]
        if not names:
            return
        self._heading("Validation")
        columns = [("final", validation)]
        if best:
            columns.append((f"best (update {self._result.best_step:,})", best))
        self._table(
            ("", *(heading for heading, _ in columns)),
            [
                (metric_name(name), *(self._value(name, values) for _, values in columns))
                for name in names
            ],
        )

    def _value(self, name, values):
        return metric_value(name, values[name]) if name in values else ""

    def _print_tests(self):
        if not self._result.tests:
            return
        self._heading("Test sets")
        self._table(
            ("", "sentences", "BLEU", "chrF", "exact match"),
            [
                (
                    name,
                    f"{test.sentences:,}",
                    metric_value("bleu", test.bleu),
                    metric_value("chrf", test.chrf),
                    metric_value("exact_match", test.exact_match_share),
                )
                for name, test in self._result.tests.items()
            ],
        )
        test = next(iter(self._result.tests.values()))
        self._line(f"BLEU {test.bleu_signature}", style="dim")
        self._line(f"chrF {test.chrf_signature}", style="dim")

    def _print_samples(self):
        if not self._result.samples:
            return
        self._heading("Translations")
        rows = [
            (shown(source), shown(hypothesis), self._verdict(reference, hypothesis))
            for source, reference, hypothesis in self._result.samples
        ]
        headings = ("source", "translation", "reference")
        widths = [max(map(cell_len, column)) for column in zip(headings, *rows, strict=True)]
        if sum(widths) + 3 * len(widths) + 1 <= self._console.width:
            self._table(headings, rows, left=3)
            return
        for row in rows:
            block = Table.grid(padding=(0, 2))
            for heading, text in zip(headings, row, strict=True):
                block.add_row(f"  {heading}", Text(text))
            self._console.print(block)
            self._line()

    def _verdict(self, reference, hypothesis):
        # As `inference.Evaluation` counts exact matches.
        if hypothesis.strip() == reference.strip():
            return "✓" if self._is_unicode else "the same"
        return shown(reference)

    def _print_places(self):
        result = self._result
        model = result.run_directory if result.export is None else result.export
        places = {"run directory": str(result.run_directory)}
        if result.export is not None:
            places["export"] = str(result.export)
        places["TensorBoard"] = f"tensorboard --logdir {shlex.quote(str(result.tensorboard))}"
        places["your own text"] = (
            f"{self._example()}keras-transformer translate {shlex.quote(str(model))}"
        )
        self._heading("Where everything is")
        for name, text in places.items():
            # Never broken into lines, so that commands can be copied.
            self._line(f"  {name:<15}{shown(text)}", soft_wrap=True)

    def _example(self):
        """Returns the start of a command that feeds the first short source, or nothing."""
        for source, *_ in self._result.samples:
            if source.isprintable() and 0 < cell_len(source) <= _LONGEST_EXAMPLE:
                return f"echo {shlex.quote(source)} | "
        return ""

    def _heading(self, text):
        self._line()
        self._line(text, style="bold")

    def _line(self, text="", style="", soft_wrap=False):
        self._console.print(Text(shown(text), style=style), soft_wrap=soft_wrap)

    def _table(self, headings, rows, left=1):
        """Prints a table whose first `left` columns are texts and the others numbers."""
        table = Table(
            box=None if self._is_plain else box.ROUNDED,
            pad_edge=not self._is_plain,
            show_header=any(headings),
        )
        for number, heading in enumerate(headings):
            side = "left" if number < left else "right"
            table.add_column(heading, justify=side, overflow="fold")
        for row in rows:
            table.add_row(*(Text(shown(cell)) for cell in row))
        self._console.print(table)
