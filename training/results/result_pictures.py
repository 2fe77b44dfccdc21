"""Learning curves, and BLEU by source length, as pictures."""

import contextlib
import io

from keras_transformer.analysis.compare.results import Measure

# The palette of Okabe and Ito 2008, "Color universal design", which the color-blind can tell
# apart, without the yellow, which is too light for lines.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = "os^Dv<>P"
# Names of recipes can be long; a legend has so many letters of them, and so many inches for a line.
_LEGEND_LETTERS = 48
_LEGEND_LINE = 0.22


def draw_learning_curves(groups):
    """Returns the bytes of a PNG file: losses and validation BLEU against updates, a line a run.

    One recipe's runs have a color each; of several recipes, each has a color.

    Args:
        groups: what `group_by_recipe` gave.
    """
    runs = list(_colored(groups))
    panels = [draw_losses]
    if any(run.curve("validation", "bleu")[0] for run, _ in runs):
        panels.append(draw_bleu)
    handles = _legend_handles(groups)
    columns = len(panels) if len(groups) > 1 else min(3 * len(panels), len(handles))
    height = 4 + _LEGEND_LINE * -(-len(handles) // columns)
    with _picture((5 * len(panels), height)) as (figure, content):
        for axes, draw in zip(
            figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True
        ):
            draw(axes, runs)
            axes.set_xlim(left=0)
            axes.set_xlabel("updates")
            axes.xaxis.set_major_formatter("{x:,.0f}")
            _tidy(axes)
            _add_epochs(axes, runs)
        figure.legend(handles=handles, loc="outside lower center", ncols=columns, frameon=False)
    return content.getvalue()


def draw_bleu_by_length(groups_by_name):
    """Returns the bytes of a PNG file: BLEU by source length, means and spreads over the runs.

    Args:
        groups_by_name: by the recipe's name, what `quality_by_length` gave for each of its runs.
    """
    has_legend = len(groups_by_name) > 1
    height = 4 + _LEGEND_LINE * len(groups_by_name) * has_legend
    with _picture((6.4, height)) as (figure, content):
        axes = figure.subplots()
        for number, (name, runs) in enumerate(groups_by_name.items()):
            # Beside each other, not on top of each other.
            shift = 0.12 * (number - (len(groups_by_name) - 1) / 2)
            measures = [
                Measure.of(each["bleu"] for each in group) for group in zip(*runs, strict=True)
            ]
            means = [measure.mean for measure in measures]
            axes.errorbar(
                [place + shift for place in range(len(means))],
                means,
                # All that lie below the means, and all above them.
                yerr=list(zip(*map(_distances, measures), strict=True)),
                color=_COLOURS[number % len(_COLOURS)],
                marker=_MARKERS[number % len(_MARKERS)],
                markersize=5,
                linewidth=1.5,
                elinewidth=1.2,
                capsize=4,
                label=_short(name),
            )
        lengths = next(iter(groups_by_name.values()))[0]
        axes.set_xticks(range(len(lengths)), [_describe_lengths(group) for group in lengths])
        axes.set_xlabel("source length in words (number of sentences)")
        axes.set_ylabel("test BLEU")
        _tidy(axes)
        axes.grid(visible=False, axis="x")
        if has_legend:
            figure.legend(loc="outside lower center", frameon=False)
    return content.getvalue()


@contextlib.contextmanager
def _picture(size):
    """Gives a figure and the buffer that holds its PNG file in the end."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    content = io.BytesIO()
    # The settings of the user's own matplotlibrc are for other pictures.
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        figure = Figure(figsize=size, dpi=150, layout="constrained")
        figure.get_layout_engine().set(w_pad=0.08, h_pad=0.08)
        yield figure, content
        FigureCanvasAgg(figure).print_png(content)


def _colored(groups):
    """Yields each run with its color."""
    for number, runs in enumerate(groups.values()):
        for place, run in enumerate(runs):
            yield run, _COLOURS[(number if len(groups) > 1 else place) % len(_COLOURS)]


def draw_losses(axes, runs):
    """Draws the losses of training and validation.

    Args:
        axes: of matplotlib.
        runs: pairs of a `FinishedRun` and its color.
    """
    highest = []
    for run, color in runs:
        axes.plot(*run.curve("train", "loss"), color=color, linewidth=1, linestyle="--")
        updates, losses = run.curve("validation", "loss")
        axes.plot(updates, losses, color=color, linewidth=1.5)
        _draw_final(axes, run, "loss", color)
        highest += losses
    if highest:
        # The losses before the first validation are far above, and would take all of the height.
        axes.set_ylim(top=1.1 * max(highest))
    axes.set_ylabel("loss, nats per target token")


def draw_bleu(axes, runs):
    """Draws validation BLEU; see `draw_losses`."""
    for run, color in runs:
        axes.plot(*run.curve("validation", "bleu"), color=color, linewidth=1.5)
        _draw_final(axes, run, "bleu", color)
    axes.set_ylabel("validation BLEU")


def _draw_final(axes, run, metric, color):
    """Marks what the final weights reach, which may be an average of those along the curve."""
    if metric in run.result.validation:
        place = run.result.steps, run.result.validation[metric]
        axes.plot(*place, color=color, marker="*", markersize=9, clip_on=False, zorder=3)


def _add_epochs(axes, runs):
    """Adds an axis of epochs, if an epoch has as many updates in all runs."""
    sizes = {
        round(line["update"] / line["epoch"], 2) for run, _ in runs for line in run.metrics[-1:]
    }
    if len(sizes) == 1:
        (updates,) = sizes
        epochs = axes.secondary_xaxis(
            "top", functions=(lambda x: x / updates, lambda epoch: epoch * updates)
        )
        epochs.set_xlabel("epochs")
        epochs.spines["top"].set_visible(False)


def _legend_handles(groups):
    from matplotlib.lines import Line2D

    if len(groups) > 1:
        names = [
            f"{_short(name)} ({len(runs)} {'seed' if len(runs) == 1 else 'seeds'})"
            for name, runs in groups.items()
        ]
    else:
        names = [f"seed {run.seed}" for runs in groups.values() for run in runs]
    handles = [
        Line2D([], [], color=_COLOURS[number % len(_COLOURS)], linewidth=1.5, label=name)
        for number, name in enumerate(names)
    ]
    return [
        *handles,
        Line2D([], [], color="gray", linewidth=1, linestyle="--", label="training"),
        Line2D([], [], color="gray", linewidth=1.5, label="validation"),
        Line2D([], [], color="gray", linestyle="", marker="*", markersize=9, label="final weights"),
    ]


def _tidy(axes):
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    axes.set_axisbelow(True)


def _distances(measure):
    """How far below its mean a measure's values reach, and how far above.

    >>> _distances(Measure.of([1.0, 2.0, 6.0]))
    (2.0, 3.0)
    """
    # The mean of equal numbers may differ from them in its last digit.
    below, above = measure.mean - min(measure.values), max(measure.values) - measure.mean
    return max(0.0, below), max(0.0, above)


def _describe_lengths(group):
    """A group of lengths as it stands under the axis.

    >>> _describe_lengths({"least": 4, "most": 8, "sentences": 1170})
    '4–8\\n(1,170)'
    """
    least, most = group["least"], group["most"]
    lengths = f"{least}–{most}" if least < most else f"{least}"
    return f"{lengths}\n({group['sentences']:,})"


def _short(name):
    is_long = len(name) > _LEGEND_LETTERS
    return name[: _LEGEND_LETTERS - 1] + "…" if is_long else name
