"""Ids and seeds that a number decides, so that a run can be repeated to the last id."""

from __future__ import annotations

import hashlib

from duplex_sdk.session import IdSource

__all__ = ["SeededIds"]


class SeededIds(IdSource):
    """The same seed gives the same ids in the same order."""

    def __init__(self, seed: int = 0) -> None:
        self._start = hashlib.blake2b(str(seed).encode(), digest_size=8).hexdigest()
        self._count = 0

    def hex32(self) -> str:
        """The next 32 hex characters: of the seed, and of their place."""
        self._count += 1
        return f"{self._start}{self._count:016x}"

    def seed(self) -> int:
        """The next 63-bit number."""
        digest = hashlib.blake2b(self.hex32().encode(), digest_size=8).hexdigest()
        return int(digest, 16) >> 1
