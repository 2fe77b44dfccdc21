"""Translates or continues lines of text with CTranslate2: python run.py < FILE

Needs ctranslate2, and sentencepiece if the model has such a tokenizer.
"""

import json
import os
import sys
from typing import Any

import ctranslate2

sys.dont_write_bytecode = True  # an export holds the files of its manifest and no others
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import texts  # noqa: E402


class Model:
    """A model in a directory, from texts to texts.

    Args:
        directory: directory of the export.
        **options: options of `ctranslate2.Translator` or `ctranslate2.Generator`.
    """

    def __init__(self, directory: str, **options: Any) -> None:
        self.texts: texts.Texts = texts.Texts(directory)
        names = {"source": ("source", "shared"), "target": ("target", "shared")}
        if not self.texts.is_translation:
            names = dict.fromkeys(names, ("",))
        self.tokens: dict[str, list[str]] = {
            side: _read_vocabulary(directory, names[side]) for side in names
        }
        self.numbers: dict[str, int] = {
            token: number for number, token in enumerate(self.tokens["target"])
        }
        kind = ctranslate2.Translator if self.texts.is_translation else ctranslate2.Generator
        self.model: Any = kind(directory, device="cpu", **options)

    def generate(
        self, given: list[bytes], beams: int | None = None, with_scores: bool = True
    ) -> dict[str, list[Any]]:
        """Returns the best text for each text, and its score.

        Args:
            given: source texts or prompts.
            beams: number of hypotheses; 1 is greedy search. Default: that of the export.
            with_scores: whether to return scores, which need a second pass: CTranslate2 computes
                its own after it has excluded tokens such as padding. Default True.
        """
        read = [self.texts.read(text) for text in given]
        # Beside a row with the start id alone, CTranslate2 counts prompts as generated tokens.
        groups: dict[tuple[tuple[int, int], bool], list[int]] = {}
        for row, text in enumerate(given):
            if not self.texts.is_blank(text):
                key = self.texts.lengths(len(read[row])), bool(read[row])
                groups.setdefault(key, []).append(row)
        found: dict[int, list[int]] = {}
        for (lengths, _), rows in groups.items():
            best = self._search([read[row] for row in rows], *lengths, beams)
            found |= dict(zip(rows, best, strict=True))
        outputs: dict[str, list[Any]] = {
            "text": [
                self.texts.answer(read[row], found[row]) if row in found else b""
                for row in range(len(given))
            ]
        }
        if with_scores:
            pairs = [(read[row], [*ids, self.texts.end]) for row, ids in found.items()]
            sums = dict(zip(found, self._log_probabilities(pairs), strict=True))
            outputs["score"] = [
                self.texts.score(sums[row], len(found[row]) + 1) if row in found else 0.0
                for row in range(len(given))
            ]
        return outputs

    def score(self, sources: list[bytes], targets: list[bytes]) -> dict[str, list[Any]]:
        """Returns the log-probability of each target, and its number of tokens."""
        pairs = []
        for source, target in zip(sources, targets, strict=True):
            before, after = self.texts.read(source), self.texts.target_ids(target)
            if not self.texts.is_translation:
                too_many = len(before) + len(after) - self.texts.settings["scored_tokens"]
                before = before[max(0, too_many) :]
            pairs.append((before, after))
        sums = self._log_probabilities(pairs)
        tokens = [len(after) for _, after in pairs]
        for row, texts_of_row in enumerate(zip(sources, targets, strict=True)):
            if self.texts.is_blank(texts_of_row[0]) and not texts_of_row[1]:
                sums[row], tokens[row] = 0.0, 0
        return {"log_probability": sums, "tokens": tokens}

    def _search(
        self, read: list[list[int]], shortest: int, longest: int, beams: int | None
    ) -> list[list[int]]:
        """Returns the ids of the best hypothesis of each row, without the end id."""
        search = self.texts.settings["search"]
        beams = beams or search["beams"]
        forbidden = {self.texts.padding, self.texts.start, *search["forbidden_ids"]}
        tokens = self.tokens["target"]
        options = {
            "beam_size": beams,
            "num_hypotheses": beams,
            # The formula of CTranslate2 is another one: it returns sums, which are ranked here.
            "length_penalty": 0,
            "no_repeat_ngram_size": search["no_repeat_ngram"],
            "suppress_sequences": [[tokens[number]] for number in forbidden - {self.texts.end}],
            "return_scores": True,
            "return_end_token": True,
        }
        # The limits count the end id, those of CTranslate2 do not.
        room, least = longest - 1, max(shortest - 1, 0)
        if room == 0:
            found: list[list[tuple[list[str], float]]] = [[([], 0.0)] for _ in read]
        elif self.texts.is_translation:
            source = [[self.tokens["source"][number] for number in row] for row in read]
            lengths = {"max_decoding_length": room, "min_decoding_length": least}
            results = self.model.translate_batch(source, **lengths, **options)
            found = [list(zip(each.hypotheses, each.scores, strict=True)) for each in results]
        else:
            prompts = [[tokens[number] for number in (self.texts.start, *row)] for row in read]
            lengths = {"max_length": room, "min_length": least, "include_prompt_in_result": False}
            results = self.model.generate_batch(prompts, **lengths, **options)
            found = [list(zip(each.sequences, each.scores, strict=True)) for each in results]
        return [self._best(row) for row in found]

    def _best(self, hypotheses: list[tuple[list[str], float]]) -> list[int]:
        """Returns the ids of the best hypothesis of a row, without the end id."""
        ranked = []
        for tokens, log_probability in hypotheses:
            ids = [self.numbers[token] for token in tokens]
            ids = ids[:-1] if ids[-1:] == [self.texts.end] else ids
            ranked.append((self.texts.score(log_probability, len(ids) + 1), ids))
        return max(ranked)[1]

    def _log_probabilities(self, pairs: list[tuple[list[int], list[int]]]) -> list[float]:
        """Returns the log-probability of the ids after each source or prompt."""
        tokens = self.tokens["target"]
        if self.texts.is_translation:
            results = self.model.score_batch(
                [[self.tokens["source"][number] for number in before] for before, _ in pairs],
                [[tokens[number] for number in after[:-1]] for _, after in pairs],
            )
        else:
            rows = [[self.texts.start, *before, *after] for before, after in pairs]
            results = self.model.score_batch([[tokens[number] for number in row] for row in rows])
        return [
            float(sum(result.log_probs[-len(after) :]))
            for result, (_, after) in zip(results, pairs, strict=True)
        ]


def _read_vocabulary(directory: str, names: tuple[str, ...]) -> list[str]:
    paths = [os.path.join(directory, f"{name}_vocabulary.json".lstrip("_")) for name in names]
    path = next(path for path in paths if os.path.exists(path))
    with open(path, encoding="utf-8") as file:
        return json.load(file)


if __name__ == "__main__":
    sys.exit(texts.main(Model, __doc__ or ""))
