"""Audio at the speed of speech."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable

__all__ = ["paced"]


async def paced(
    source: bytes | Iterable[bytes] | AsyncIterable[bytes],
    *,
    bytes_per_second: int,
    chunk_ms: int,
) -> AsyncIterator[bytes]:
    """Cut ``source`` into chunks of ``chunk_ms`` and give each out when its time has come.

    A chunk is given out when a microphone would have it, after its own length. Deadlines are
    counted from the start, so that late wake-ups do not add up. The last chunk may be shorter.
    """
    size = max(2, bytes_per_second * chunk_ms // 1000 // 2 * 2)
    loop = asyncio.get_running_loop()
    start = loop.time()
    sent = 0
    async for chunk in _chunks(source, size):
        sent += len(chunk)
        delay = start + sent / bytes_per_second - loop.time()
        if delay > 0:
            await asyncio.sleep(delay)
        yield chunk


async def _chunks(
    source: bytes | Iterable[bytes] | AsyncIterable[bytes], size: int
) -> AsyncIterator[bytes]:
    kept = bytearray()
    async for piece in _pieces(source):
        kept += piece
        while len(kept) >= size:
            yield bytes(kept[:size])
            del kept[:size]
    if kept:
        yield bytes(kept)


async def _pieces(source: bytes | Iterable[bytes] | AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    if isinstance(source, bytes):
        yield source
    elif isinstance(source, AsyncIterable):
        async for piece in source:
            yield piece
    else:
        for piece in source:
            yield piece
