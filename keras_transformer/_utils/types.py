"""Type aliases that several parts of the package share."""

import os
from typing import TypeAlias

#: Shape of a tensor; None stands for an unknown dimension.
Shape: TypeAlias = tuple[int | None, ...]

#: Path of a file or directory.
Path: TypeAlias = str | os.PathLike[str]
