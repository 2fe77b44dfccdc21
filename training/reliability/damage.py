"""Damages every file of a finished run, one change at a time; none may stay undetected.

  python -m training.reliability.damage runs/dates
  python -m training.reliability.damage runs/dates --changes 100 --seed 2

Works on a copy. The changes are flipped bits, truncation, added bytes, zeroed blocks, and missing
files. A change is found if reading the part of the run to which the file belongs reports it. Event
files and locks have no manifest and are left alone. The exit code is 1 if a change is undetected.
"""

import argparse
import collections
import pathlib
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence

from keras_transformer._utils.errors import UserError
from keras_transformer.data.token_cache import DamagedCacheError, TokenCache
from keras_transformer.export.manifest import check_files, read_manifest
from keras_transformer.export.trained_model import check_trained_model
from keras_transformer.trainer.checkpoints import Checkpoints, DamagedCheckpointError
from keras_transformer.trainer.run_directory import RunDirectory

FOUND = (UserError, DamagedCheckpointError, DamagedCacheError)

#: Changes of the content of a file by name; None removes the file.
CHANGES: dict[str, Callable[[bytes, random.Random], bytes | None]] = {
    "bit": lambda content, chance: _flip(content, chance.randrange(len(content) * 8)),
    "cut": lambda content, chance: content[: chance.randrange(len(content))],
    "longer": lambda content, chance: content + chance.randbytes(chance.randint(1, 64)),
    "zeros": lambda content, chance: _zero(content, chance.randrange(len(content))),
    "missing": lambda content, chance: None,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", help="the directory of a finished run")
    parser.add_argument("--changes", type=int, default=5, help="of each kind and file (default: 5)")
    parser.add_argument("--seed", type=int, default=1, help="default: 1")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="damage_") as temporary:
        run = shutil.copytree(options.run, pathlib.Path(temporary, "run"))
        counts, undetected = damage(run, options.changes, random.Random(options.seed))
    print(f"{'part':16}{'files':>7}{'changes':>9}{'undetected':>12}")
    for part, (files, changes, wrong) in sorted(counts.items()):
        print(f"{part:16}{files:>7}{changes:>9}{wrong:>12}")
    for line in undetected:
        print(f"UNDETECTED: {line}")
    return 1 if undetected else 0


def damage(
    run: pathlib.Path, changes: int, chance: random.Random
) -> tuple[dict[str, list[int]], list[str]]:
    """Changes each file of a run that this process may damage, and restores it.

    Returns:
        The numbers of files, changes and undetected changes of each part of the run, and a
        description of each undetected change.
    """
    counts: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0, 0])
    undetected = []
    for path, part, check in list(covered_files(run)):
        content = path.read_bytes()
        check()
        counts[part][0] += 1
        for kind, change in CHANGES.items():
            for _ in range(1 if kind == "missing" else changes):
                changed = change(content, chance)
                if changed == content:
                    continue
                path.unlink() if changed is None else path.write_bytes(changed)
                counts[part][1] += 1
                try:
                    check()
                except FOUND:
                    pass
                else:
                    counts[part][2] += 1
                    undetected.append(f"{path.relative_to(run)}: {kind}")
                path.write_bytes(content)
        check()
    return dict(counts), undetected


def covered_files(
    run: pathlib.Path,
) -> Iterator[tuple[pathlib.Path, str, Callable[[], object]]]:
    """Yields each file that has a sum, the part of the run it belongs to, and what reads it."""
    for path in sorted(run.rglob("*")):
        name = path.relative_to(run)
        part = name.parts[0]
        if not path.is_file() or not path.stat().st_size or part == "tensorboard":
            continue
        if part == "model":
            yield path, part, lambda: check_trained_model(run / "model")
        elif part == "checkpoints":
            step = int(name.parts[1].removeprefix("step_"))
            yield path, part, lambda step=step: _checkpoints(run).read(step)
        elif part == "cache" and len(name.parts) > 2:
            yield path, part, lambda folder=path.parent: TokenCache(folder)
        elif part == "export":
            version = run.joinpath(*name.parts[:3])
            yield path, part, lambda version=version: _check_export(version)
        elif part != "cache" and name.suffix != ".lock":
            yield path, "run", lambda: RunDirectory(run).check()


def _checkpoints(run: pathlib.Path) -> Checkpoints:
    return Checkpoints(run / "checkpoints", keep=1, is_writer=False)


def _check_export(version: pathlib.Path) -> None:
    check_files(version, read_manifest(version))


def _flip(content: bytes, bit: int) -> bytes:
    damaged = bytearray(content)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


def _zero(content: bytes, start: int) -> bytes:
    return (content[:start] + bytes(512) + content[start + 512 :])[: len(content)]


if __name__ == "__main__":
    sys.exit(main())
