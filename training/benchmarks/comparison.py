"""Rounds in which every contender is measured once, one after the other."""

import dataclasses
import pathlib

from keras_transformer._utils.errors import UserError
from training.benchmarks.processes import MeasurementError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """Measures contenders in turn, so that whatever disturbs the machine disturbs all alike.

    Attributes:
        cells: the `Cell`s.
        processes: the `Processes` that measure.
        work: a directory for the SavedModels that are decoded with.
        peers: the folder that the peers' set-up has filled, or None.
        data: the directory of the `Workload`, or None.
        rounds: how often each contender is measured.
        batches: training batches of a repeat.
        repeats: how often a process times its work.
        peak: the machine's matrix-multiply peak in GFLOP/s, for utilization; or None.
        say: is called with a line for people who wait.
        warn: is called with a line about a contender that failed.
    """

    cells: list
    processes: object
    work: pathlib.Path
    peers: pathlib.Path | None = None
    data: pathlib.Path | None = None
    rounds: int = 1
    batches: int = 6
    repeats: int = 3
    peak: float | None = None
    say: object = print
    warn: object = print

    def rows(self):
        """Yields the rows of JSON as they come, with `contender` and `round` beside the rest.

        A contender that fails is left out from then on.
        """
        failed = set()
        for number in range(1, self.rounds + 1):
            for cell in self.cells:
                # To and fro: whoever comes first in one round comes last in the next.
                for contender in cell.contenders[:: 1 if number % 2 else -1]:
                    if (cell.name, contender.name) in failed:
                        continue
                    self.say(f"Round {number} of {self.rounds}: {cell.name}: {contender.name}")
                    try:
                        row = self._measure(cell, contender)
                    except MeasurementError as error:
                        failed.add((cell.name, contender.name))
                        self.warn(f"{cell.name}: {contender.name} is left out, {error}")
                        continue
                    yield {**row, "contender": contender.name, "round": number}

    def _measure(self, cell, contender):
        if contender.is_ours:
            row = self._measure_ours(cell, contender)
        else:
            row = self._measure_peer(cell, contender)
        if row is None:
            raise MeasurementError("it printed no result")
        if self.peak is not None and "gflops" in row:
            row["mfu"] = round(row["gflops"] / self.peak, 4)
        row["threads"] = self.processes.threads
        return row

    def _measure_ours(self, cell, contender):
        settings = {
            "config": cell.config,
            "repeats": self.repeats,
            "threads": self.processes.threads,
            "data": None if self.data is None else str(self.data),
            **contender.settings,
        }
        if cell.task == "train":
            return self.processes.measure("train", batches=self.batches, **settings)
        directory = self.write_decoder(config=cell.config, beams=cell.beams, **contender.settings)
        return self.processes.measure(
            "decode",
            directory=str(directory),
            beams=cell.beams,
            batch_size=cell.batch_size,
            limit=cell.sentences,
            **settings,
        )

    def write_decoder(self, **settings):
        """Returns the directory of a SavedModel, which is written when it is first needed."""
        name = "_".join(str(value) for value in settings.values())
        directory = self.work / name
        if not directory.exists():
            self.say(f"Writing the SavedModel {name}")
            data = None if self.data is None else str(self.data)
            self.processes.measure("write_decoder", directory=str(directory), data=data, **settings)
        return directory

    def _measure_peer(self, cell, contender):
        arguments = ["--config", cell.config, "--reps", str(self.repeats)]
        if cell.task == "train":
            arguments += ["--n", str(self.batches)]
        else:
            arguments += ["--batch", str(cell.batch_size), "--beam", str(cell.beams)]
            if cell.sentences is not None:
                arguments += ["--limit", str(cell.sentences)]
        rows = run_peer(self.processes, contender, self.peers, arguments)
        return rows[-1] if rows else None


def run_peer(processes, contender, peers, arguments=()):
    """Returns the rows that a peer's script prints; its own log of results stays as it is."""
    return processes.run(
        contender.command(peers, *arguments),
        {**contender.environment, "PEER_RESULTS": ""},
        directory=peers,
    )


def require_peers(path):
    """Returns the folder of the peers if their set-up has filled it."""
    path = pathlib.Path(path)
    for needed in ("common.py", "data/train.npz", "data/test.npz"):
        if not (path / needed).is_file():
            raise UserError(
                f"{path}: {needed} is not there. Give the folder that the peers' setup.sh has "
                "filled."
            )
    return path.resolve()
