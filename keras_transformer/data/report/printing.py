"""The data report as a person reads it: in a terminal, a file or a pipe."""

from rich import box
from rich.table import Table
from rich.text import Text

from keras_transformer.data.report.tables import make_tables
from keras_transformer.data.report.vocabulary import LEARNABLE_COUNT
from keras_transformer.printable import shown


def print_data_report(report, console):
    """Prints a report: tables with rules on a terminal, plain columns elsewhere.

    Args:
        report: from `make_data_report`.
        console: a `rich.console.Console`.
    """
    _ReportPrinter(report, console).print()


class _ReportPrinter:
    def __init__(self, report, console):
        self._report = report
        self._console = console
        self._is_plain = not console.is_terminal or console.is_dumb_terminal

    def print(self):
        self._print_files()
        bar = "█" if self._console.encoding.lower().startswith("utf") else "#"
        for table in make_tables(self._report, bar):
            self._print_table(table)
        self._print_notes()
        self._print_speed()
        self._print_longest()
        self._print_odd()
        self._print_warnings()

    def _print_files(self):
        self._line("Data report", style="bold")
        self._line(f"training: {', '.join(self._report['files'])}")
        if self._report["validation_files"]:
            self._line(f"validation: {', '.join(self._report['validation_files'])}")

    def _print_table(self, content):
        self._heading(content.title)
        table = Table(box=None if self._is_plain else box.ROUNDED, pad_edge=not self._is_plain)
        for number, heading in enumerate(content.headings):
            side = "left" if number < content.left else "right"
            table.add_column(heading, justify=side, no_wrap=True)
        for row in content.rows:
            table.add_row(*map(Text, row))
        self._console.print(table)

    def _print_notes(self):
        self._heading("Notes")
        ratio = self._report["lines"]["target_tokens_per_source_token"]
        if ratio:
            self._line(
                f"  Target tokens per source token: {ratio['median']:.2f} in the middle, "
                f"{ratio['percentile_1']:.2f} to {ratio['percentile_99']:.2f} in 98 % of the pairs."
            )
        for part in self._report["vocabularies"]:
            rarest = (f"{rare['piece']} {rare['count']:,}" for rare in part["rarest_pieces"])
            columns = " and ".join(part["columns"])
            self._line(f"  Rarest pieces that occur in {columns}: {', '.join(rarest)}.")
        self._line(
            "  Rule of thumb: take the largest vocabulary of which 95 % of the pieces occur "
            f"{LEARNABLE_COUNT} times or more (Gowda and May 2020)."
        )

    def _print_speed(self):
        tokenising, iterating = self._report["tokenising"], self._report["padding"]["iterating"]
        self._heading("Speed")
        if tokenising:
            self._line(
                f"  Tokenising, with reading and writing: "
                f"{tokenising['sentences_per_second']:,.0f} sentences/s."
            )
        else:
            self._line("  Tokenising: not measured, the tokenised corpus was there already.")
        side = "target " if "target" in self._report["columns"] else ""
        self._line(
            f"  Iterating batches: {iterating['batches_per_second']:,.0f} batches/s, "
            f"{iterating['sentences_per_second']:,.0f} sentences/s, "
            f"{iterating['tokens_per_second']:,.0f} {side}tokens/s."
        )

    def _print_longest(self):
        self._heading("Longest lines")
        for line in self._report["lines"]["longest"]:
            self._print_line(line)

    def _print_odd(self):
        lines = self._report["lines"]
        sample = lines["sample"]
        every = "all" if sample["every"] == 1 else f"one in {sample['every']:,}"
        self._heading(f"Odd lines, of {sample['examples']:,} looked at ({every})")
        printed = set()
        for oddity in lines["odd"]:
            usual = ": more than 1 in 20, so usual here and not listed" * oddity["is_usual"]
            self._line(f"  {oddity['kind']}: {oddity['count']:,} ({oddity['meaning']}){usual}")
            for line in oddity["lines"]:
                if line["place"] in printed:
                    self._line(f"    {line['place']}  as above")
                else:
                    self._print_line(line)
                printed.add(line["place"])

    def _print_line(self, line):
        tokens = ", ".join(f"{column} {number:,}" for column, number in line["tokens"].items())
        self._line(f"    {line['place']}  tokens: {tokens}")
        for text in line["texts"].values():
            self._line(f"        {text}", is_cut=True)

    def _print_warnings(self):
        self._heading("Warnings")
        for warning in self._report["warnings"]:
            self._line(f"  {warning}", style="yellow")
        if not self._report["warnings"]:
            self._line("  none")

    def _heading(self, title):
        self._console.print()
        self._line(title, style="bold")

    def _line(self, text, style="", is_cut=False):
        # Only a text that is cut is cut to the width: a pipe gets all other lines as they are.
        text = Text(shown(text), style)
        if is_cut:
            self._console.print(text, no_wrap=True, overflow="ellipsis")
        else:
            self._console.print(text, soft_wrap=self._is_plain)
