"""Files of finished runs, written without a training."""

import json
import math

from keras_transformer.trainer import Recipe, TrainingResult
from keras_transformer.trainer.run_directory import RunDirectory
from keras_transformer.trainer.training_result import result_as_json

STEPS_PER_EPOCH = 125


def write_run(
    path,
    seed=1,
    *,
    bleu=30.0,
    steps=1000,
    dropout=0.3,
    task="translation",
    search=None,
    test=None,
    train=("train.en", "train.de"),
    bleu_tokens="none",
):
    """Writes the files of a finished run, except its model; returns the directory.

    Args:
        path: Run directory.
        seed: Seed of the recipe.
        bleu: Validation BLEU of the final weights; None for a run that does not translate.
        steps: Number of training steps.
        dropout: Dropout rate of the recipe.
        task: Task of the recipe.
        search: Search settings of the recipe.
        test: Test sets of the recipe.
        train: Training files of the recipe.
        bleu_tokens: Tokenization of BLEU in the recipe.
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
            "model": {"size": "tiny", "dropout": dropout},
            "training": {"steps": 1000},
            "evaluation": {"bleu_tokens": bleu_tokens, "search": search or {}},
        }
    )
    (path / "recipe.yaml").write_text(recipe.to_yaml())
    lines = list(_metric_lines(seed, bleu, steps))
    (path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = TrainingResult(
        name="captions",
        run_directory=path,
        steps=steps,
        epochs=steps / STEPS_PER_EPOCH,
        seconds=90.0 * seed,
        parameters=2_345_678,
        tensorboard=path / "tensorboard",
        validation={"loss": 1.9} | ({} if bleu is None else {"bleu": bleu}),
    )
    (path / "result.json").write_text(result_as_json(result))
    RunDirectory(path).seal()
    return path


def _metric_lines(seed, bleu, steps):
    for step in range(50, steps + 1, 50):
        place = {"step": step, "epoch": step / STEPS_PER_EPOCH}
        loss = 2 + 6 * math.exp(-step / 200) + 0.1 * seed
        yield {"split": "train", **place, "loss": loss}
        if step % 100 == 0:
            quality = {} if bleu is None else {"bleu": bleu * (1 - math.exp(-step / 300))}
            yield {"split": "validation", **place, "loss": loss - 0.3, **quality}
