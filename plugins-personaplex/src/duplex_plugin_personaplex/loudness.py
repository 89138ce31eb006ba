"""Loudness of a recording after ITU-R BS.1770-4, and bringing it to a wanted one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["loudness_lufs", "to_loudness"]

_BLOCK_S = 0.4
_STEP_S = 0.1
_ABSOLUTE_GATE = -70.0
_RELATIVE_GATE = -10.0
_OFFSET = -0.691


def loudness_lufs(samples: NDArray[np.float32], rate: int) -> float:
    """Integrated loudness of a mono signal in LUFS; -inf for silence.

    A signal shorter than one gating block of 400 ms counts as one block.
    """
    powers = _block_powers(_k_weighted(samples.astype(np.float64), rate), rate)
    with np.errstate(divide="ignore"):
        levels = _OFFSET + 10 * np.log10(powers)
    loud = powers[levels > _ABSOLUTE_GATE]
    if not loud.size:
        return -math.inf
    threshold = _OFFSET + 10 * math.log10(loud.mean()) + _RELATIVE_GATE
    kept = powers[(levels > _ABSOLUTE_GATE) & (levels > threshold)]
    return float(_OFFSET + 10 * math.log10(kept.mean()))


def to_loudness(samples: NDArray[np.float32], rate: int, lufs: float) -> NDArray[np.float32]:
    """The signal at this loudness, turned up no further than full scale; silence stays silence."""
    measured = loudness_lufs(samples, rate)
    if math.isinf(measured):
        return samples
    gain = 10 ** ((lufs - measured) / 20)
    peak = float(np.abs(samples).max())
    return (samples * min(gain, 1.0 / peak)).astype(np.float32)


def _block_powers(weighted: NDArray[np.float64], rate: int) -> NDArray[np.float64]:
    block, step = round(_BLOCK_S * rate), round(_STEP_S * rate)
    if weighted.size <= block:
        return np.array([np.mean(weighted**2)]) if weighted.size else np.zeros(1)
    sums = np.concatenate(([0.0], np.cumsum(weighted**2)))
    starts = np.arange(0, weighted.size - block + 1, step)
    powers: NDArray[np.float64] = (sums[starts + block] - sums[starts]) / block
    return np.maximum(powers, 0.0)


def _k_weighted(samples: NDArray[np.float64], rate: int) -> NDArray[np.float64]:
    """The signal behind the two filters, applied in the frequency domain.

    The filters ring for well under a second; padded by one, nothing of the end comes round to the
    beginning.
    """
    size = 1 << max(1, (samples.size + rate - 1)).bit_length()
    z = np.exp(-2j * np.pi * np.fft.rfftfreq(size))
    response = _response(_shelf(rate), z) * _response(_high_pass(rate), z)
    return np.fft.irfft(np.fft.rfft(samples, size) * response, size)[: samples.size]


_Biquad = tuple[tuple[float, float, float], tuple[float, float, float]]


def _response(biquad: _Biquad, z: NDArray[Any]) -> NDArray[Any]:
    (b0, b1, b2), (a0, a1, a2) = biquad
    answer: NDArray[Any] = (b0 + b1 * z + b2 * z**2) / (a0 + a1 * z + a2 * z**2)
    return answer


def _shelf(rate: int) -> _Biquad:
    """The head's effect: about 4 dB more above 1.7 kHz, designed for any rate."""
    gain_db, quality, centre = 3.999843853973347, 0.7071752369554196, 1681.974450955533
    k = math.tan(math.pi * centre / rate)
    high = 10 ** (gain_db / 20)
    band = high**0.4996667741545416
    return (
        (high + band * k / quality + k * k, 2 * (k * k - high), high - band * k / quality + k * k),
        (1 + k / quality + k * k, 2 * (k * k - 1), 1 - k / quality + k * k),
    )


def _high_pass(rate: int) -> _Biquad:
    quality, centre = 0.5003270373238773, 38.13547087602444
    k = math.tan(math.pi * centre / rate)
    scale = 1 + k / quality + k * k
    return (
        (scale, -2 * scale, scale),
        (scale, 2 * (k * k - 1), 1 - k / quality + k * k),
    )
