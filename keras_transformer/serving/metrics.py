"""Metrics in the text format of Prometheus, with TensorFlow Serving's names where it has them."""

import bisect
import itertools
from collections.abc import Callable, Iterable, Iterator

#: Content type of the text format.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[str, ...]
#: A gauge that is read when metrics are asked for: labels and value of each sample.
Reading = Callable[[], Iterable[tuple[Labels, float]]]

# Limits of TensorFlow Serving's histograms: of microseconds, and of sizes.
_MICROSECONDS = [10 * 1.8**power for power in range(32)]
_SIZES = [float(2**power) for power in range(15)]


class Counter:
    """A counter for each combination of labels.

    Args:
        name: name of the metric.
        text: what it counts.
        labels: names of the labels.
    """

    kind = "counter"

    def __init__(self, name: str, text: str, *labels: str) -> None:
        self.name = name
        self.text = text
        self.labels = labels
        self.values: dict[Labels, float] = {}

    def add(self, *labels: str, amount: float = 1) -> None:
        """Adds an amount to the counter with these values of the labels."""
        self.values[labels] = self.values.get(labels, 0) + amount

    def samples(self) -> Iterator[str]:
        """Yields the lines of the text format."""
        for labels, value in self.values.items():
            yield _line(self.name, zip(self.labels, labels, strict=True), value)


class Gauge:
    """A value for each combination of labels, read when it is asked for.

    Args:
        name: name of the metric.
        text: description of the value.
        read: returns labels and values.
        labels: names of the labels.
    """

    kind = "gauge"

    def __init__(self, name: str, text: str, read: Reading, *labels: str) -> None:
        self.name = name
        self.text = text
        self.read = read
        self.labels = labels

    def samples(self) -> Iterator[str]:
        """Yields the lines of the text format."""
        for labels, value in self.read():
            yield _line(self.name, zip(self.labels, labels, strict=True), value)


class Histogram:
    """A histogram for each combination of labels.

    Args:
        name: name of the metric.
        text: what it measures.
        labels: names of the labels.
        limits: upper bounds of the buckets.
        scale: factor from the observed unit to that of the metric. Default 1.
    """

    kind = "histogram"

    def __init__(
        self, name: str, text: str, *labels: str, limits: list[float], scale: float = 1
    ) -> None:
        self.name = name
        self.text = text
        self.labels = labels
        self.limits = limits
        self.scale = scale
        self.values: dict[Labels, tuple[list[int], list[float]]] = {}

    def observe(self, value: float, *labels: str) -> None:
        """Adds a value to the histogram with these values of the labels."""
        value *= self.scale
        found = self.values.get(labels)
        if found is None:
            found = self.values[labels] = ([0] * (len(self.limits) + 1), [0.0])
        found[0][bisect.bisect_left(self.limits, value)] += 1
        found[1][0] += value

    def samples(self) -> Iterator[str]:
        """Yields the lines of the text format."""
        limits = [*(f"{limit:g}" for limit in self.limits), "+Inf"]
        for values, (counts, total) in self.values.items():
            labels = list(zip(self.labels, values, strict=True))
            for limit, count in zip(limits, itertools.accumulate(counts), strict=True):
                yield _line(f"{self.name}_bucket", [*labels, ("le", limit)], count)
            yield _line(f"{self.name}_sum", labels, total[0])
            yield _line(f"{self.name}_count", labels, sum(counts))


class Metrics:
    """All metrics of a server.

    `:tensorflow:serving:…` are TensorFlow Serving's, in microseconds; the others are this server's.

    Example:

    >>> metrics = Metrics()
    >>> metrics.record_request("dates", "OK", "predict", "REST", 0.002, 1)
    >>> ':tensorflow:serving:request_count{model_name="dates",status="OK"} 1' in metrics.text()
    True
    """

    def __init__(self) -> None:
        serving, own = ":tensorflow:serving:", "keras_transformer_serving_"

        def latency(name: str, text: str, *labels: str) -> Histogram:
            return Histogram(name, text, *labels, limits=_MICROSECONDS, scale=1e6)

        self.request_count: Counter = Counter(
            f"{serving}request_count", "The total number of requests.", "model_name", "status"
        )
        self.request_latency: Histogram = latency(
            f"{serving}request_latency",
            "Distribution of wall time (in microseconds) for requests.",
            *("model_name", "API", "entrypoint"),
        )
        self.runtime_latency: Histogram = latency(
            f"{serving}runtime_latency",
            "Distribution of wall time (in microseconds) for TensorFlow runtime.",
            *("model_name", "API", "runtime"),
        )
        self.example_counts: Histogram = Histogram(
            f"{serving}request_example_counts",
            "The number of rows per request.",
            "model",
            limits=_SIZES,
        )
        self.example_count: Counter = Counter(
            f"{serving}request_example_count_total", "The total number of rows.", "model"
        )
        self.queueing_latency: Histogram = latency(
            f"{serving}batching_session:queuing_latency",
            "Distribution of wall time (in microseconds) that requests waited in the queue.",
        )
        self.batch_size: Histogram = Histogram(
            f"{serving}batching_session:processed_batch_size",
            "Distribution of the numbers of rows of batches.",
            limits=_SIZES,
        )
        self.batches: Counter = Counter(
            f"{serving}batching_session:wrapped_run_count", "The total number of batches."
        )
        self.signature_latency: Histogram = latency(
            f"{own}batch_latency",
            "Distribution of wall time (in microseconds) of batches by signature.",
            *("model_name", "signature"),
        )
        self.http_answers: Counter = Counter(
            f"{own}http_answers", "The total number of HTTP answers by status.", "status"
        )
        self.internal_errors = 0
        self._all: list[Counter | Gauge | Histogram] = [
            each for each in vars(self).values() if isinstance(each, Counter | Histogram)
        ]
        self.add_gauge(
            f"{own}internal_errors",
            "The number of failures that were not caused by a request.",
            lambda: [((), self.internal_errors)],
        )

    def add_gauge(self, name: str, text: str, read: Reading, *labels: str) -> None:
        """Adds a gauge, see `Gauge`."""
        self._all.append(Gauge(name, text, read, *labels))

    def record_request(
        self, model: str, status: str, api: str, entrypoint: str, seconds: float, rows: int
    ) -> None:
        """Counts an answered request.

        Args:
            model: name of the model; "" if the request named none that is served.
            status: name of the status code, such as "OK".
            api: "predict", or the name of another method.
            entrypoint: "REST" or "GRPC".
            seconds: from the request to the answer.
            rows: number of rows.
        """
        self.request_count.add(model, status)
        if status == "OK":
            self.request_latency.observe(seconds, model, api, entrypoint)
            self.example_counts.observe(rows, model)
            self.example_count.add(model, amount=rows)

    def record_batch(self, model: str, signature: str, rows: int, seconds: float) -> None:
        """Counts a computed batch."""
        self.batches.add()
        self.batch_size.observe(rows)
        self.runtime_latency.observe(seconds, model, "Predict", "TF1")
        self.signature_latency.observe(seconds, model, signature)

    def text(self) -> str:
        """Returns all metrics in the text format, those of the process included."""
        import prometheus_client

        lines = []
        for metric in self._all:
            lines.append(f"# HELP {metric.name} {metric.text}")
            lines.append(f"# TYPE {metric.name} {metric.kind}")
            lines.extend(metric.samples())
        process = prometheus_client.generate_latest(prometheus_client.REGISTRY).decode()
        return "\n".join(lines) + "\n" + process


def _line(name: str, labels: Iterable[tuple[str, str]], value: float) -> str:
    listed = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
    number = f"{value:.17g}" if value % 1 else str(int(value))
    return f"{name}{{{listed}}} {number}" if listed else f"{name} {number}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
