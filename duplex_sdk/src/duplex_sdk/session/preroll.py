"""The last silent audio before an utterance, kept so that no first syllable is lost."""

from __future__ import annotations

from duplex_sdk.audio import PcmChunk

__all__ = ["PreRoll"]

_SAMPLE_BYTES = 4


class PreRoll:
    """A rolling stretch of audio at one rate; the oldest samples go first.

    Args:
        length_ms: how much is kept; 0 keeps nothing.
    """

    __slots__ = ("_bytes", "_chunks", "_length_ms", "_rate")

    def __init__(self, length_ms: int) -> None:
        self._length_ms = max(0, length_ms)
        self._chunks: list[bytes] = []
        self._rate = 0
        self._bytes = 0

    @property
    def byte_count(self) -> int:
        """Bytes kept now, for the input ledger."""
        return self._bytes

    def push(self, chunk: PcmChunk) -> None:
        """Take in newer audio and forget what is older than the length. O(1) amortised."""
        if chunk.rate != self._rate:
            self.clear()
            self._rate = chunk.rate
        if not chunk.data:
            return
        self._chunks.append(chunk.data)
        self._bytes += len(chunk.data)
        self._trim(self._length_ms * chunk.rate // 1000 * _SAMPLE_BYTES)

    def take(self) -> PcmChunk | None:
        """Hand out what is kept, oldest first, and keep nothing; None when there is nothing."""
        if not self._bytes:
            return None
        kept = PcmChunk(b"".join(self._chunks), self._rate)
        self.clear()
        return kept

    def resize(self, length_ms: int) -> None:
        """Keep another length from now on."""
        self._length_ms = max(0, length_ms)
        self._trim(self._length_ms * self._rate // 1000 * _SAMPLE_BYTES)

    def clear(self) -> int:
        """Forget everything.

        Returns:
            How many bytes were kept.
        """
        freed, self._bytes = self._bytes, 0
        self._chunks.clear()
        return freed

    def _trim(self, limit: int) -> None:
        while self._bytes > limit:
            oldest = self._chunks[0]
            excess = self._bytes - limit
            if len(oldest) <= excess:
                self._chunks.pop(0)
                self._bytes -= len(oldest)
            else:
                self._chunks[0] = oldest[excess:]
                self._bytes = limit
