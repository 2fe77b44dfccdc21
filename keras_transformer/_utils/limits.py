"""Upper limits of numbers that users give, all in one table.

A number beyond its limit is refused when it is read, before it can exhaust memory, build a huge
graph, or overflow the integers of TensorFlow. The limits are far above all known uses. They apply
to the argument, setting, option or key of this name, whatever it is part of.
"""

#: Largest number without a limit of its own: that of 32-bit integers.
DEFAULT = 2**31 - 1

#: Largest values by name.
MAXIMA: dict[str, float] = {
    # Models
    "num_layers": 1000,
    "num_encoder_layers": 1000,
    "num_decoder_layers": 1000,
    "num_heads": 4096,
    "hidden_dim": 2**17,
    "key_dim": 2**17,
    "intermediate_dim": 2**20,
    "vocabulary_size": 2**24,
    "target_vocabulary_size": 2**24,
    "max_length": 2**24,
    # Search
    "beams": 1000,
    "n_best": 1000,
    "no_repeat_ngram": 64,
    "max_length_margin": 2**24,
    "min_length": 2**24,
    "length_penalty": 1e4,
    "coverage_penalty": 1e4,
    "repetition_penalty": 1e4,
    "max_length_ratio": 1e4,
    "min_length_ratio": 1e4,
    # Trainings
    "builtin_pairs": 100_000_000,
    "accumulate": 10_000,
    "max_buckets": 1000,
    "keep": 100_000,
    "attention": 100,
    "samples": 10_000,
    "show": 10_000,
    # Numbers of 64 bits
    "seed": 2**64 - 1,
    "version": 2**63 - 1,
}


def maximum_of(name: str, default: float = DEFAULT) -> float:
    """Returns the largest value of an argument, a dotted key or an option.

    >>> maximum_of("evaluation.search.beams"), maximum_of("--no-repeat-ngram")
    (1000, 64)
    """
    plain = name.rpartition(".")[2].lstrip("-").replace("-", "_").lower()
    return MAXIMA.get(plain, default)
