"""Sound whose every sample says which one it is, so that nobody can hear one twice unseen."""

from __future__ import annotations

from functools import cache

import numpy

__all__ = ["GROUP", "numbers_of", "sound"]

GROUP = 4
"""So many samples carry one number."""

_BASE = 100
_LONGEST_S = 120
_LOUD_STEP, _QUIET_STEP = 200, 2
_MIDDLE = _BASE - 1
_QUIET = _BASE * _QUIET_STEP // 2
"""No sample of silence is further from zero."""

_LOUD_FIRST = -_QUIET / 32768

_WEIGHTS = numpy.array([32768.0 * _BASE**place for place in (3, 2, 1, 0)])
"""Of float32 samples, which hold 32768ths."""

_BEGIN = _MIDDLE / 2 * sum(_BASE**place for place in (3, 2, 1, 0))


@cache
def _stream(rate: int, step: int) -> bytes:
    """All of it, PCM16: no sample is zero, which only padding and made-up silence are."""
    numbers = numpy.arange(_LONGEST_S * rate // GROUP)
    digits = numpy.stack([numbers // _BASE**place % _BASE for place in (3, 2, 1, 0)], axis=1)
    return (digits * step - _MIDDLE * step // 2).astype("<i2").tobytes()


def sound(first: int, ms: int, rate: int, *, loud: bool) -> tuple[bytes, int]:
    """PCM16 of a stretch of sound or silence.

    Args:
        first: number of its first group.
        ms: how long.
        rate: samples a second.
        loud: it is a sound.

    Returns:
        The samples, and the number that follows.
    """
    count = rate * ms // 1000
    stream = _stream(rate, _LOUD_STEP if loud else _QUIET_STEP)
    start = first * GROUP * 2 % (len(stream) - 2 * count - 2 * GROUP)
    start -= start % (GROUP * 2)
    return stream[start : start + 2 * count], first + -(-count // GROUP)


def numbers_of(data: bytes) -> numpy.typing.NDArray[numpy.int64]:
    """The numbers in float32 samples that were cut at groups, in their order."""
    whole = len(data) // (4 * GROUP) * GROUP
    groups = numpy.frombuffer(data, "<f4", whole).reshape(-1, GROUP)
    # The first digit of all numbers there are is 0: how far from zero that lies tells the step.
    step = numpy.where(groups[:, 0] < _LOUD_FIRST, _LOUD_STEP, _QUIET_STEP)
    # Digits are weighed before they are told from their middle, all in whole numbers.
    numbers: numpy.typing.NDArray[numpy.int64] = (groups @ _WEIGHTS / step + _BEGIN).astype(
        numpy.int64
    )
    return numbers
