"""Ids and seeds that a number decides, so that a run can be repeated to the last id."""

from __future__ import annotations

import hashlib

from duplex_sdk.session import IdSource

__all__ = ["SeededIds"]


class SeededIds(IdSource):
    """The same seed gives the same ids in the same order."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._count = 0

    def hex32(self) -> str:
        """The next 32 hex characters."""
        self._count += 1
        return hashlib.blake2b(f"{self._seed}:{self._count}".encode(), digest_size=16).hexdigest()

    def seed(self) -> int:
        """The next 63-bit number."""
        return int(self.hex32(), 16) >> 65
