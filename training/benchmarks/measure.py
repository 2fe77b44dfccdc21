"""One measurement in this process, by name."""


def measure(what, settings):
    """Measures, or writes what will be measured; returns a row for JSON, or None.

    Args:
        what: the name of a measurement.
        settings: its keyword arguments.
    """
    from training.benchmarks.attention_measurement import measure_attention
    from training.benchmarks.decoding_measurement import measure_decoding, write_decoder
    from training.benchmarks.peak_measurement import measure_peak
    from training.benchmarks.scaling_measurement import (
        measure_preparation,
        measure_step,
        measure_worker,
    )
    from training.benchmarks.training_measurement import measure_training

    measurements = {
        "train": measure_training,
        "decode": measure_decoding,
        "write_decoder": write_decoder,
        "peak": measure_peak,
        "step": measure_step,
        "preparation": measure_preparation,
        "worker": measure_worker,
        "attention": measure_attention,
    }
    return measurements[what](**settings)
