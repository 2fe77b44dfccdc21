"""Model, optimizer, loops and callbacks of a recipe."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import keras
import numpy as np
import tensorflow as tf

from keras_transformer._utils.errors import UserError
from keras_transformer.data import Batches
from keras_transformer.losses.cross_entropy import TokenCrossEntropy
from keras_transformer.models import MODELS
from keras_transformer.text import TokenizerPair
from keras_transformer.trainer.attention_maps import AttentionMaps
from keras_transformer.trainer.callbacks import (
    EmbeddingProjector,
    HyperParameters,
    ProfileSteps,
    SampleTranslations,
    WeightHistograms,
)
from keras_transformer.trainer.config import Recipe, TrainingSection
from keras_transformer.trainer.loggers import Logger
from keras_transformer.trainer.section import in_section
from keras_transformer.trainer.signals import StopRequest
from keras_transformer.trainer.source_model import assign_source_weights, freeze_weights
from keras_transformer.trainer.training_loop import TrainingLoop, ValidationLoop
from keras_transformer.trainer.translation_quality import TranslationQuality

if TYPE_CHECKING:
    from keras_transformer.trainer.preparation import PreparedData
    from keras_transformer.trainer.run_directory import RunDirectory


class TrainingParts:
    """Factory of the model and the loops that `train` uses; a subclass can replace them.

    Attributes:
        call_seconds: Seconds that a call of the compiled loop should take. Stop signals are handled
            between calls.
        worker_steps: Maximum number of steps of a call with several workers, whose clocks differ.
    """

    call_seconds: float = 0.5
    worker_steps: int = 10

    def make_stop_request(self, answer: Callable[[str], None]) -> StopRequest:
        """Returns the object that catches stop signals; `answer` shows a text to the user."""
        return StopRequest(answer)

    def set_seed(self, recipe: Recipe) -> None:
        """Seeds all random generators, so that the same recipe gives the same numbers."""
        seed = int(np.random.SeedSequence(recipe.seed).generate_state(1)[0])
        keras.utils.set_random_seed(seed)
        if recipe.training.deterministic:
            tf.config.experimental.enable_op_determinism()

    def make_model(self, recipe: Recipe, tokenizers: TokenizerPair) -> keras.Model:
        """Returns the model for the vocabularies and special ids of the tokenizers.

        Its weights are random, or those of the model that the recipe starts from.
        """
        config = recipe.model.make_config(
            recipe.task,
            tokenizers.source.vocabulary_size,
            None if tokenizers.is_shared else tokenizers.target.vocabulary_size,
            is_packed=recipe.batches.packed,
            special_ids=tokenizers.special_ids,
        )
        kind = next(kind for kind in MODELS.values() if kind.config_class is type(config))
        model = kind.from_settings(config, dtype=recipe.training.precision)
        if recipe.model.source is not None:
            assign_source_weights(model, recipe.model.source)
        try:
            freeze_weights(model, recipe.model.freeze)
        except UserError as error:
            raise in_section(error, "model") from error
        return model

    def make_training_loop(
        self, recipe: Recipe, model: keras.Model, batches: Batches, total_steps: int
    ) -> TrainingLoop:
        """Compiles the model and returns the `TrainingLoop` that trains it."""
        section = recipe.training
        optimizer = make_optimizer(section, model.config.hidden_dim, total_steps)
        loss = TokenCrossEntropy(section.label_smoothing, padding_id=model.special_ids.padding)
        model.compile(optimizer, loss, jit_compile=False)
        return TrainingLoop(
            model,
            batches,
            accumulate=recipe.batches.accumulate,
            jit_compile=section.xla,
            consistency=section.r_drop_alpha,
        )

    def make_validation_loop(self, model: keras.Model, batches: Batches) -> ValidationLoop:
        """Returns the validation loop of the compiled model."""
        return ValidationLoop(model, batches)


def make_optimizer(
    training: TrainingSection, hidden_dim: int, total_steps: int
) -> keras.optimizers.Optimizer:
    """Returns the Keras optimizer of a recipe, for `fit` and for the training loop.

    Args:
        training: The recipe's section `training`.
        hidden_dim: Size of the hidden states, on which the default learning rate depends.
        total_steps: Number of training steps, with which some schedules end.
    """
    shared = {"global_clipnorm": training.clip_norm}
    if training.ema:
        shared |= {"use_ema": True, "ema_momentum": training.ema}
    learning_rate = training.learning_rate_schedule(hidden_dim, total_steps)
    return training.optimizer_config().build(learning_rate, **shared)


def make_quality(
    recipe: Recipe, data: "PreparedData", model: keras.Model
) -> TranslationQuality | None:
    """Returns the callback that measures translations, or None if there is nothing to translate."""
    if recipe.task != "translation":
        return None
    section = recipe.evaluation
    pairs = data.validation_texts[: section.sentences] or next(iter(data.tests.values()), [])
    if not pairs:
        return None
    sources, references = map(list, zip(*pairs, strict=True))
    quality = TranslationQuality(
        data.tokenizers,
        sources,
        references,
        section.search_settings(),
        section.bleu_tokens,
        section.metrics,
    )
    quality.set_model(model)
    return quality


def make_callbacks(
    recipe: Recipe,
    run: "RunDirectory",
    data: "PreparedData",
    quality: TranslationQuality | None,
    logger: Logger,
) -> Iterator[keras.callbacks.Callback]:
    """Yields the callbacks of a recipe, which measure translations and log."""
    section, texts = recipe.tensorboard, data.validation_texts
    has_tensorboard = "tensorboard" in recipe.training.loggers
    dictionary = recipe.to_dictionary()
    names = ("seed", "text", "model", "batches", "training")
    yield HyperParameters(logger, {name: dictionary[name] for name in names}, name=run.path.name)
    if quality is not None and texts and recipe.evaluation.sentences:
        yield quality
        if section.samples:
            yield SampleTranslations(logger, quality, rows=section.samples)
    if section.attention and texts:
        sources, *targets = (list(side) for side in zip(*texts[: section.attention], strict=True))
        yield AttentionMaps(logger, data.tokenizers, sources, targets[0] if targets else None)
    if section.projector and has_tensorboard:
        yield EmbeddingProjector(run.tensorboard, data.tokenizers)
    if section.histograms:
        yield WeightHistograms(logger)
    if section.profile and has_tensorboard:
        yield ProfileSteps(run.tensorboard, *section.profile)
