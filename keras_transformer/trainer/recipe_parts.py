"""What a recipe describes, made: model, loop, the judge of translations, callbacks."""

from keras_transformer.losses import TokenCrossEntropy
from keras_transformer.models import (
    ConvolutionalSeq2Seq,
    LanguageModel,
    RecurrentSeq2Seq,
    Transformer,
)
from keras_transformer.trainer.optimizers import make_optimizer
from keras_transformer.trainer.tensorboard import (
    AttentionMaps,
    EmbeddingProjector,
    HyperParameters,
    ProfileSteps,
    SampleTranslations,
    TrainingScalars,
    WeightHistograms,
)
from keras_transformer.trainer.training_loop import TrainingLoop
from keras_transformer.trainer.translation_quality import TranslationQuality

#: The models that are trained by recipes, by the classes of their configs.
MODELS = {
    model.config_class: model
    for model in (Transformer, RecurrentSeq2Seq, ConvolutionalSeq2Seq, LanguageModel)
}


def make_model(recipe, tokenizers):
    """Makes the untrained model of a recipe, for a vocabulary that was learned."""
    config = recipe.model.make_config(
        recipe.task,
        tokenizers.source.vocabulary_size,
        None if tokenizers.is_shared else tokenizers.target.vocabulary_size,
        is_packed=recipe.batches.packed,
    )
    return MODELS[type(config)](config, dtype=recipe.training.precision)


def make_loop(recipe, model, batches, updates, accumulate):
    """Compiles a recipe's model and returns the `TrainingLoop` that trains it.

    Args:
        recipe: the `Recipe`.
        model: what `make_model` gave.
        batches: the training `Batches`.
        updates: how many there will be, for schedules that end.
        accumulate: batches in an update.
    """
    section = recipe.training
    optimizer = make_optimizer(section, model.config.width, updates)
    model.compile(optimizer, TokenCrossEntropy(section.label_smoothing), jit_compile=False)
    return TrainingLoop(
        model,
        batches,
        accumulate=accumulate,
        jit_compile=section.xla,
        consistency=section.consistency,
    )


def make_quality(recipe, data, model):
    """Makes what judges translations in a training, or None if there is nothing to translate.

    Args:
        recipe: the `Recipe`.
        data: its `PreparedData`.
        model: what `make_model` gave.
    """
    if recipe.task != "translation":
        return None
    count = recipe.evaluation.sentences
    pairs = data.validation_texts[:count] or next(iter(data.tests.values()), [])
    if not pairs:
        return None
    sources, references = map(list, zip(*pairs, strict=True))
    quality = TranslationQuality(
        data.tokenizers,
        sources,
        references,
        recipe.evaluation.search_settings(),
        recipe.evaluation.bleu_tokens,
    )
    quality.set_model(model)
    return quality


def make_callbacks(recipe, run, data, quality):
    """Yields what writes TensorBoard's logs.

    Args:
        recipe: the `Recipe`.
        run: its `RunDirectory`.
        data: its `PreparedData`.
        quality: what `make_quality` gave.
    """
    section, directory = recipe.tensorboard, run.tensorboard
    texts = data.validation_texts
    values = {
        name: value
        for name, value in recipe.to_dictionary().items()
        if name in ("model", "text", "batches", "training", "seed")
    }
    yield HyperParameters(directory, values, name=run.path.name)
    is_translated = quality is not None and texts and recipe.evaluation.sentences
    if is_translated:
        yield quality
    # It is told about the updates that are due, and of no others.
    yield TrainingScalars(directory, every=None)
    if is_translated and section.samples:
        yield SampleTranslations(directory, quality, rows=section.samples)
    if section.attention and texts:
        columns = list(zip(*texts[: section.attention], strict=True))
        yield AttentionMaps(directory, data.tokenizers, *map(list, columns))
    if section.projector:
        yield EmbeddingProjector(directory, data.tokenizers)
    if section.histograms:
        yield WeightHistograms(directory)
    if section.profile:
        yield ProfileSteps(directory, *section.profile)
