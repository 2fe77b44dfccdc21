"""Finished runs that nobody has trained."""

import json
import math

from keras_transformer.trainer import Recipe, TrainingResult
from keras_transformer.trainer.training_result import store_result

UPDATES_PER_EPOCH = 125


def write_run(
    path,
    seed=1,
    *,
    bleu=30.0,
    updates=1000,
    dropout=0.3,
    task="translation",
    search=None,
    test=None,
    train=("train.en", "train.de"),
    bleu_tokens="none",
):
    """Writes what a finished run leaves, but for its model; returns the directory.

    Args:
        path: of the directory.
        seed, dropout, task, search, test, train, bleu_tokens: of the recipe.
        bleu: on the validation data, of the final weights; None for a run that translates nothing.
        updates: that were made.
    """
    path.mkdir(parents=True)
    recipe = Recipe.from_dictionary(
        {
            "name": "captions",
            "task": task,
            "seed": seed,
            "data": {
                "train": list(train) if task == "translation" else "train.txt",
                "test": test or {},
            },
            "text": {"tokenizer": "bytes"},
            "model": {"preset": "tiny", "dropout": dropout},
            "training": {"steps": 1000},
            "evaluation": {"bleu_tokens": bleu_tokens, "search": search or {}},
        }
    )
    (path / "recipe.yaml").write_text(recipe.to_yaml())
    lines = list(_metric_lines(seed, bleu, updates))
    (path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = TrainingResult(
        name="captions",
        run_directory=path,
        steps=updates,
        epochs=updates / UPDATES_PER_EPOCH,
        seconds=90.0 * seed,
        parameters=2_345_678,
        tensorboard=path / "tensorboard",
        validation={"loss": 1.9} | ({} if bleu is None else {"bleu": bleu}),
    )
    store_result(path / "result.json", result)
    return path


def _metric_lines(seed, bleu, updates):
    for update in range(50, updates + 1, 50):
        place = {"update": update, "epoch": update / UPDATES_PER_EPOCH}
        loss = 2 + 6 * math.exp(-update / 200) + 0.1 * seed
        yield {"split": "train", **place, "loss": loss}
        if update % 100 == 0:
            quality = {} if bleu is None else {"bleu": bleu * (1 - math.exp(-update / 300))}
            yield {"split": "validation", **place, "loss": loss - 0.3, **quality}
