"""Registry of the metrics of generated texts, and the direction of every metric.

It imports no TensorFlow, so that the command line can list and check names of metrics quickly.
"""

import abc
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

from keras_transformer._utils.checks import require_choice
from keras_transformer._utils.errors import UserError
from keras_transformer._utils.registry import require_registered_name

#: What is better: lower or higher values.
Direction: TypeAlias = Literal["min", "max"]

#: The registered text metrics by name, one instance each.
TEXT_METRICS: dict[str, "TextMetric"] = {}

# Metrics of training and validation, which are not text metrics.
_TOKEN_METRICS: dict[str, Direction] = {
    "loss": "min",
    "perplexity": "min",
    "accuracy": "max",
    "token_accuracy": "max",
}


class TextMetric(abc.ABC):
    """Base of the metrics that compare generated texts with references.

    A metric is one file in this folder. It registers a name and implements `compute`:

    >>> @register_text_metric("example_length_ratio")
    ... class LengthRatio(TextMetric):
    ...     title = "length ratio"
    ...
    ...     def compute(
    ...         self, hypotheses: Sequence[str], references: Sequence[str], **options: Any
    ...     ) -> float:
    ...         return sum(map(len, hypotheses)) / sum(map(len, references))
    >>> TEXT_METRICS.pop("example_length_ratio").compute(["a", "bc"], ["ab", "cd"])
    0.75
    """

    #: Name by which the metric is registered; the key in logs and recipes.
    name: ClassVar[str]
    #: Name in tables and messages.
    title: ClassVar[str]
    #: Format of a value in tables and messages.
    value_format: ClassVar[str] = "{:.2f}"
    #: Whether a higher value means better texts.
    higher_is_better: ClassVar[bool] = True

    @abc.abstractmethod
    def compute(
        self, hypotheses: Sequence[str], references: Sequence[str], **options: Any
    ) -> float:
        """Returns the metric of a whole test set.

        Args:
            hypotheses: The generated texts.
            references: As many texts, one reference for each hypothesis.
            **options: Options of the metric.
        """

    def signature(self, **options: Any) -> str | None:
        """Returns the settings and version to publish with a value, or None if there are none."""
        return None

    def sentence_scores(
        self, hypotheses: Sequence[str], references: Sequence[str], **options: Any
    ) -> list[float]:
        """Returns the metric of each hypothesis by itself."""
        return [
            self.compute([hypothesis], [reference], **options)
            for hypothesis, reference in zip(hypotheses, references, strict=True)
        ]


class SacrebleuMetric(TextMetric):
    """Base of the metrics that sacrebleu computes; a subclass has a `title` and implements `make`.

    Translation edit rate, for example, which `@register_text_metric("ter")` would register:

    >>> class TranslationEditRate(SacrebleuMetric):
    ...     title = "TER"
    ...     higher_is_better = False
    ...
    ...     def make(self, **options: Any) -> Any:
    ...         from sacrebleu.metrics.ter import TER
    ...
    ...         return TER(**options)
    >>> TranslationEditRate().compute(["the house"], ["the old house"])
    33.33333333333333
    """

    @abc.abstractmethod
    def make(self, *args: Any, **options: Any) -> Any:
        """Returns sacrebleu's metric with some options."""

    def compute(
        self, hypotheses: Sequence[str], references: Sequence[str], **options: Any
    ) -> float:
        return self.make(**options).corpus_score(hypotheses, [references]).score

    def signature(self, **options: Any) -> str:
        metric = self.make(**options)
        metric.corpus_score([""], [[""]])  # sacrebleu has no signature before the first score
        return metric.get_signature().format()


_Metric = TypeVar("_Metric", bound=TextMetric)


def register_text_metric(name: str) -> Callable[[type[_Metric]], type[_Metric]]:
    """Returns a decorator that adds an instance of a `TextMetric` class to `TEXT_METRICS`."""
    require_registered_name(name)

    def add(kind: type[_Metric]) -> type[_Metric]:
        if name in TEXT_METRICS or name in _TOKEN_METRICS:
            raise UserError(f"The metric name {name!r} is taken.")
        kind.name = name
        TEXT_METRICS[name] = kind()
        return kind

    return add


def metric_direction(name: str) -> Direction:
    """Returns "max" if higher values of a metric are better, else "min"; `mode` of Keras callbacks.

    Args:
        name: "loss", "perplexity", "accuracy", or the name of a text metric, also with "val_".

    >>> metric_direction("val_loss"), metric_direction("bleu")
    ('min', 'max')
    """
    name = require_choice("metric", name.removeprefix("val_"), {**_TOKEN_METRICS, **TEXT_METRICS})
    if name in _TOKEN_METRICS:
        return _TOKEN_METRICS[name]
    return "max" if TEXT_METRICS[name].higher_is_better else "min"
