"""Kills a short training again and again, and compares what comes out with an undisturbed one.

  python training/reliability/kill_nine.py
  python training/reliability/kill_nine.py --kills 3

One training is left alone. Another one, with the same recipe, is killed with SIGKILL (kill -9) at
random moments, three of four times while a checkpoint is being written; it is also stopped with
SIGTERM and with Ctrl-C. Each time the same command goes on. In the end all checkpoints (weights and
optimizer), the final weights, the metrics and the events of TensorBoard must be the same, bit for
bit. The exit code is 1 if anything differs. Nothing is kept, unless --directory names a place.
"""

import argparse
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

import h5py
import yaml

STEPS_BETWEEN_CHECKPOINTS = 2
# No start goes on for longer than this before its signal.
MOST_SAVES = 3
# However slow the machine is, a start makes a checkpoint in this time.
LONGEST_START_SECONDS = 600

RECIPE = {
    "name": "reversed",
    "task": "translation",
    "text": {"tokenizer": "bytes"},
    "model": {
        "preset": "tiny",
        "hidden_dim": 32,
        "intermediate_dim": 64,
        "num_heads": 2,
        "num_encoder_layers": 1,
        "num_decoder_layers": 1,
        "max_length": 32,
        "dropout": 0.1,
    },
    "batches": {"tokens": 512, "max_length": 32, "max_buckets": 2, "accumulate": 2},
    "training": {"schedule": "constant", "learning_rate": 0.003, "ema": 0.99, "clip_norm": 1.0},
    "evaluation": {"every": 10, "sentences": 0},
    "checkpoints": {"every": STEPS_BETWEEN_CHECKPOINTS, "keep": 4, "average": 4},
    "tensorboard": {"every": 3, "attention": 0, "samples": 0, "projector": False},
    "export": {"enabled": False},
}


def main(arguments=None):
    """Returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=20, help="how many times (default: 20)")
    parser.add_argument("--seed", type=int, default=1, help="of the random moments (default: 1)")
    parser.add_argument("--directory", help="where to keep all of it; it must not exist")
    options = parser.parse_args(arguments)
    # A shell that starts this in the background has Ctrl-C ignored, by all that it starts in turn.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="kill_nine_") as temporary:
        directory = pathlib.Path(options.directory or f"{temporary}/runs")
        directory.mkdir(parents=True)
        return compare(directory, options.kills, random.Random(options.seed))


def compare(directory, kills, chance):
    """Runs both trainings in a directory; returns the exit code."""
    recipe = write_recipe(directory, kills)
    alone, disturbed = (Run(recipe, directory / name) for name in ("alone", "disturbed"))
    print("Undisturbed …", flush=True)
    seconds = alone.to_its_end()
    print(f"Undisturbed: {seconds:.0f} s.\n")
    print(
        f"{'':>4}  {'signal':9}{'when':27}exit code  {'it left':19}it had gone on from", flush=True
    )
    for number, (stop, saves, limit) in enumerate(moments(kills, chance, seconds), start=1):
        if not disturbed.disturb(number, stop, saves, limit):
            print("The training came to its end before the last signal: give it more updates.")
            return 1
    disturbed.to_its_end()
    print(f"{'':>4}  {'none':9}{'at its end':27}{0:>9}  {'':19}{disturbed.went_on_from()}\n")
    differences = list(differing(alone.directory, disturbed.directory))
    print(f"{disturbed.hits} of {kills} kills left a checkpoint that was half written.")
    for line in differences:
        print(f"DIFFERENT: {line}")
    if not differences:
        print("Weights, optimizer, metrics and events are the same, bit for bit.")
    return 1 if differences else 0


def moments(kills, chance, seconds):
    """Yields signals, each with the number of the save and the seconds before which it is sent."""
    for number in range(1, kills + 1):
        if number % 4 == 0:
            yield signal.SIGKILL, MOST_SAVES, chance.uniform(0, seconds)
        else:
            yield signal.SIGKILL, chance.randint(1, MOST_SAVES), LONGEST_START_SECONDS
    yield signal.SIGTERM, 2, LONGEST_START_SECONDS
    yield signal.SIGINT, 1, LONGEST_START_SECONDS


def write_recipe(directory, kills):
    """Writes corpora and recipe; returns the recipe's path."""
    chance = random.Random(7)
    words = ["".join(chance.choices("abcdefgh", k=chance.randint(3, 12))) for _ in range(300)]
    data = {"train": words[20:], "validation": words[:20]}
    for name, part in data.items():
        path = directory / f"{name}.tsv"
        path.write_text("".join(f"{word}\t{word[::-1]}\n" for word in part))
        data[name] = str(path)
    steps = STEPS_BETWEEN_CHECKPOINTS * (MOST_SAVES * (kills + 2) + 4)
    recipe = {**RECIPE, "data": data, "training": {**RECIPE["training"], "steps": steps}}
    path = directory / "recipe.yaml"
    path.write_text(yaml.safe_dump(recipe))
    return path


class Run:
    """A training in a process of its own, started again and again with the same command."""

    def __init__(self, recipe, directory):
        self.directory = directory
        self.hits = 0
        self._checkpoints = directory / "checkpoints"
        self._log = directory.with_suffix(".log")
        self._command = [sys.executable, "-m", "keras_transformer.cli.main"]
        self._command += ["train", str(recipe), "--run", str(directory)]

    def to_its_end(self):
        """Runs the training until it is finished; returns the seconds that took."""
        start = time.monotonic()
        if self._start().wait() != 0:
            raise SystemExit(f"The training failed:\n{self._log.read_text()}")
        return time.monotonic() - start

    def disturb(self, number, stop, saves, seconds):
        """Starts the training and sends a signal.

        Args:
            number: of the row.
            stop: the signal.
            saves: it is sent in so many-th a save of this start,
            seconds: or after so long, if that comes first.

        Returns:
            Whether there was still something to disturb.
        """
        before = self._half_written()
        process = self._start()
        moment = self._wait(process, saves, seconds, before)
        if process.poll() is not None:
            return False
        process.send_signal(stop)
        exit_code = process.wait()
        expected = -stop if stop == signal.SIGKILL else 128 + stop
        if exit_code != expected:
            raise SystemExit(f"Exit code {exit_code}, not {expected}:\n{self._log.read_text()}")
        is_hit = bool(self._half_written() - before)
        self.hits += is_hit
        print(
            f"{number:>4}  {stop.name:9}{moment:27}{exit_code:>9}  "
            f"{'half a checkpoint' if is_hit else '':19}{self.went_on_from()}",
            flush=True,
        )
        return True

    def went_on_from(self):
        """What the training said about it in its last start."""
        lines = self._log.read_text().splitlines()
        said = [line for line in lines if line.startswith("Going on after")]
        return said[0].removeprefix("Going on after ").rstrip(".") if said else "the beginning"

    def _start(self):
        environment = {**os.environ, "TF_NUM_INTRAOP_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        with self._log.open("w") as log:
            return subprocess.Popen(
                self._command, stdout=log, stderr=subprocess.STDOUT, env=environment
            )

    def _half_written(self):
        """Names of checkpoints that are being written, or were when a process was killed."""
        # One that is being removed, because it is no longer needed, has a shorter ending.
        return {path.name for path in self._checkpoints.glob(f".update_*.{'?' * 16}")}

    def _wait(self, process, saves, seconds, seen):
        """Returns what has come: that save, that time, or the end of the process."""
        end = time.monotonic() + seconds
        count = 0
        while process.poll() is None:
            new = self._half_written() - seen
            seen, count = seen | new, count + len(new)
            if count >= saves:
                return f"in save {count} of this start"
            if time.monotonic() > end:
                return f"after {seconds:.1f} s"
            time.sleep(0.0005)
        return "at its end"


def differing(one, other):
    """Yields what is not the same in two runs."""
    names = sorted(str(path.relative_to(one)) for path in one.glob("checkpoints/*/tensors.*"))
    found = sorted(str(path.relative_to(other)) for path in other.glob("checkpoints/*/tensors.*"))
    # A kill can leave one that is no longer needed.
    if not names or not set(names) <= set(found):
        yield f"checkpoints: {found}, not {names}"
        return
    for name in [*names, "metrics.jsonl"]:
        if (one / name).read_bytes() != (other / name).read_bytes():
            yield name
    weights = "model/model.weights.h5"
    if read_weights(one / weights) != read_weights(other / weights):
        yield weights
    for part in ("train", "validation"):
        if read_events(one / "tensorboard" / part) != read_events(other / "tensorboard" / part):
            yield f"tensorboard/{part}"


def read_weights(path):
    """The bytes of each array by its name; their places in the file differ from time to time."""
    arrays = {}

    def keep(name, item):
        if isinstance(item, h5py.Dataset):
            arrays[name] = item[()].tobytes()

    with h5py.File(path) as file:
        file.visititems(keep)
    return arrays


def read_events(directory):
    """All values in event files, in their order, but for those that depend on the clock."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    return [
        (event.step, value.tag, value.tensor.SerializeToString())
        for path in sorted(directory.glob("events.out.tfevents.*"))
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
        for event in [tf.compat.v1.Event.FromString(record)]
        for value in event.summary.value
        if value.tag != "tokens_per_second"
    ]


if __name__ == "__main__":
    sys.exit(main())
