"""Which module turns which kind of model into functions over strings."""

import dataclasses

from keras_transformer.decoding import BeamSearch, GreedySearch, SearchSettings
from keras_transformer.errors import UserError
from keras_transformer.export.continuation_module import ContinuationModule
from keras_transformer.export.encoding_module import EncodingModule
from keras_transformer.export.text_limits import TextLimits
from keras_transformer.export.translation_module import TranslationModule
from keras_transformer.export.tree_translation_module import TreeTranslationModule

#: Tokens that a language model adds to a text, if nothing else is asked for.
CONTINUATION = 256


def make_text_module(trained, search=None, limits=None, xla=False, stored_dtype=None):
    """Makes the `TextModule` of a `TrainedModel`; see `export_model` for the arguments."""
    if hasattr(trained.model, "unpacked"):
        trained = dataclasses.replace(trained, model=trained.model.unpacked())
    model = trained.model
    if not hasattr(model, "step"):
        if search is not None or xla:
            raise UserError(f"A {type(model).__name__} writes no text: there is nothing to search.")
        limits = _source_limits(model, limits)
        return EncodingModule(trained, limits, stored_dtype)
    if search is None:
        search = trained.search_settings()
    if isinstance(search, SearchSettings):
        search = make_search(model, search)
    has_source = hasattr(model, "encode")
    _require_fit(model, search, has_source)
    if has_source:
        limits = _source_limits(model, limits)
        kind = TreeTranslationModule if reads_trees(model.config) else TranslationModule
        return kind(trained, search, limits, xla, stored_dtype)
    limits = _prompt_limits(model, search, limits)
    return ContinuationModule(trained, search, limits, xla, stored_dtype)


def reads_trees(config):
    """Whether a model of this config takes CoNLL-U."""
    return getattr(config, "reads_trees", False)


def _require_fit(model, search, has_source):
    """Raises a `UserError` for what could only fail, or answer otherwise, later."""
    if not isinstance(search, (BeamSearch, GreedySearch)):
        raise UserError(
            f"An export searches by BeamSearch or GreedySearch; got {search!r}. To sample, call "
            "its signature `sample`."
        )
    if search.needs_attention and not has_source:
        raise UserError(
            f"A {type(model).__name__} has no source, so there is no coverage of one to punish: "
            "leave out the `coverage_penalty`."
        )


def _source_limits(model, limits):
    """The limits of texts that are read: those given, or what the model has been made for."""
    config = model.config
    end = min(config.length_limits(config.source_fields).values(), default=None)
    longest = config.max_length if end is None else min(config.max_length, end)
    return _require_room(limits or TextLimits(tokens=longest), end, end)


def _prompt_limits(model, search, limits):
    """The limits of texts that are gone on with.

    What is given and what is added share the model's length; however much may be added, half of it
    is for what is given.
    """
    end = model.position_limit
    longest = model.config.max_length if end is None else min(model.config.max_length, end)
    tokens = max(1, longest - search.lengths.maximum, longest // 2)
    # A prompt must leave room for one token.
    return _require_room(limits or TextLimits(tokens=tokens), end, end and end - 1)


def _require_room(limits, end, most):
    if most is not None and limits.tokens > most:
        raise UserError(
            f"The model has learned {end} positions: texts may have {most} tokens at most, not "
            f"{limits.tokens}."
        )
    return limits


def make_search(model, settings):
    """The search that `SearchSettings` mean for a model."""
    longest = model.config.max_length
    if hasattr(model, "encode"):
        return settings.make(longest)
    return settings.make(min(CONTINUATION, longest // 2), has_source=False)
