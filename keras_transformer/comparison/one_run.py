"""One model trained with one seed, and all that is measured of it."""

import dataclasses
import itertools
import json

from keras_transformer.atomic import atomic_file
from keras_transformer.comparison.distances import distance_of_test
from keras_transformer.comparison.quality_by_length import quality_by_length
from keras_transformer.comparison.speed_log import SpeedLog
from keras_transformer.data.corpora.conllu_text import conllu_text
from keras_transformer.export import open_text_model
from keras_transformer.inference import translate_lines
from keras_transformer.text import TokenizerPair
from keras_transformer.trainer import train
from keras_transformer.trainer.preparation import Corpora, model_texts
from keras_transformer.trainer.recipe import load_recipe


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
