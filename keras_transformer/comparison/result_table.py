"""The results as a table, in the terminal and in Markdown."""

from keras_transformer.trainer.progress.figures import metric_name, metric_value


def make_rows(results):
    """Returns the headings and a list of rows, all texts; the first column is the model.

    Args:
        results: a `Results`.
    """
    tests = list(dict.fromkeys(name for each in results.standings for name in each.tests))
    quality = metric_name(results.quality)
    columns = {"validation loss": lambda each: _text("loss", each.measures.get("loss"))}
    if results.quality != "loss":
        columns[f"validation {quality}"] = lambda each: _text(
            results.quality, each.measures.get(results.quality)
        )
        for name in tests:
            columns[f"{name}, {quality}"] = lambda each, name=name: _text(
                results.quality, each.tests.get(name)
            )
    if any(each.by_distance for each in results.standings):
        columns["longest dependency solved"] = lambda each: _text(
            "distance", each.measures.get("longest_solved")
        )
    columns |= {
        "tokens/s": lambda each: _text("tokens_per_second", each.measures["tokens_per_second"]),
        "memory, MB": lambda each: _text("memory", each.measures["peak_memory_mb"]),
        "parameters": lambda each: f"{each.parameters:,}",
        "updates": lambda each: f"{each.updates:,}",
        "seeds": lambda each: f"{len(each.seeds)}",
    }
    rows = [[each.model, *(make(each) for make in columns.values())] for each in results.standings]
    return ["model", *columns], rows


def make_table(results):
    """Returns a rich table."""
    from rich.table import Table

    headings, rows = make_rows(results)
    table = Table(title=f"{results.name}: {describe(results)}")
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left")
    for row in rows:
        table.add_row(*row)
    return table


def make_markdown(results, picture):
    """Returns the text of a Markdown file with the table and the picture.

    Args:
        results: a `Results`.
        picture: the name of the picture's file.
    """
    headings, rows = make_rows(results)
    lines = [f"# {results.name}", "", f"{describe(results)}.".capitalize(), ""]
    lines += [_line(headings), _line(["---", *["---:"] * (len(headings) - 1)])]
    lines += map(_line, rows)
    lines += ["", f"![{results.name}]({picture})", ""]
    distances = next((each.by_distance for each in results.standings if each.by_distance), ())
    if distances:
        lines += _distance_lines(results, [distance for distance, _ in distances])
    lines += [f"Not there, as it failed: {model}, seed {seed}." for model, seed in results.missing]
    return "\n".join(lines).rstrip() + "\n"


def describe(results):
    """In words: what is shown, and under which budget.

    >>> from types import SimpleNamespace
    >>> describe(SimpleNamespace(seeds=(1, 2), budget={"tokens": 5000, "seconds": None}))
    'mean ± standard deviation over 2 seeds, 5,000 target tokens each'
    """
    seeds = len(results.seeds)
    budget = "as many updates as the recipe has"
    if results.budget["tokens"] is not None:
        budget = f"{results.budget['tokens']:,} target tokens each"
    elif results.budget["seconds"] is not None:
        budget = f"{results.budget['seconds']:,.0f} seconds each"
    what = f"mean ± standard deviation over {seeds} seeds" if seeds > 1 else "1 seed"
    return f"{what}, {budget}"


def _distance_lines(results, distances):
    lines = [f"{metric_name('exact_match').capitalize()} by distance:", ""]
    lines += [_line(["model", *map(str, distances)]), _line(["---", *["---:"] * len(distances)])]
    for each in results.standings:
        found = dict(each.by_distance)
        lines.append(_line([each.model, *(_text("exact_match", found.get(d)) for d in distances)]))
    return [*lines, ""]


def _line(cells):
    return f"| {' | '.join(cells)} |"


def _text(name, measure):
    if measure is None:
        return "–"
    digits = {"memory": "{:,.0f}", "distance": "{:.0f}"}
    show = digits[name].format if name in digits else lambda value: metric_value(name, value)
    if measure.spread is None:
        return show(measure.mean)
    return f"{show(measure.mean).removesuffix('%')} ± {show(measure.spread)}"
