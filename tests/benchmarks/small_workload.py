"""A directory of sentences like that of the peers' setup.sh, small enough to write down."""

import pathlib

import numpy as np

SOURCES = [[5, 6], [7], [8, 9, 10], [11] * 12, [12, 13]]
TARGETS = [[20], [21, 22, 23], [24], [25, 26], [27] * 3]


def write_workload(
    directory: pathlib.Path,
    sources: list[list[int]] = SOURCES,
    targets: list[list[int]] = TARGETS,
) -> pathlib.Path:
    """Writes train.npz and test.npz of the same sentences and returns the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    arrays = {}
    for name, rows in (("src", sources), ("tgt", targets)):
        arrays[name] = np.concatenate(rows).astype(np.int32)
        arrays[f"{name}_len"] = np.array([len(row) for row in rows])
    for split in ("train", "test"):
        np.savez(directory / f"{split}.npz", **arrays)
    return directory


def write_short_sentences(directory: pathlib.Path, pairs: int = 400) -> pathlib.Path:
    """Writes short pairs, of which 400 fill one batch of 4,096 tokens with 341 rows of 12."""
    random = np.random.default_rng(3)
    sources, targets = ([random.integers(4, 60, 4).tolist() for _ in range(pairs)] for _ in "st")
    return write_workload(directory, sources, targets)
