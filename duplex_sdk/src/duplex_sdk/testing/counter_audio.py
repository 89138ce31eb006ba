"""Audio that carries its own position: loss, repetition, disorder and leaks show in the samples.

A block is 20 ms long. Its first 32 samples write 32 bits, most significant first, as +8000 or -8000
of an int16 sample; the others are zero. The bits are the session's ordinal (8), the ordinal of the
response in it (8) and the index of the block in the response (16), each modulo its size.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from duplex_sdk.audio.chunk import SAMPLE_BYTES, PcmChunk

__all__ = ["Block", "CounterAudio"]

_LEVEL = 8000
_BITS = 32
_TOLERANCE = 100


@dataclass(frozen=True, slots=True)
class Block:
    """One block found in samples.

    Attributes:
        session: ordinal of the session, modulo 256.
        response: ordinal of the response in the session, modulo 256.
        index: position of the block in the response, modulo 65536.
        sample: where in the samples read it begins.
        intact: all its 32 marked samples are there; else the three numbers are -1.
    """

    session: int
    response: int
    index: int
    sample: int
    intact: bool = True


@cache
def _byte_samples() -> tuple[bytes, ...]:
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)
    levels = np.where(bits, _LEVEL, -_LEVEL).astype("<f4") / np.float32(32768)
    return tuple(row.tobytes() for row in levels)


class CounterAudio:
    """Writes and reads counter audio at one rate."""

    def __init__(self, rate: int = 24_000) -> None:
        """Prepare for a rate.

        Args:
            rate: Hz, at least 1600 so that 32 samples fit into 20 ms.

        Raises:
            ValueError: the rate is too low.
        """
        self.rate = rate
        self.block_samples = rate // 50
        if self.block_samples < _BITS:
            raise ValueError(f"counter audio needs at least {_BITS * 50} Hz; got {rate}")
        self._table = _byte_samples()
        self._rest = bytes((self.block_samples - _BITS) * SAMPLE_BYTES)

    def write(self, session: int, response: int, start: int, count: int) -> PcmChunk:
        """``count`` samples of a response, from its sample ``start`` on."""
        first, skipped = divmod(start, self.block_samples)
        last = -(-(start + count) // self.block_samples)
        head = self._table[session & 255] + self._table[response & 255]
        table, rest = self._table, self._rest
        data = b"".join(
            head + table[index >> 8 & 255] + table[index & 255] + rest
            for index in range(first, last)
        )
        if skipped or len(data) != count * SAMPLE_BYTES:
            begin = skipped * SAMPLE_BYTES
            data = data[begin : begin + count * SAMPLE_BYTES]
        return PcmChunk(data, self.rate)

    def read(self, pcm: bytes) -> list[Block]:
        """The blocks in PCM16 little endian at this rate, in the order they lie there.

        A run of samples that is no whole block is given as a block that is not intact.
        """
        samples = np.frombuffer(pcm, dtype="<i2").astype(np.int32)
        marked = np.abs(np.abs(samples) - _LEVEL) <= _TOLERANCE
        sounding = np.flatnonzero(samples)
        blocks: list[Block] = []
        position = 0
        while True:
            nearest = int(np.searchsorted(sounding, position))
            if nearest == sounding.size:
                return blocks
            start = int(sounding[nearest])
            run = marked[start : start + _BITS]
            if run.size == _BITS and run.all():
                blocks.append(_block(samples[start : start + _BITS] > 0, start))
                position = start + _BITS
            else:
                blocks.append(Block(-1, -1, -1, start, intact=False))
                silence = np.flatnonzero(samples[start:] == 0)
                position = start + int(silence[0]) if silence.size else samples.size

    def faults(self, blocks: list[Block]) -> list[str]:
        """What is wrong with blocks that should be one response from its start, in words."""
        found: list[str] = []
        for position, block in enumerate(blocks):
            if not block.intact:
                found.append(f"broken block at sample {block.sample}")
                continue
            owner = (block.session, block.response)
            if owner != (blocks[0].session, blocks[0].response):
                found.append(f"block of another response at sample {block.sample}: {owner}")
            if position and blocks[position - 1].intact:
                found.extend(self._gap(blocks[position - 1], block))
            elif position == 0 and block.index != 0:
                found.append(f"starts at block {block.index}")
        return found

    def _gap(self, before: Block, block: Block) -> list[str]:
        found = []
        step = (block.index - before.index) & 0xFFFF
        if step == 0:
            found.append(f"block {block.index} repeated at sample {block.sample}")
        elif step > 0x7FFF:
            found.append(f"block {block.index} out of order at sample {block.sample}")
        elif step > 1:
            found.append(f"{step - 1} blocks lost before sample {block.sample}")
        elif block.sample - before.sample != self.block_samples:
            found.append(f"block {block.index} is displaced at sample {block.sample}")
        return found


def _block(bits: NDArray[np.bool_], start: int) -> Block:
    session, response, high, low = (int(value) for value in np.packbits(bits))
    return Block(session, response, high << 8 | low, start)
