"""The progress bar of the commands that process lines."""

import os
import pty
import sys

import pytest

from keras_transformer.cli.shared import line_progress


class Terminal:
    """A terminal: a file to write to, and the characters on the screen."""

    def __init__(self):
        self._screen, self._line = pty.openpty()
        self.file = open(self._line, "w", encoding="utf-8")  # noqa: SIM115

    def written(self):
        # The output is complete when this mark appears.
        print("§", end="", file=self.file, flush=True)
        content = b""
        while not content.endswith("§".encode()):
            content += os.read(self._screen, 1 << 16)
        return content.decode().removesuffix("§")

    def close(self):
        self.file.close()
        os.close(self._screen)


@pytest.fixture
def terminal():
    terminal = Terminal()
    yield terminal
    terminal.close()


def work(monkeypatch, output, kind="xterm", total=4, **streams):
    """Processes four lines with other standard streams, given as `stdout` and `stderr`."""
    monkeypatch.setenv("TERM", kind)
    # Not in a fixture, because pytest sets its own streams before each test.
    for name, stream in streams.items():
        monkeypatch.setattr(sys, name, stream)
    with line_progress("Translating", total, output) as advance:
        for number in range(4):
            if output is None:
                print(f"result {number}")
            advance(1)


def test_line_progress_on_a_terminal_draws_a_bar(terminal, monkeypatch):
    work(monkeypatch, output="file", stderr=terminal.file)
    written = terminal.written()
    assert "Translating" in written
    assert "4/4" in written


def test_line_progress_shows_the_time_left_or_elapsed_if_the_total_is_unknown(
    terminal, monkeypatch
):
    work(monkeypatch, output="file", stderr=terminal.file)
    written = terminal.written()
    assert "left" in written
    assert "elapsed" not in written
    work(monkeypatch, output="file", total=None, stderr=terminal.file)
    written = terminal.written()
    assert "4/?" in written
    assert "elapsed" in written
    assert "-:--" not in written


def test_line_progress_draws_a_bar_while_results_go_to_a_file(terminal, monkeypatch, tmp_path):
    with open(tmp_path / "results", "w") as results:
        work(monkeypatch, output=None, stdout=results, stderr=terminal.file)
    written = terminal.written()
    assert "4/4" in written
    assert "result" not in written
    assert (tmp_path / "results").read_text() == "result 0\nresult 1\nresult 2\nresult 3\n"


def test_line_progress_draws_nothing_among_results(terminal, monkeypatch):
    work(monkeypatch, output=None, stdout=terminal.file, stderr=terminal.file)
    assert terminal.written() == "result 0\r\nresult 1\r\nresult 2\r\nresult 3\r\n"


def test_line_progress_on_a_dumb_terminal_draws_nothing(terminal, monkeypatch):
    work(monkeypatch, output="file", kind="dumb", stderr=terminal.file)
    assert terminal.written() == ""


def test_line_progress_in_a_pipe_draws_nothing(capsys, monkeypatch):
    work(monkeypatch, output="file")
    assert capsys.readouterr() == ("", "")
