"""From a trained model and a text to an explanation."""

import numpy as np
import tensorflow as tf

from keras_transformer.checks import require_positive_integer, require_seed
from keras_transformer.errors import UserError
from keras_transformer.explanation.attention_rollout import attention_rollout
from keras_transformer.explanation.cross_attention import cross_mechanisms
from keras_transformer.explanation.erasure import erasure
from keras_transformer.explanation.explanation import Explanation
from keras_transformer.explanation.gradient_times_input import gradient_times_input
from keras_transformer.explanation.sentence_pair import SentencePair, in_full_precision
from keras_transformer.explanation.weight_change import even_weights, shuffle_weights
from keras_transformer.export.modules import make_text_module
from keras_transformer.export.text_model import TextModel
from keras_transformer.export.text_module import is_blank, with_end
from keras_transformer.export.trained_model import TrainedModel, is_trained_model
from keras_transformer.export.versions import resolve_version
from keras_transformer.inference.translation import as_tensor, as_text, translate_lines
from keras_transformer.text import START_ID

#: Tokens of a text, END included, at most. A page of more could not be read.
MOST_TOKENS = 128


def open_explainable(path):
    """Loads the `TrainedModel` of a run; of an export, says that it cannot be looked into."""
    if not is_trained_model(path) and _is_export(path):
        raise UserError(
            f"{path}: is an export, a graph without gradients in which no weight can be changed. "
            "Give the directory of the run that it was made from."
        )
    return TrainedModel.load(path)


def explain(trained, source, target=None, draws=100, seed=0, name=None):
    """Returns the `Explanation` of a translation.

    Args:
        trained: a `TrainedModel` of source and target, such as a `Transformer`.
        source: a text.
        target: its translation; by default the model's own.
        draws: how many random permutations of the attention weights are tried.
        seed: of these, below 2**64.
        name: what the model is called; by default as Keras calls it.

    Raises:
        UserError: if the model has no source or no attention weights, or if a text is blank, too
            long or not Unicode.

    Example:

    ```python
    explanation = explain(TrainedModel.load("runs/dates"), "12. Mai 2021")
    print(explanation.agreement("attention", "gradient").mean)
    ```
    """
    name = name or trained.model.name
    draws = require_positive_integer("draws", draws)
    seed = require_seed("seed", seed)
    _require_explainable(name, trained.model)
    _require_unicode("source", source)
    if is_blank(as_tensor([source]))[0]:
        raise UserError("The source is blank: there is nothing to explain. Give some text.")
    is_own = target is None
    source_ids = _ids(trained.tokenizers.source, source)
    _require_length("source", source_ids, trained.model)
    if is_own:
        module = make_text_module(trained)
        text_model = TextModel(type(trained.model).__name__, name, module.functions)
        (translation,) = translate_lines(text_model, [source])
        target = translation.text
    _require_unicode("target", target)
    target_ids = _ids(trained.tokenizers.target, target)
    _require_length("target", target_ids, trained.model)
    pair = SentencePair(
        in_full_precision(trained.model),
        source_ids,
        np.concatenate([[START_ID], target_ids[:-1]]).astype(np.int32),
        target_ids,
    )
    heads = _heads(name, pair)
    return Explanation(
        model=name,
        source=source,
        target=target,
        is_own=is_own,
        source_tokens=_tokens(trained.tokenizers.source, pair.source),
        target_tokens=_tokens(trained.tokenizers.target, pair.labels),
        read_tokens=_tokens(trained.tokenizers.target, pair.target),
        probabilities=np.exp(pair.chosen(pair.log_probabilities(pair.source[None]))[0]),
        heads=heads,
        measures=_measures(pair, heads),
        changes=tuple(_changes(pair, draws, seed)),
        seed=seed,
    )


def _measures(pair, heads):
    measures = {"attention": heads["cross"].mean(axis=(0, 1))}
    if {"encoder", "decoder"} <= set(heads):
        measures["rollout"] = attention_rollout(**heads)
    return {**measures, "gradient": gradient_times_input(pair), "erasure": erasure(pair)}


def _changes(pair, draws, seed):
    """What other weights do in all blocks at once and, if there are several, in each alone."""
    mechanisms = cross_mechanisms(pair.model)
    parts = [(None, mechanisms)] if mechanisms else []
    if len(mechanisms) > 1:
        parts += [(number, [each]) for number, each in enumerate(mechanisms, start=1)]
    for block, some in parts:
        yield shuffle_weights(pair, some, block, draws, seed)
        yield even_weights(pair, some, block)


def _heads(name, pair):
    try:
        return pair.attention_weights()
    except ValueError as error:  # a mechanism that has none to give
        raise UserError(f"{name}: its attention cannot be shown: {error}") from error


def _ids(tokenizer, text):
    return with_end(tokenizer.tokenize(as_tensor([text])))[0].numpy().astype(np.int32)


def _tokens(tokenizer, ids):
    return tuple(as_text(token) for token in tokenizer.tokens(tf.convert_to_tensor(ids)).numpy())


def _require_explainable(name, model):
    kind = type(model).__name__
    if not (hasattr(model, "encode") and hasattr(model, "step")):
        raise UserError(
            f"{name}: is a {kind}, which translates nothing. Name a model of source and target, "
            "such as a Transformer."
        )
    if not hasattr(model, "attention_weights"):
        raise UserError(
            f"{name}: is a {kind}, which has no `attention_weights` to explain. Name a model with "
            "attention, such as a Transformer."
        )
    further = {each.name for each in model.inputs} - {"source", "target"}
    if further:
        raise UserError(
            f"{name}: is a {kind} that reads {', '.join(sorted(further))} besides source and "
            "target, which a text alone does not give. Name a model of source and target alone."
        )


def _require_unicode(side, text):
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UserError(
            f"The {side} is not Unicode at character {error.start + 1}. Give it in UTF-8."
        ) from error


def _require_length(side, ids, model):
    most = min(MOST_TOKENS, model.config.max_length)
    if len(ids) > most:
        raise UserError(
            f"The {side} has {len(ids):,} tokens, its end included; at most {most} can be "
            "explained. Give a shorter text."
        )


def _is_export(path):
    try:
        resolve_version(path)
    except UserError:
        return False
    return True
