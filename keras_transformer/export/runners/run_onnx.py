"""Translates or continues lines of text with ONNX Runtime, by greedy search: python run.py < FILE

Needs onnxruntime, NumPy, and sentencepiece if the model has such a tokenizer.
"""

import os
import sys
from typing import Any

import numpy as np
import onnxruntime

sys.dont_write_bytecode = True  # an export holds the files of its manifest and no others
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import texts  # noqa: E402


class Model:
    """A model in a directory, from texts to texts.

    Args:
        directory: directory of the export.
        num_threads: number of threads. Default 1.
    """

    def __init__(self, directory: str, num_threads: int = 1) -> None:
        self.texts: texts.Texts = texts.Texts(directory)
        options: Any = onnxruntime.SessionOptions()
        options.intra_op_num_threads = num_threads

        def load(name: str) -> Any:
            path = os.path.join(directory, name)
            return onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])

        self.step: Any = load("step.onnx")
        self.encode: Any | None = load("encode.onnx") if self.texts.is_translation else None
        self.inputs: dict[Any, Any] = {each.name: each for each in self.step.get_inputs()}
        self.outputs: list[Any] = [each.name for each in self.step.get_outputs()]

    def generate(
        self, given: list[bytes], beams: int | None = None, with_scores: bool = True
    ) -> dict[str, list[Any]]:
        """Returns the most likely next tokens of each text, as a text, and its score.

        Args:
            given: source texts or prompts.
            beams: 1, or None, as there is greedy search alone.
            with_scores: whether scores are wanted. Default True.
        """
        if beams not in (None, 1):
            raise ValueError("The export has greedy search alone.")
        io, answers, scores = self.texts, [], []
        read = [io.read(text) for text in given]
        for text, before, found in zip(given, read, self._search(read), strict=True):
            ids, log_probability = found
            answers.append(b"" if io.is_blank(text) else io.answer(before, ids))
            scores.append(0.0 if io.is_blank(text) else io.score(log_probability, len(ids)))
        return {"text": answers, "score": scores} if with_scores else {"text": answers}

    def _search(self, read: list[list[int]]) -> list[tuple[list[int], float]]:
        """Returns the ids that are added to each row, with the end id, and their probability."""
        io, rows = self.texts, len(read)
        prompts = [[]] * rows if io.is_translation else read
        limits = [io.lengths(len(row)) for row in read]
        state = self._initial_state(read)
        latest = np.full([rows], io.start, np.int32)
        added: list[list[int]] = [[] for _ in read]
        sums, is_done = np.zeros([rows]), np.zeros([rows], bool)
        forbidden = [{io.padding, io.start, *io.settings["search"]["forbidden_ids"]} - {io.end}]
        step = 0
        while not is_done.all():
            results = self.step.run(None, {"ids": latest, **state})
            outputs = dict(zip(self.outputs, results, strict=True))
            logits = outputs.pop("logits").astype(np.float64)
            state |= {name.removeprefix("next_"): value for name, value in outputs.items()}
            largest = logits.max(axis=1, keepdims=True)
            logs = logits - largest - np.log(np.exp(logits - largest).sum(axis=1, keepdims=True))
            for row in np.flatnonzero(~is_done):
                if step < len(prompts[row]):
                    latest[row] = prompts[row][step]
                    continue
                (shortest, longest), count = limits[row], len(added[row]) + 1
                allowed = logs[row].copy()
                allowed[[*forbidden[0], *([io.end] if count < shortest else [])]] = -np.inf
                latest[row] = io.end if count >= longest else allowed.argmax()
                sums[row] += logs[row, latest[row]]
                added[row].append(int(latest[row]))
                is_done[row] = latest[row] == io.end
            step += 1
        return list(zip(added, sums.tolist(), strict=True))

    def _initial_state(self, read: list[list[int]]) -> dict[str, np.ndarray]:
        """Returns the state before the first token: of the sources, and caches without entries."""
        known: dict[str, np.ndarray] = {}
        if self.encode is not None:
            ids = np.full([len(read), max(map(len, read))], self.texts.padding, np.int32)
            for row, numbers in zip(ids, read, strict=True):
                row[: len(numbers)] = numbers
            names = [each.name for each in self.encode.get_outputs()]
            known = dict(zip(names, self.encode.run(None, {"source": ids}), strict=True))
        dtypes = {"tensor(float)": np.float32, "tensor(bool)": np.bool_, "tensor(int32)": np.int32}
        for name, each in self.inputs.items():
            if name != "ids" and name not in known:
                sizes = [size if isinstance(size, int) else 0 for size in each.shape[1:]]
                shape = [len(read), *sizes] if each.shape else []
                known[name] = np.zeros(shape, dtypes[each.type])
        return known


if __name__ == "__main__":
    sys.exit(texts.main(Model, __doc__ or ""))
