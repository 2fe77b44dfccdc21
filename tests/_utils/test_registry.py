"""Registries of variants by name."""

import pytest

from keras_transformer._utils.errors import ArgumentError
from keras_transformer._utils.registry import register
from keras_transformer.data.builtin import register_builtin
from keras_transformer.data.corpora import register_format
from keras_transformer.decoding import register_search
from keras_transformer.export.formats import register_export_format
from keras_transformer.layers import register_feed_forward
from keras_transformer.layers.attention.mechanism import register_mechanism
from keras_transformer.layers.positions.position_encoding import register_position_encoding
from keras_transformer.layers.recurrence import register_cell
from keras_transformer.metrics import register_text_metric
from keras_transformer.schedules import register_schedule
from keras_transformer.trainer.loggers import register_logger
from keras_transformer.trainer.optimizers import register_optimizer
from tests.mistakes import assert_mistake

DECORATORS = [
    register_builtin,
    register_cell,
    register_export_format,
    register_feed_forward,
    register_format,
    register_logger,
    register_mechanism,
    register_optimizer,
    register_position_encoding,
    register_schedule,
    register_search,
    register_text_metric,
]


class Variant:
    """A class to register."""


@pytest.mark.parametrize("decorator", DECORATORS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("given", [Variant, ""], ids=["without parentheses", "empty name"])
def test_decorator_without_a_name_raises_an_error(decorator, given):
    with pytest.raises(ArgumentError) as raised:
        decorator(given)
    assert_mistake(raised.value, key="name", got=given, fix='`@register_…("name")`')


def test_register_without_a_name_adds_nothing():
    registry = {}
    with pytest.raises(ArgumentError):
        register(registry, Variant)
    assert registry == {}
    assert register(registry, "variant")(Variant) is Variant
    assert registry == {"variant": Variant}
