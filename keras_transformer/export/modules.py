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
        limits = limits or TextLimits(tokens=model.config.max_length)
        return EncodingModule(trained, limits, stored_dtype)
    if search is None:
        search = trained.search_settings()
    if isinstance(search, SearchSettings):
        search = make_search(model, search)
    has_source = hasattr(model, "encode")
    _require_fit(model, search, limits, has_source)
    if has_source:
        limits = limits or TextLimits(tokens=model.config.max_length)
        kind = TreeTranslationModule if reads_trees(model.config) else TranslationModule
        return kind(trained, search, limits, xla, stored_dtype)
    if limits is None:  # what is given and what is added share the model's positions
        limits = TextLimits(tokens=max(1, model.config.max_length - search.lengths.maximum))
    return ContinuationModule(trained, search, limits, xla, stored_dtype)


def reads_trees(config):
    """Whether a model of this config takes CoNLL-U."""
    return getattr(config, "reads_trees", False)


def _require_fit(model, search, limits, has_source):
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
    most = model.position_limit
    if most is not None and limits is not None:
        most -= 0 if has_source else 1  # a prompt must leave room for one token
        if limits.tokens > most:
            raise UserError(
                f"The model has learned {model.position_limit} positions: texts may have {most} "
                f"tokens at most, not {limits.tokens}."
            )


def make_search(model, settings):
    """The search that `SearchSettings` mean for a model."""
    longest = model.config.max_length
    if hasattr(model, "encode"):
        return settings.make(longest)
    return settings.make(min(CONTINUATION, longest // 2), has_source=False)
