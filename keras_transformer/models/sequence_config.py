"""The settings that all models share, of whatever kind."""

import dataclasses
from typing import ClassVar

from keras_transformer.checks import (
    require_choice,
    require_integer,
    require_positive_integer,
    require_rate,
)
from keras_transformer.layers.attention import MECHANISMS
from keras_transformer.layers.positions import SCHEMES


@dataclasses.dataclass(frozen=True, kw_only=True)
class SequenceConfig:
    """Settings shared by all models; checked when made.

    Attributes:
        vocabulary_size: V, number of tokens.
        width: M, size of the vectors between layers.
        max_length: number of positions of the "learned" scheme and of mechanisms that have an end,
            and of a decoder's cache where no other is asked for.
        dropout: rate on embeddings and on what layers pass on.
        padding_id: the token id that stands for nothing.
    """

    vocabulary_size: int
    width: int = 512
    max_length: int = 1024
    dropout: float = 0.1
    padding_id: int = 0

    #: Sizes by name; `depth` sets the `depth_fields`.
    presets: ClassVar[dict] = {}
    #: Names of the fields that a preset's `depth` sets.
    depth_fields = ()
    #: Names of the fields that name a mechanism.
    mechanism_fields = ()
    #: The scheme of positions that is added to the embeddings, or None.
    position_scheme = None

    @classmethod
    def preset(cls, name, **settings):
        """The settings known by `name`, with any of them changed.

        >>> from keras_transformer.models import TransformerConfig
        >>> TransformerConfig.preset("tiny", vocabulary_size=8000, dropout=0.3).width
        128
        """
        values = dict(cls.presets[require_choice("preset", name, cls.presets)])
        depth = values.pop("depth")
        return cls(**{**dict.fromkeys(cls.depth_fields, depth), **values, **settings})

    def __post_init__(self):
        for name in ("vocabulary_size", "width", "max_length", *self.depth_fields):
            require_positive_integer(name, getattr(self, name))
        require_rate("dropout", self.dropout)
        require_integer("padding_id", self.padding_id, minimum=0)

    def mechanism(self, field):
        """The attention mechanism that a field and its options name, as a pattern for layers."""
        name, options = getattr(self, field), getattr(self, f"{field}_options")
        kind = MECHANISMS[require_choice(field, name, MECHANISMS)]
        bound = {"max_length": self.max_length} if kind.is_bounded else {}
        try:
            return kind(**{**bound, **options})
        except (TypeError, ValueError) as error:
            if not options:
                raise
            raise ValueError(f"`{field}_options` of {name!r} do not fit: {error}") from error

    def require_usable(self, field, **use):
        """Raises `ValueError` if the mechanism of a field cannot be used so.

        Args:
            field: such as "attention".
            **use: see `AttentionMechanism.check_use`.
        """
        mechanism = self.mechanism(field)
        try:
            mechanism.check_use(**use)
        except ValueError as error:
            raise ValueError(f"`{field}`: {error}") from error

    @property
    def source_fields(self):
        """Those of the `mechanism_fields` that are about the source, or all where there is none."""
        return self.mechanism_fields

    def length_limits(self, fields=None):
        """How many tokens a model can read, by the fields whose choice sets an end to them.

        Args:
            fields: those of the mechanisms to look at; by default all.
        """
        limits, scheme = {}, self.position_scheme
        if scheme is not None and SCHEMES[scheme].is_bounded:
            limits["positions"] = self.max_length
        for field in self.mechanism_fields if fields is None else fields:
            mechanism = self.mechanism(field)
            if mechanism.is_bounded:
                limits[field] = mechanism.max_length
        return limits
