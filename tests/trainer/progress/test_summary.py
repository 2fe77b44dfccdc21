"""The summary after a training."""

import io

import pytest
from rich.text import Text

from keras_transformer.trainer.summary import print_summary
from tests.trainer.progress.finished_training import SAMPLES, make_result


class Terminal(io.StringIO):
    def isatty(self):
        return True


def summary(result, stream=None):
    stream = stream or io.StringIO()
    print_summary(result, stream)
    return stream.getvalue()


def test_summary_in_plain_columns():
    assert (
        summary(make_result())
        == """
dates
steps       12,000
epochs      47.6
time        2 min 31 s
parameters  1,234,567
traces      8

Validation
             final  best (step 9,000)
loss        0.0123             0.0111
accuracy     99.8%
BLEU         99.10
grumpiness       2

Test sets
              sentences   BLEU   chrF  exact match
unseen dates      1,000  98.70  99.05        99.1%
BLEU nrefs:1|tok:13a
chrF nrefs:1|nc:6

Translations
source             translation  reference
3. Mai 1979        1979-05-03   ✓
lundi 3 mars 2025  2025-03-08   2025-03-03

Files and commands
  run directory  runs/dates
  export         saved_models/dates/1
  TensorBoard    tensorboard --logdir runs/dates/tensorboard
  translate      echo '3. Mai 1979' | keras-transformer translate saved_models/dates/1
"""
    )


def test_summary_leaves_out_what_is_missing():
    bare = make_result(
        validation={}, best=None, best_step=None, tests={}, samples=(), export=None, traces=1
    )
    assert (
        summary(bare)
        == """
dates
steps       12,000
epochs      47.6
time        2 min 31 s
parameters  1,234,567
traces      1

Files and commands
  run directory  runs/dates
  TensorBoard    tensorboard --logdir runs/dates/tensorboard
  translate      keras-transformer translate runs/dates
"""
    )


def test_summary_names_early_stopping_and_resumption():
    printed = summary(make_result(stopped_by="early stopping", resumed_from=9_500))
    assert "steps       12,000, stopped by early stopping, resumed from 9,500\n" in printed


def test_long_translations_are_shown_one_below_the_other():
    printed = summary(make_result(samples=(*SAMPLES, ("lang " * 12, "long " * 12, "wrong " * 12))))
    assert "\n  source       3. Mai 1979\n  translation  1979-05-03\n  reference    ✓\n" in printed
    assert "\n  translation  wrong wrong wrong" in printed


def test_paths_in_commands_are_quoted_and_not_wrapped():
    printed = summary(
        make_result(tensorboard="/grüße und mehr/" + "x" * 200, export="it's here", samples=())
    )
    assert f"tensorboard --logdir '/grüße und mehr/{'x' * 200}'\n" in printed
    assert """keras-transformer translate 'it'"'"'s here'\n""" in printed


def test_control_characters_in_texts_are_escaped():
    evil = "\x1b[31mred"
    printed = summary(
        make_result(
            name=evil,
            tests={evil: make_result().tests["unseen dates"]},
            samples=((evil, evil, evil),),
        )
    )
    assert "\x1b" not in printed
    assert printed.count("\\x1b[31mred") == 4


def test_rich_markup_in_texts_is_text():
    printed = summary(make_result(samples=(("[bold]x[/bold]", "[red]", "[/]"),)))
    assert "[bold]x[/bold]  [/]          [red]" in printed


def test_tables_have_rules_on_a_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    lines = Text.from_ansi(summary(make_result(), Terminal())).plain.splitlines()
    assert any(line.startswith("╭") for line in lines)
    assert all(len(line) <= 80 for line in lines if "keras-transformer translate" not in line)


def test_stream_without_unicode_has_words_for_signs():
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    print_summary(make_result(), stream)
    stream.seek(0)
    assert "3. Mai 1979        1979-05-03   same\n" in stream.read()


@pytest.mark.parametrize(("steps", "words"), [(1, "1 step made"), (2, "2 steps made")])
def test_summary_of_a_dry_run_is_one_paragraph(steps, words):
    printed = summary(make_result(is_dry_run=True, steps=steps, seconds=4.2))
    assert printed == (
        f"Dry run of dates: everything was built, {words} with 1,234,567 parameters in 4.2 s. "
        "Nothing was kept.\n"
    )


def test_summary_of_a_dry_run_estimates_the_time_of_the_recipe():
    pace = {"tokens_per_second": 1234.5, "planned_steps": 100_000, "planned_seconds": 180_000.0}
    printed = summary(make_result(is_dry_run=True, steps=2, seconds=4.2, **pace))
    assert printed.endswith(
        "in 4.2 s. At 1,234 tokens/s, as measured on this device, all 100,000 steps would take "
        "2 d 2 h without evaluations. Nothing was kept.\n"
    )
