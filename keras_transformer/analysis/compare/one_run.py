"""One model trained with one seed, and all that is measured of it."""

import dataclasses
import itertools
import json
import statistics

import keras

from keras_transformer._utils.files import atomic_file
from keras_transformer._utils.process import peak_memory
from keras_transformer.analysis.compare.results import distance_of_test, quality_by_length
from keras_transformer.data.corpora.conllu import conllu_text
from keras_transformer.export import open_text_model
from keras_transformer.inference import translate_lines
from keras_transformer.text import TokenizerPair
from keras_transformer.trainer import train
from keras_transformer.trainer.preparation import Corpora, model_texts
from keras_transformer.trainer.recipes import load_recipe


class SpeedLog(keras.callbacks.Callback):
    """Adds a line to a file with each point of the training curve, and one at the end.

    A run that is stopped and goes on has other processes, each of which traces the model first: the
    first line of each is marked, and its speed does not count. At the end test sets have been
    translated as well: the memory of that line counts only if there is no other.

    Args:
        path: of the JSON lines.
    """

    def __init__(self, path):
        super().__init__()
        self._path = path
        self._is_first = True

    def on_train_batch_end(self, batch, logs=None):
        self._write(
            update=batch + 1,
            tokens_per_second=logs["tokens_per_second"],
            is_first=self._is_first,
        )
        self._is_first = False

    def on_train_end(self, logs=None):
        self._write(update=None)

    def _write(self, **line):
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**line, "peak_memory_mb": peak_memory()}) + "\n")

    def summary(self):
        """The median of tokens per second, and the most memory; None where nothing was seen."""
        lines = []
        if self._path.exists():
            text = self._path.read_text(encoding="utf-8")
            # The last one may be torn, if the process was killed.
            lines = [json.loads(line) for line in text.splitlines() if line.endswith("}")]
        points = [line for line in lines if line["update"] is not None]
        counted = [line for line in points if not line["is_first"]] or points
        rates = [line["tokens_per_second"] for line in counted]
        memory = [line["peak_memory_mb"] for line in points or lines]
        return {
            "tokens_per_second": statistics.median(rates) if rates else None,
            "peak_memory_mb": max(memory, default=None),
        }


def measure_run(place, report=None):
    """Trains a model, or goes on where that was stopped, and stores what came out.

    The memory is that of this process: call it in a fresh one.

    Args:
        place: the `RunPlace`, with its recipe.
        report: a `TrainingReport`; by default nothing is said.
    """
    recipe = load_recipe(place.recipe)
    speed = SpeedLog(place.speed)
    result = train(recipe, place.run, report=report, callbacks=[speed])
    measured = {
        "parameters": result.parameters,
        "updates": result.steps,
        "validation": result.validation,
        "tests": {
            name: {
                "sentences": test.sentences,
                "bleu": test.bleu,
                "exact_match": test.exact_match_share,
            }
            for name, test in result.tests.items()
        },
        **speed.summary(),
        "by_length": _measure_lengths(recipe, place) if recipe.task == "translation" else [],
    }
    with atomic_file(place.measured) as file:
        file.write(json.dumps(measured, indent=1) + "\n")


def _measure_lengths(recipe, place):
    """Quality by source length, on the first test set that is not of one distance."""
    pairs = _texts(recipe)
    if not pairs:
        return []
    sources, references = map(list, zip(*pairs, strict=True))
    search = dataclasses.asdict(recipe.evaluation.search_settings())
    translations = translate_lines(open_text_model(place.run, **search), sources)
    hypotheses = [translation.text for translation in translations]
    tokenizer = TokenizerPair.load(place.run / "tokenizers").source
    read = [conllu_text(source) for source in sources]
    lengths = tokenizer.tokenize(read).row_lengths().numpy().tolist()
    bleu_tokens = recipe.evaluation.bleu_tokens
    return quality_by_length(lengths, sources, hypotheses, references, bleu_tokens)


def _texts(recipe):
    corpora = Corpora.of(recipe.data)
    for name, corpus in corpora.tests.items():
        if distance_of_test(name) is None:
            return list(model_texts(recipe, corpus))
    if corpora.validation is None:
        return []
    texts = model_texts(recipe, corpora.validation)
    return list(itertools.islice(texts, recipe.evaluation.sentences))
