"""Summary of a training: metrics in tables, and the paths of everything."""

import shlex
from collections.abc import Iterable
from typing import TYPE_CHECKING, TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from keras_transformer._utils.console import is_plain, print_table, render, shown
from keras_transformer._utils.progress import duration
from keras_transformer.metrics import TEXT_METRICS

if TYPE_CHECKING:
    from keras_transformer.trainer.training_result import TrainingResult

# Titles and formats of metrics that are not text metrics.
_METRIC_FORMATS = {
    "loss": ("loss", "{:.4f}"),
    "accuracy": ("accuracy", "{:.1%}"),
    "perplexity": ("perplexity", "{:,.2f}"),
    "tokens_per_second": ("tokens/s", "{:,.0f}"),
    "learning_rate": ("learning rate", "{:.2e}"),
}


def metric_name(name: str) -> str:
    """Returns the title of a metric."""
    if name in TEXT_METRICS:
        return TEXT_METRICS[name].title
    return _METRIC_FORMATS.get(name, (name.replace("_", " "), ""))[0]


def metric_value(name: str, value: float) -> str:
    """Returns the value of a metric with a suitable number of digits."""
    if name in TEXT_METRICS:
        return TEXT_METRICS[name].value_format.format(value)
    return _METRIC_FORMATS.get(name, ("", "{:.4g}"))[1].format(value)


def metric_phrase(name: str, value: float) -> str:
    """Returns title and value of a metric.

    >>> metric_phrase("gradient_norm", 1.23456789), metric_phrase("tokens_per_second", 12345.6)
    ('gradient norm 1.235', '12,346 tokens/s')
    """
    words = [metric_name(name), metric_value(name, value)]
    return " ".join(reversed(words) if name.endswith("_per_second") else words)


# Longer sources are not used as examples of a command.
_LONGEST_EXAMPLE = 60


def print_summary(result: "TrainingResult", stream: TextIO) -> None:
    """Prints the summary: tables with rules on a terminal, plain columns elsewhere."""
    stream.write(render(lambda console: _print_all(result, console), stream))
    stream.flush()


def _print_all(result: "TrainingResult", console: Console) -> None:
    if result.is_dry_run:
        _print_line(console, _describe_dry_run(result), soft_wrap=is_plain(console))
        return
    steps = f"{result.steps:,}"
    if result.stopped_by:
        steps += f", stopped by {result.stopped_by}"
    if result.resumed_from is not None:
        steps += f", resumed from {result.resumed_from:,}"
    rows = [
        ("steps", steps),
        ("epochs", f"{result.epochs:,.1f}"),
        ("time", duration(result.seconds)),
        ("parameters", f"{result.parameters:,}"),
        ("traces", f"{result.traces:,}"),
    ]
    console.print()
    print_table(console, ("", ""), rows, title=result.name)
    _print_metrics(result, console)
    if result.samples:
        _print_samples(result.samples, console)
    _print_places(result, console)


def _describe_dry_run(result: "TrainingResult") -> str:
    steps = "1 step" if result.steps == 1 else f"{result.steps:,} steps"
    text = (
        f"Dry run of {result.name}: everything was built, {steps} made with "
        f"{result.parameters:,} parameters in {duration(result.seconds)}. "
    )
    if result.planned_seconds is not None and result.tokens_per_second is not None:
        text += (
            f"At {metric_phrase('tokens_per_second', result.tokens_per_second)}, as measured on "
            f"this device, all {result.planned_steps:,} steps would take "
            f"{duration(result.planned_seconds)} without evaluations. "
        )
    return text + "Nothing was kept."


def _print_metrics(result: "TrainingResult", console: Console) -> None:
    columns = {"final": result.validation}
    if result.best:
        columns[f"best (step {result.best_step:,})"] = result.best
    names = dict.fromkeys(name for metrics in columns.values() for name in metrics)
    if names:
        rows = []
        for name in names:
            found = [each.get(name) for each in columns.values()]
            cells = ["" if value is None else metric_value(name, value) for value in found]
            rows.append([metric_name(name), *cells])
        console.print()
        print_table(console, ("", *columns), rows, title="Validation", right=(1, 2))
    if result.tests:
        first = next(iter(result.tests.values()))
        rows = [
            [name, f"{test.sentences:,}", *map(metric_value, test.metrics, test.metrics.values())]
            for name, test in result.tests.items()
        ]
        headings = ("", "sentences", *map(metric_name, first.metrics))
        console.print()
        print_table(console, headings, rows, title="Test sets", right=range(1, len(headings)))
        for metric, signature in first.signatures.items():
            _print_line(console, f"{metric_name(metric)} {signature}", style="dim")


def _print_samples(samples: Iterable[tuple[str, str, str]], console: Console) -> None:
    """Prints translations in a table, or one below the other if they are too long for it."""
    same = "✓" if console.encoding.lower().startswith("utf") else "same"
    headings = ("source", "translation", "reference")
    rows = [
        # Exact matches as in `inference.Evaluation`.
        (source, hypothesis, same if hypothesis.strip() == reference.strip() else reference)
        for source, reference, hypothesis in samples
    ]
    rows = [tuple(map(shown, row)) for row in rows]
    console.print()
    widths = [max(map(cell_len, column)) for column in zip(headings, *rows, strict=True)]
    if sum(widths) + 3 * len(widths) + 1 <= console.width:
        print_table(console, headings, rows, title="Translations")
        return
    _print_line(console, "Translations", style="bold")
    for row in rows:
        block = Table.grid(padding=(0, 2))
        for heading, text in zip(headings, row, strict=True):
            block.add_row(f"  {heading}", Text(text))
        console.print(block)
        console.print()


def _print_places(result: "TrainingResult", console: Console) -> None:
    model = result.run_directory if result.export is None else result.export
    # The example translates the first short source.
    example = next(
        (
            f"echo {shlex.quote(source)} | "
            for source, *_ in result.samples
            if source.isprintable() and 0 < cell_len(source) <= _LONGEST_EXAMPLE
        ),
        "",
    )
    places = {
        "run directory": result.run_directory,
        "export": result.export,
        "TensorBoard": f"tensorboard --logdir {shlex.quote(str(result.tensorboard))}",
        "translate": f"{example}keras-transformer translate {shlex.quote(str(model))}",
    }
    console.print()
    _print_line(console, "Files and commands", style="bold")
    for name, text in places.items():
        if text:
            # Not wrapped, so that commands can be copied.
            _print_line(console, f"  {name:<15}{text}", soft_wrap=True)


def _print_line(console: Console, text: str, style: str = "", soft_wrap: bool = False) -> None:
    console.print(Text(shown(text), style=style), soft_wrap=soft_wrap)
