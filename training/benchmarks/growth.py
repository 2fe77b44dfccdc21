"""Power laws fitted to measurements, and the files with measurements and pictures."""

import dataclasses
import json
import math
import pathlib
from collections.abc import Callable, Iterable, Sequence
from typing import Self

import numpy as np

from keras_transformer._utils.errors import UserError
from keras_transformer._utils.files import atomic_file
from training.benchmarks.timing import Row


@dataclasses.dataclass(frozen=True)
class PowerLaw:
    """The function `factor · x ** exponent`, a straight line on logarithmic axes."""

    factor: float
    exponent: float

    @classmethod
    def fit(cls, x: Sequence[float], y: Sequence[float]) -> Self:
        """Returns the law with the least squares of differences between logarithms.

        >>> law = PowerLaw.fit([1, 10, 100], [3, 30, 300])
        >>> round(law.factor, 6), round(law.exponent, 6)
        (3.0, 1.0)
        """
        exponent, logarithm = np.polyfit(np.log(x), np.log(y), 1)
        return cls(math.exp(logarithm), float(exponent))

    def __call__(self, x: Sequence[float]) -> np.ndarray:
        return self.factor * np.asarray(x, float) ** self.exponent


def coordinates(points: Iterable[Row], name: str) -> tuple[list[float], list[float]]:
    """Returns the field `x` and the field `name` of all rows that have a logarithm."""
    positive = [(row["x"], row[name]) for row in points if row[name] > 0]
    return [x for x, _ in positive], [y for _, y in positive]


def save_growth(
    output: pathlib.Path,
    name: str,
    measured: Iterable[Row],
    fit: Callable[[list[Row]], list[Row]],
    draw: Callable[[list[Row]], bytes],
    report: Callable[[str], object] = print,
) -> bool:
    """Prints rows as they come, and writes them with their fits and a picture.

    Args:
        output: directory of the files.
        name: name of the files, without extension.
        measured: the rows.
        fit: function from these rows to the rows of fits.
        draw: function from these rows to the bytes of a PNG file.
        report: called with a line about the files.

    Returns:
        Whether anything was measured.
    """
    rows = []
    for row in measured:
        print(json.dumps(row), flush=True)
        rows.append(row)
    if not rows:
        return False
    fits = fit(rows)
    for row in fits:
        print(json.dumps(row), flush=True)
    table, picture = (output / f"{name}.{extension}" for extension in ("jsonl", "png"))
    with atomic_file(table) as file:
        file.writelines(json.dumps(row) + "\n" for row in rows + fits)
    with atomic_file(picture, "wb") as file:
        file.write(draw(rows))
    report(f"Saved: {table} and {picture}")
    return True


def require_output_directory(path: str) -> pathlib.Path:
    """Returns a directory, which is created if it does not exist."""
    directory = pathlib.Path(path)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"cannot be created as a directory ({error.strerror}).", where=f"--output {path}"
        ) from error
    return directory
