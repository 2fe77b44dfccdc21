"""Pictures of a results page: learning curves, and BLEU by source length."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from finished_run import FinishedRun

from keras_transformer._utils.pictures import COLORS, MARKERS, draw_png, simplify_axes
from keras_transformer.analysis.compare.results import Measure

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Names of recipes can be long: maximum length in the legend, and its height per line in inches.
_LEGEND_LETTERS = 48
_LEGEND_LINE = 0.22

#: Runs with their colors.
ColoredRuns = Sequence[tuple[FinishedRun, str]]


def draw_learning_curves(groups: Mapping[str, Sequence[FinishedRun]]) -> bytes:
    """Returns losses and validation BLEU by step as a PNG file, with a line for each run.

    If there is one recipe, each run has a color; if there are several, each recipe has one.

    Args:
        groups: Runs by recipe, from `group_by_recipe`.
    """
    runs = list(_colored(groups))
    panels = [draw_losses]
    if any(run.curve("validation", "bleu")[0] for run, _ in runs):
        panels.append(draw_bleu)
    handles = _legend_handles(groups)
    columns = len(panels) if len(groups) > 1 else min(3 * len(panels), len(handles))

    def draw(figure: "Figure") -> None:
        all_axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for axes, draw_panel in zip(all_axes, panels, strict=True):
            draw_panel(axes, runs)
            axes.set_xlim(left=0)
            axes.set_xlabel("steps")
            axes.xaxis.set_major_formatter("{x:,.0f}")
            simplify_axes(axes)
            _add_epochs(axes, runs)
        figure.legend(handles=handles, loc="outside lower center", ncols=columns, frameon=False)

    height = 4 + _LEGEND_LINE * -(-len(handles) // columns)
    return draw_png(draw, (5 * len(panels), height), dpi=150)


def draw_bleu_by_length(groups: Mapping[str, Sequence[Sequence[Mapping[str, Any]]]]) -> bytes:
    """Returns BLEU by source length as a PNG file, with means and ranges over the runs.

    Args:
        groups: For the name of each recipe, the result of `quality_by_length` for each run.
    """
    has_legend = len(groups) > 1

    def draw(figure: "Figure") -> None:
        axes = figure.subplots()
        for number, (name, runs) in enumerate(groups.items()):
            # Side by side, so that no bar hides another.
            shift = 0.12 * (number - (len(groups) - 1) / 2)
            measures = [
                Measure.of(each["bleu"] for each in group) for group in zip(*runs, strict=True)
            ]
            means = [measure.mean for measure in measures]
            axes.errorbar(
                [position + shift for position in range(len(means))],
                means,
                # All distances below the means, then all distances above.
                yerr=list(zip(*map(_distances, measures), strict=True)),
                color=COLORS[number % len(COLORS)],
                marker=MARKERS[number % len(MARKERS)],
                markersize=5,
                linewidth=1.5,
                elinewidth=1.2,
                capsize=4,
                label=_short(name),
            )
        lengths = next(iter(groups.values()))[0]
        axes.set_xticks(range(len(lengths)), [_describe_lengths(group) for group in lengths])
        axes.set_xlabel("source length in words (number of sentences)")
        axes.set_ylabel("test BLEU")
        simplify_axes(axes)
        axes.grid(visible=False, axis="x")
        if has_legend:
            figure.legend(loc="outside lower center", frameon=False)

    return draw_png(draw, (6.4, 4 + _LEGEND_LINE * len(groups) * has_legend), dpi=150)


def _colored(groups: Mapping[str, Sequence[FinishedRun]]) -> Iterator[tuple[FinishedRun, str]]:
    """Yields each run with its color."""
    for number, runs in enumerate(groups.values()):
        for position, run in enumerate(runs):
            yield run, COLORS[(number if len(groups) > 1 else position) % len(COLORS)]


def draw_losses(axes: "Axes", runs: ColoredRuns) -> None:
    """Draws the losses of training and validation."""
    highest = []
    for run, color in runs:
        axes.plot(*run.curve("train", "loss"), color=color, linewidth=1, linestyle="--")
        steps, losses = run.curve("validation", "loss")
        axes.plot(steps, losses, color=color, linewidth=1.5)
        _draw_final(axes, run, "loss", color)
        highest += losses
    if highest:
        # The losses before the first validation are far higher, and would take most of the height.
        axes.set_ylim(top=1.1 * max(highest))
    axes.set_ylabel("loss, nats per target token")


def draw_bleu(axes: "Axes", runs: ColoredRuns) -> None:
    """Draws validation BLEU."""
    for run, color in runs:
        axes.plot(*run.curve("validation", "bleu"), color=color, linewidth=1.5)
        _draw_final(axes, run, "bleu", color)
    axes.set_ylabel("validation BLEU")


def _draw_final(axes: "Axes", run: FinishedRun, metric: str, color: str) -> None:
    """Marks the value of the final weights, which may be an average of those along the curve."""
    if metric in run.result.validation:
        point = run.result.steps, run.result.validation[metric]
        axes.plot(*point, color=color, marker="*", markersize=9, clip_on=False, zorder=3)


def _add_epochs(axes: "Axes", runs: ColoredRuns) -> None:
    """Adds an axis of epochs if epochs have the same number of steps in all runs."""
    sizes = {round(line["step"] / line["epoch"], 2) for run, _ in runs for line in run.metrics[-1:]}
    if len(sizes) == 1:
        (steps,) = sizes
        epochs = axes.secondary_xaxis(
            "top", functions=(lambda x: x / steps, lambda epoch: epoch * steps)
        )
        epochs.set_xlabel("epochs")
        epochs.spines["top"].set_visible(False)


def _legend_handles(groups: Mapping[str, Sequence[FinishedRun]]) -> "list[Artist]":
    from matplotlib.lines import Line2D

    if len(groups) > 1:
        names = [
            f"{_short(name)} ({len(runs)} {'seed' if len(runs) == 1 else 'seeds'})"
            for name, runs in groups.items()
        ]
    else:
        names = [f"seed {run.seed}" for runs in groups.values() for run in runs]
    handles = [
        Line2D([], [], color=COLORS[number % len(COLORS)], linewidth=1.5, label=name)
        for number, name in enumerate(names)
    ]
    return [
        *handles,
        Line2D([], [], color="gray", linewidth=1, linestyle="--", label="training"),
        Line2D([], [], color="gray", linewidth=1.5, label="validation"),
        Line2D([], [], color="gray", linestyle="", marker="*", markersize=9, label="final weights"),
    ]


def _distances(measure: Measure) -> tuple[float, float]:
    """Returns the distances of a measure's minimum and maximum from its mean.

    >>> _distances(Measure.of([1.0, 2.0, 6.0]))
    (2.0, 3.0)
    """
    # The mean of equal numbers may differ from them in the last digit.
    below, above = measure.mean - min(measure.values), max(measure.values) - measure.mean
    return max(0.0, below), max(0.0, above)


def _describe_lengths(group: Mapping[str, Any]) -> str:
    """Returns the label of a group of lengths.

    >>> _describe_lengths({"least": 4, "most": 8, "sentences": 1170})
    '4–8\\n(1,170)'
    """
    least, most = group["least"], group["most"]
    lengths = f"{least}–{most}" if least < most else f"{least}"
    return f"{lengths}\n({group['sentences']:,})"


def _short(name: str) -> str:
    is_long = len(name) > _LEGEND_LETTERS
    return name[: _LEGEND_LETTERS - 1] + "…" if is_long else name
