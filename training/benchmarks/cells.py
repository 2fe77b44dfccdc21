"""What is compared: a task, and for each contender the way to measure it."""

import dataclasses
import pathlib

from keras_transformer._utils.errors import UserError
from training.benchmarks.decoding_measurement import FORCED_LENGTH, KINDS
from training.benchmarks.rows import task_name
from training.benchmarks.training_measurement import WAYS

#: Sentences to decode at most, for each batch size and number of beams, as the peers' run.sh.
SENTENCES = {(32, 1): None, (32, 4): 320, (1, 1): 100, (1, 4): 100}


@dataclasses.dataclass(frozen=True)
class Contender:
    """One of those that are measured.

    Attributes:
        name: what tables call it.
        is_ours: whether it is this package.
        settings: of ours, the keyword arguments of the measurement that differ.
        python, script, arguments, environment: of a peer, how its script is run: the interpreter
            and the script in the peers' folder, its arguments and variables.
    """

    name: str
    is_ours: bool = False
    settings: dict = dataclasses.field(default_factory=dict)
    python: str = ""
    script: str = ""
    arguments: tuple = ()
    environment: dict = dataclasses.field(default_factory=dict)

    def command(self, peers, *arguments):
        """The command that runs a peer's script in the folder `peers`."""
        python = pathlib.Path(peers, self.python, "bin", "python")
        return [str(python), self.script, *self.arguments, *arguments]


@dataclasses.dataclass(frozen=True)
class Cell:
    """A task that all contenders are given alike.

    Attributes:
        task: "train", "infer_greedy" or "infer_beam4", for example.
        config: the name of the model.
        batch_size, beams, sentences: of decoding.
        contenders: those who take part.
    """

    task: str
    config: str
    batch_size: int | None = None
    beams: int | None = None
    sentences: int | None = None
    contenders: tuple = ()

    @property
    def name(self):
        """What a person reads."""
        batch = "" if self.batch_size is None else f", batch {self.batch_size}"
        return f"{self.task} {self.config}{batch}"


_ONE_DNN = {"TF_ENABLE_ONEDNN_OPTS": "1"}
_FORCED = {"PEER_FORCE": str(FORCED_LENGTH)}

_TRAINING = (
    *(Contender(f"keras_transformer {way}", True, {"way": way}) for way in WAYS),
    Contender("PyTorch", python="vt", script="train_torch.py"),
    Contender("HF Marian", python="vt", script="train_hf.py"),
    Contender(
        "KerasHub",
        python="vk",
        script="train_keras.py",
        arguments=("--impl", "hub"),
        environment=_ONE_DNN,
    ),
    Contender(
        "Keras layers, tied",
        python="vk",
        script="train_keras.py",
        arguments=("--impl", "mha", "--tied"),
        environment=_ONE_DNN,
    ),
    Contender("OpenNMT-tf", python="vo", script="train_onmt.py"),
    Contender("JoeyNMT", python="vj", script="train_joey.py"),
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
            python="vt",
            script="infer_ct2.py",
            arguments=("--type", kind),
            environment=_FORCED,
        )
        for kind in ("float32", "int8")
    ),
    Contender("HF generate", python="vt", script="infer_hf.py", environment=_FORCED),
    Contender("PyTorch by hand", python="vt", script="infer_torch.py", environment=_FORCED),
    Contender("KerasHub", python="vk", script="infer_hub.py", environment={**_ONE_DNN, **_FORCED}),
    Contender("OpenNMT-tf", python="vo", script="infer_onmt.py", environment=_FORCED),
)


def make_cells(tasks, config, *, batch_sizes, beams, sentences, with_peers, wanted):
    """Returns the `Cell`s of a benchmark.

    Args:
        tasks: "train", "decode" or both.
        config: the name of the model.
        batch_sizes, beams: the numbers with which decoding is measured.
        sentences: how many to decode at most; None for as many as the peers' run.sh.
        with_peers: whether others than ours take part.
        wanted: names of contenders, or parts of names, or nothing for all.
    """
    kinds = {"train": _TRAINING, "decode": _DECODING}
    known = [
        contender for task in tasks for contender in kinds[task] if contender.is_ours or with_peers
    ]
    chosen = _choose(known, wanted)
    cells = []
    for task in tasks:
        contenders = tuple(each for each in kinds[task] if each in chosen)
        if task == "train":
            cells.append(Cell("train", config, contenders=contenders))
            continue
        for batch_size in batch_sizes:
            for number in beams:
                usual = SENTENCES.get((batch_size, number), 100)
                least = min(filter(None, (usual, sentences)), default=None)
                cells.append(Cell(task_name(number), config, batch_size, number, least, contenders))
    return [cell for cell in cells if cell.contenders]


def _choose(known, wanted):
    """Those whose names are wanted: a name stands for itself, a part for all that have it."""
    if not wanted or not known:  # nothing to choose from where only the start is measured
        return known
    names = list(dict.fromkeys(contender.name for contender in known))
    chosen = set()
    for want in wanted:
        exact = [name for name in names if name.lower() == want.lower()]
        found = exact or [name for name in names if want.lower() in name.lower()]
        if not found:
            raise UserError(
                f"No contender is called {want!r}; there are {', '.join(names)}. The peers take "
                "part with --peers."
            )
        chosen.update(found)
    return [contender for contender in known if contender.name in chosen]
