"""Options of `RotaryAttention`; the contract of mechanisms tests its defaults."""

import math

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers import MultiHeadAttention, RotaryAttention

H, T, D = 2, 9, 8
LLAMA3 = {
    "kind": "llama3",
    "factor": 8.0,
    "low_frequency_factor": 1.0,
    "high_frequency_factor": 4.0,
    "original_max_length": 64,
}


def inverse_wavelengths(size, theta, scaling):
    """Returns the angle of a step for each pair, in the form of transformers' `modeling_rope`."""
    frequencies = []
    for i in range(size // 2):
        frequency = theta ** (-2 * i / size)
        if scaling and scaling["kind"] == "linear":
            frequency /= scaling["factor"]
        elif scaling:
            wavelength = 2 * math.pi / frequency
            low, high = scaling["low_frequency_factor"], scaling["high_frequency_factor"]
            length = scaling["original_max_length"]
            if wavelength > length / low:
                frequency /= scaling["factor"]
            elif wavelength >= length / high:
                smooth = (length / wavelength - low) / (high - low)
                frequency = (1 - smooth) * frequency / scaling["factor"] + smooth * frequency
        frequencies.append(frequency)
    return np.array(frequencies)


def rotated(x, theta, size, interleaved, scaling):
    """Rotates `[..., T, D]` by its positions with complex numbers."""
    steps = np.arange(x.shape[-2])[:, None] * inverse_wavelengths(size, theta, scaling)
    first, second = (
        (x[..., :size:2], x[..., 1:size:2])
        if interleaved
        else (x[..., : size // 2], x[..., size // 2 : size])
    )
    turned = (first + 1j * second) * np.exp(1j * steps)
    result = x.copy()
    if interleaved:
        result[..., :size:2], result[..., 1:size:2] = turned.real, turned.imag
    else:
        result[..., :size] = np.concatenate([turned.real, turned.imag], axis=-1)
    return result


@pytest.mark.parametrize(
    ("theta", "size", "interleaved", "scaling"),
    [
        (500_000.0, 8, False, None),
        (10_000.0, 4, False, None),
        (10_000.0, 8, True, None),
        (100.0, 6, True, {"kind": "linear", "factor": 2.5}),
        (1_000.0, 8, False, LLAMA3),
    ],
)
def test_rotation_equals_numpy(theta, size, interleaved, scaling, random):
    query, key = (random.normal(0, 1, (1, H, T, D)) for _ in range(2))
    mechanism = RotaryAttention(
        max_wavelength=theta,
        rotary_dim=None if size == D else size,
        interleaved=interleaved,
        scaling=scaling,
    )
    again = RotaryAttention.from_config(mechanism.get_config())
    for x, found in zip((query, key), again.add_positions(query, key, offset=0), strict=True):
        np.testing.assert_allclose(found, rotated(x, theta, size, interleaved, scaling), atol=1e-6)


def test_llama3_scaling_has_all_three_ranges():
    ratios = inverse_wavelengths(D, 1_000.0, LLAMA3) / inverse_wavelengths(D, 1_000.0, None)
    assert ratios[0] == 1
    assert 1 / 8 < ratios[1] < 1
    np.testing.assert_allclose(ratios[2:], 1 / 8)


@pytest.mark.parametrize("use_causal_mask", [True, False])
def test_window_hides_positions_outside_in_a_pass_and_in_cached_steps(use_causal_mask, random):
    x = random.normal(0, 1, (1, T, H * D)).astype("float32")
    layer = MultiHeadAttention(H, mechanism=RotaryAttention(window=2))
    outputs, weights = layer(x, use_causal_mask=use_causal_mask, return_attention_scores=True)
    distance = np.arange(T)[None] - np.arange(T)[:, None]
    visible = (distance >= -2) & (distance <= (0 if use_causal_mask else 2))
    np.testing.assert_array_equal(weights[0, 0].numpy() > 0, visible)
    if use_causal_mask:
        cache = layer.initial_cache(1, max_length=T)
        for t in range(T):
            output, cache = layer(x[:, t : t + 1], use_causal_mask=True, cache=cache)
            np.testing.assert_allclose(output[:, 0], outputs[:, t], atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rotary_dim": 3}, "`rotary_dim` must be even; got 3"),
        ({"window": 0}, "`window` must be a whole number of at least 1; got 0"),
        ({"scaling": {"kind": "yarn"}}, "`scaling.kind` must be one of 'linear', 'llama3'"),
        ({"scaling": {"kind": "linear"}}, "`scaling` must be a dictionary with the keys .*factor"),
        ({"scaling": {**LLAMA3, "beta": 1}}, "`scaling` must be a dictionary with the keys "),
        ({"scaling": {**LLAMA3, "high_frequency_factor": 1}}, "above low_frequency_factor=1.0"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        RotaryAttention(**arguments)


def test_more_rotated_dimensions_than_a_head_has_are_an_error():
    with pytest.raises(ValueError, match="`rotary_dim` must be at most key_dim=8; got 10"):
        RotaryAttention(rotary_dim=10).build(*[tf.TensorShape((None, H, None, D))] * 3)
