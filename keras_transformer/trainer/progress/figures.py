"""Numbers of a training as people read them."""

# Metrics by the names that logs have for them: a heading and a format.
_METRICS = {
    "loss": ("loss", "{:.4f}"),
    "accuracy": ("accuracy", "{:.1%}"),
    "perplexity": ("perplexity", "{:,.2f}"),
    "bleu": ("BLEU", "{:.2f}"),
    "chrf": ("chrF", "{:.2f}"),
    "exact_match": ("exact match", "{:.1%}"),
    "tokens_per_second": ("tokens/s", "{:,.0f}"),
    "learning_rate": ("learning rate", "{:.2e}"),
}


def metric_name(name):
    """Returns the name of a metric as people write it.

    >>> metric_name("chrf"), metric_name("gradient_norm")
    ('chrF', 'gradient norm')
    """
    return _METRICS.get(name, (name.replace("_", " "), None))[0]


def metric_value(name, value):
    """Returns the value of a metric with as many digits as it deserves.

    >>> metric_value("accuracy", 0.98765), metric_value("gradient_norm", 1.23456789)
    ('98.8%', '1.235')
    """
    return _METRICS.get(name, (None, "{:.4g}"))[1].format(value)


def metric_phrase(name, value):
    """Returns name and value of a metric in a few words.

    >>> metric_phrase("loss", 2.5), metric_phrase("tokens_per_second", 12345.6)
    ('loss 2.5000', '12,346 tokens/s')
    """
    words = [metric_name(name), metric_value(name, value)]
    return " ".join(reversed(words) if name.endswith("_per_second") else words)


def duration(seconds):
    """Returns a time in words.

    >>> duration(4.06), duration(151), duration(7265), duration(93784)
    ('4.1 s', '2 min 31 s', '2 h 1 min', '1 d 2 h')
    """
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"


def countdown(seconds):
    """Returns a time that is left, in the form of a clock.

    >>> countdown(4.6), countdown(151), countdown(7265), countdown(93784), countdown(None)
    ('0:05', '2:31', '2:01:05', '1 d 2 h', '-:--')
    """
    if seconds is None:
        return "-:--"
    if seconds >= 24 * 3600:
        return duration(seconds)
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
