"""Reports on a terminal."""

import io
import re

import pytest
from rich.text import Text

from keras_transformer.trainer.progress import PlainReport, TerminalReport, make_report
from tests.trainer.progress.finished_training import make_result


class Terminal(io.StringIO):
    """A terminal that records everything written to it."""

    encoding = "utf-8"

    def isatty(self):
        return True

    def seen(self):
        """Returns everything that could be read; each state of the status line is a line."""
        return Text.from_ansi(self.getvalue().replace("\r", "\n")).plain


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    return Terminal()


def show(report):
    """Draws the status line now, below a message: tests do not wait for the next refresh."""
    report.say("now")


def train(report):
    report.begin("CPU (2 cores), float32", first_step=0, total_steps=10_000, epoch_steps=2_500)
    show(report)
    logs = {"loss": 2.34567, "accuracy": 0.5, "tokens_per_second": 12345.6, "other": 1.0}
    report.update(6_000, logs)
    show(report)


def test_finished_stage_is_a_line_with_its_time(terminal):
    now = 0.0
    with TerminalReport(terminal, clock=lambda: now) as report:
        report.stage("Tokenizing 29,000 pairs")
        report.advance(12_000, total=29_000)
        now = 4.06
        show(report)
        report.stage("Building the model")
    seen = terminal.seen()
    assert "Tokenizing 29,000 pairs  ━" in seen
    assert "12,000/29,000  4.1 s" in seen
    assert "\n✓ Tokenizing 29,000 pairs  4.1 s\n" in seen
    # The stage is not finished.
    assert "✓ Building" not in seen


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (40, "epoch 3/4  6,000/10,000  loss 2.3457"),
        (60, "6,000/10,000  loss 2.3457  -:-- left"),
        (80, "6,000/10,000  loss 2.3457  12,346 tokens/s  -:-- left"),
        (120, "6,000/10,000  loss 2.3457  accuracy 50.0%  12,346 tokens/s  -:-- left"),
    ],
)
def test_status_line_fits_the_terminal(terminal, monkeypatch, columns, words):
    monkeypatch.setenv("COLUMNS", str(columns))
    with TerminalReport(terminal) as report:
        train(report)
    lines = terminal.seen().splitlines()
    assert "CPU (2 cores), float32" in lines
    bar = next(line for line in lines if words in line)
    assert bar.startswith("epoch 3/4  ")
    assert ("━━━" in bar) == (columns > 50)
    # There is space for the ^C that the terminal writes.
    assert len(bar.rstrip()) <= columns - 2
    assert all(len(line) <= columns for line in lines)


def test_other_work_is_shown_until_the_next_step(terminal):
    with TerminalReport(terminal) as report:
        train(report)
        report.busy("Evaluating")
        report.advance(100, total=500)
        show(report)
        report.say("Step 6,000: validation loss 2.0")
        report.update(7_000, {"loss": 1.5})
        show(report)
    lines = terminal.seen().splitlines()
    assert any("6,000/10,000" in line and "Evaluating  100/500" in line for line in lines)
    assert "Step 6,000: validation loss 2.0" in lines
    assert any("7,000/10,000  loss 1.5000" in line for line in lines)


def test_cursor_is_always_shown(terminal):
    """A killed process must not leave the terminal without a cursor."""
    with TerminalReport(terminal) as report:
        report.stage("Building the model")
        assert terminal.getvalue().rindex("\x1b[?25h") > terminal.getvalue().rindex("\x1b[?25l")


def test_status_line_is_removed_before_the_summary(terminal):
    results = io.StringIO()
    with TerminalReport(terminal, results) as report:
        train(report)
        report.end(make_result())
        before = terminal.getvalue()
        assert "12,000" in results.getvalue()
    assert terminal.getvalue() == before
    assert before.endswith("\x1b[2K")


def test_terminal_without_unicode_gets_question_marks(terminal):
    terminal.encoding = "ascii"
    with TerminalReport(terminal) as report:
        report.stage("Reading Grüße.en")
        train(report)
        report.busy("Evaluating")
        show(report)
    assert terminal.seen().startswith("Reading Gr??e.en  ")
    assert terminal.getvalue().isascii()


def test_no_color_leaves_out_colors(terminal, monkeypatch):
    # The palette depends on what rich has drawn before in this process.
    color = re.compile(r"\x1b\[[39][0-9;]*m")
    with TerminalReport(terminal) as report:
        train(report)
    assert color.search(terminal.getvalue())
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Terminal()
    with TerminalReport(plain) as report:
        train(report)
    assert not color.search(plain.getvalue())


def test_markup_and_control_characters_are_shown_as_text(terminal):
    with TerminalReport(terminal) as report:
        report.stage("Reading [red]\x1b[5mtrain.en")
        show(report)
        report.say("[bold]\x07said")
        report.busy("[/]")
        show(report)
    seen = terminal.seen()
    assert "Reading [red]\\x1b[5mtrain.en" in seen
    assert "[bold]\\x07said" in seen
    assert "[/]" in seen


def test_lost_terminal_does_not_stop_the_training(terminal):
    class Gone(Terminal):
        def write(self, text):
            raise OSError(5, "Input/output error")

    with TerminalReport(Gone()) as report:
        train(report)
        report.say("Stopping")
        report.end(make_result())


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("xterm", TerminalReport), ("dumb", PlainReport), ("unknown", PlainReport)],
)
def test_make_report_chooses_by_the_kind_of_terminal(monkeypatch, kind, expected):
    monkeypatch.setenv("TERM", kind)
    assert type(make_report(Terminal())) is expected
    assert type(make_report(io.StringIO())) is PlainReport


def test_make_report_takes_a_terminal_without_a_kind_for_a_dumb_one(monkeypatch):
    monkeypatch.delenv("TERM", raising=False)
    assert type(make_report(Terminal())) is PlainReport
