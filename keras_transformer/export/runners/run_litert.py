"""Translates or continues lines of text with LiteRT: python run.py < FILE

Needs ai-edge-litert, NumPy, and sentencepiece if the model has such a tokenizer.
"""

import os
import sys
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

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
        self.interpreter = open_interpreter(directory, num_threads)
        self.searches: dict[str, Any] = {}

    def generate(
        self, given: list[bytes], beams: int | None = None, with_scores: bool = True
    ) -> dict[str, list[Any]]:
        """Returns the best text for each text, and its score.

        Args:
            given: source texts or prompts.
            beams: 1 for greedy search, or the number of the export, which is the default.
            with_scores: whether scores are wanted. Default True.
        """
        wanted, own = beams, self.texts.settings["search"]["beams"]
        if wanted not in (None, 1, own):
            raise ValueError(f"The export has searches with 1 and {own} beams, not {wanted}.")
        search = self._search("greedy" if wanted == 1 else "search")
        read = [self.texts.read(text) for text in given]
        ids = np.full([len(read), max(1, *map(len, read))], self.texts.padding, np.int32)
        for row, numbers in zip(ids, read, strict=True):
            row[: len(numbers)] = numbers
        found = search(ids=ids)
        answers, scores = [], []
        for text, tokens, score in zip(given, found["ids"], found["score"], strict=True):
            is_blank = self.texts.is_blank(text)
            # The ids of a language model begin with those of the prompt.
            answers.append(b"" if is_blank else self.texts.answer([], tokens[0].tolist()))
            scores.append(0.0 if is_blank else float(score[0]))
        return {"text": answers, "score": scores} if with_scores else {"text": answers}

    def _search(self, name: str) -> Any:
        if name not in self.searches:
            self.searches[name] = self.interpreter.get_signature_runner(name)
        return self.searches[name]


def open_interpreter(directory: str, num_threads: int = 1) -> Interpreter:
    """Returns the interpreter of an export.

    It has no delegate: XNNPACK, the default one, gives wrong answers to the first batch of some
    sizes, because shapes are not fixed.
    """
    return Interpreter(
        model_path=os.path.join(directory, "model.tflite"),
        num_threads=num_threads,
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )


if __name__ == "__main__":
    sys.exit(texts.main(Model, __doc__ or ""))
