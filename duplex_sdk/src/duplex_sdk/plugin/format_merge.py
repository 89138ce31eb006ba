"""A format that replaces part of another one."""

from __future__ import annotations

from duplex_sdk.protocol.duplex import G711_FORMATS, AudioFormat

__all__ = ["merged_format"]


def merged_format(before: AudioFormat, stated: AudioFormat) -> AudioFormat:
    """What holds after ``stated``, whose name may be empty and whose rate None.

    A rate that was declared for PCM means nothing for G.711, nor the other way round.
    """
    name = stated.name or before.name
    if stated.rate is not None:
        return AudioFormat(name, stated.rate)
    same_family = (name in G711_FORMATS) == (before.name in G711_FORMATS)
    return AudioFormat(name, before.rate if same_family else None)
