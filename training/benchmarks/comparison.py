"""Tasks, contenders, and rounds in which each contender is measured once."""

import dataclasses
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from keras_transformer._utils.errors import UserError
from training.benchmarks.decoding_speed import FORCED_LENGTH, KINDS
from training.benchmarks.processes import MeasurementError, Processes, run_peer_script
from training.benchmarks.timing import Row, decoding_task
from training.benchmarks.training_speed import WAYS
from training.benchmarks.workload import require_files

#: Maximum number of sentences to decode, by batch size and beam size. None: all.
SENTENCES = {(32, 1): None, (32, 4): 320, (1, 1): 100, (1, 4): 100}


@dataclasses.dataclass(frozen=True)
class Contender:
    """A library, or a variant of one, that is measured.

    Attributes:
        name: its name in tables.
        is_ours: whether it is this package.
        settings: for this package, keyword arguments of the measurement.
        venv: for a peer, the virtual environment of its script.
        script: for a peer, its script in `training/benchmarks/peers`.
        arguments: for a peer, further arguments of the script.
        variables: for a peer, further environment variables.
    """

    name: str
    is_ours: bool = False
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    venv: str = ""
    script: str = ""
    arguments: tuple[str, ...] = ()
    variables: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Task:
    """Work that all contenders do.

    Attributes:
        kind: such as "train", "infer_greedy" or "infer_beam4".
        config: name of the model.
        batch_size: for decoding, sentences per call.
        beams: for decoding, the beam size.
        sentences: for decoding, the maximum number of sentences. None: all.
        contenders: the contenders that can do it.
    """

    kind: str
    config: str
    batch_size: int | None = None
    beams: int | None = None
    sentences: int | None = None
    contenders: tuple[Contender, ...] = ()

    @property
    def name(self) -> str:
        """The name in messages."""
        batch = "" if self.batch_size is None else f", batch {self.batch_size}"
        return f"{self.kind} {self.config}{batch}"


_ONE_DNN = {"TF_ENABLE_ONEDNN_OPTS": "1"}
_FORCED = {"FORCED_LENGTH": str(FORCED_LENGTH)}

_TRAINING = (
    *(Contender(f"keras_transformer {way}", True, {"way": way}) for way in WAYS),
    Contender("PyTorch", venv="pytorch", script="train_torch.py"),
    Contender("HF Marian", venv="pytorch", script="train_hf.py"),
    Contender(
        "KerasHub",
        venv="keras",
        script="train_keras.py",
        arguments=("--layers", "hub"),
        variables=_ONE_DNN,
    ),
    Contender(
        "Keras layers, tied",
        venv="keras",
        script="train_keras.py",
        arguments=("--layers", "keras", "--tied"),
        variables=_ONE_DNN,
    ),
    Contender("OpenNMT-tf", venv="opennmt", script="train_opennmt.py"),
    Contender("JoeyNMT", venv="joeynmt", script="train_joeynmt.py"),
)

_DECODING = (
    *(
        Contender(
            f"keras_transformer {'xla' if xla else 'plain'}{' strings' * (kind == 'strings')}",
            True,
            {"kind": kind, "xla": xla},
        )
        for kind in KINDS
        for xla in (False, True)
    ),
    *(
        Contender(
            f"CTranslate2 {kind}",
            venv="pytorch",
            script="decode_ctranslate2.py",
            arguments=("--type", kind),
            variables=_FORCED,
        )
        for kind in ("float32", "int8")
    ),
    Contender("HF generate", venv="pytorch", script="decode_hf.py", variables=_FORCED),
    Contender("PyTorch by hand", venv="pytorch", script="decode_torch.py", variables=_FORCED),
    Contender(
        "KerasHub", venv="keras", script="decode_keras_hub.py", variables={**_ONE_DNN, **_FORCED}
    ),
    Contender("OpenNMT-tf", venv="opennmt", script="decode_opennmt.py", variables=_FORCED),
)


def make_tasks(
    kinds: Sequence[str],
    config: str,
    *,
    batch_sizes: Sequence[int],
    beams: Sequence[int],
    sentences: int | None,
    with_peers: bool,
    names: Sequence[str] | None,
) -> list[Task]:
    """Returns the tasks of a comparison.

    Args:
        kinds: "train", "decode" or both.
        config: name of the model.
        batch_sizes: batch sizes of decoding.
        beams: beam sizes of decoding.
        sentences: maximum number of sentences to decode. None: as in `SENTENCES`.
        with_peers: whether other libraries take part.
        names: names of contenders, or parts of names. None: all.
    """
    contenders_of = {"train": _TRAINING, "decode": _DECODING}
    known = [
        contender
        for kind in kinds
        for contender in contenders_of[kind]
        if contender.is_ours or with_peers
    ]
    chosen = _choose(known, names)
    tasks = []
    for kind in kinds:
        contenders = tuple(each for each in contenders_of[kind] if each in chosen)
        if kind == "train":
            tasks.append(Task("train", config, contenders=contenders))
            continue
        for batch_size in batch_sizes:
            for number in beams:
                usual = SENTENCES.get((batch_size, number), 100)
                most = min(filter(None, (usual, sentences)), default=None)
                name = decoding_task(number)
                tasks.append(Task(name, config, batch_size, number, most, contenders))
    return [task for task in tasks if task.contenders]


def _choose(known: list[Contender], wanted: Sequence[str] | None) -> list[Contender]:
    """Returns the contenders with a wanted name, or whose names contain a wanted part."""
    if not wanted or not known:  # if only the start is measured, there are none to choose from
        return known
    names = list(dict.fromkeys(contender.name for contender in known))
    chosen = set()
    for want in wanted:
        exact = [name for name in names if name.lower() == want.lower()]
        found = exact or [name for name in names if want.lower() in name.lower()]
        if not found:
            raise UserError(
                f"expected a contender, one of {', '.join(names)}; got {want!r}.",
                where="--contenders",
                fix="Other libraries take part with --peers.",
            )
        chosen.update(found)
    return [contender for contender in known if contender.name in chosen]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rounds:
    """Rounds of measurements, in which the contenders take turns.

    A temporary disturbance of the machine then affects all contenders alike.

    Attributes:
        tasks: what is measured.
        processes: the `Processes` that measure.
        work: directory for SavedModels.
        peers: directory that the peers' setup.sh has filled, or None.
        data: directory of the `Workload`, or None for random ids.
        count: number of rounds.
        batches: training batches of a repeat.
        repeats: repeats of each measurement.
        peak: matrix-multiply peak in GFLOP/s, for utilization, or None.
        report: called with a line about what is being measured.
        warn: called with a line about a contender that failed.
    """

    tasks: Sequence[Task]
    processes: Processes
    work: pathlib.Path
    peers: pathlib.Path | None = None
    data: pathlib.Path | None = None
    count: int = 1
    batches: int = 6
    repeats: int = 3
    peak: float | None = None
    report: Callable[[str], object] = print
    warn: Callable[[str], object] = print

    def rows(self) -> Iterator[Row]:
        """Yields the row of each measurement, with its `contender` and `round`.

        A contender that fails at a task is left out of the task from then on.
        """
        failed = set()
        for number in range(1, self.count + 1):
            for task in self.tasks:
                # Every second round has the reverse order, so that no contender is always first.
                for contender in task.contenders[:: 1 if number % 2 else -1]:
                    if (task.name, contender.name) in failed:
                        continue
                    self.report(f"Round {number} of {self.count}: {task.name}: {contender.name}")
                    try:
                        row = self._measure(task, contender)
                    except MeasurementError as error:
                        failed.add((task.name, contender.name))
                        self.warn(f"{task.name}: {contender.name} is left out, {error}")
                        continue
                    yield {**row, "contender": contender.name, "round": number}

    def _measure(self, task: Task, contender: Contender) -> Row:
        measure = self._measure_ours if contender.is_ours else self._measure_peer
        row = measure(task, contender)
        if row is None:
            raise MeasurementError("it printed no result")
        if self.peak is not None and "gflops" in row:
            row["mfu"] = round(row["gflops"] / self.peak, 4)
        row["threads"] = self.processes.threads
        return row

    def _measure_ours(self, task: Task, contender: Contender) -> Row | None:
        settings = {
            "config": task.config,
            "repeats": self.repeats,
            "threads": self.processes.threads,
            "data": None if self.data is None else str(self.data),
            **contender.settings,
        }
        if task.kind == "train":
            return self.processes.measure("train", batches=self.batches, **settings)
        directory = self.write_decoder(config=task.config, beams=task.beams, **contender.settings)
        return self.processes.measure(
            "decode",
            directory=str(directory),
            beams=task.beams,
            batch_size=task.batch_size,
            limit=task.sentences,
            **settings,
        )

    def write_decoder(self, **settings: Any) -> pathlib.Path:
        """Returns the directory of a SavedModel, which is written when it is first needed."""
        name = "_".join(str(value) for value in settings.values())
        directory = self.work / name
        if not directory.exists():
            self.report(f"Writing the SavedModel {name}")
            data = None if self.data is None else str(self.data)
            self.processes.measure("write_decoder", directory=str(directory), data=data, **settings)
        return directory

    def _measure_peer(self, task: Task, contender: Contender) -> Row | None:
        arguments = ["--config", task.config, "--repeats", str(self.repeats)]
        if task.kind == "train":
            arguments += ["--batches", str(self.batches)]
        else:
            arguments += ["--batch-size", str(task.batch_size), "--beams", str(task.beams)]
            if task.sentences is not None:
                arguments += ["--sentences", str(task.sentences)]
        rows = run_peer_script(
            self.processes,
            self.peers,
            contender.venv,
            contender.script,
            [*contender.arguments, *arguments],
            contender.variables,
        )
        return rows[-1] if rows else None


def require_peers(path: str | os.PathLike[str]) -> pathlib.Path:
    """Returns the absolute path of a directory if the peers' setup.sh has filled it."""
    return require_files(path, ["data/train.npz", "data/test.npz"])
