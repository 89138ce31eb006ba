"""Id sources: secret ones for a server, seeded ones for a run that must repeat."""

from __future__ import annotations

import random
import secrets

from duplex_sdk.session.ids import IdSource

__all__ = ["SecretIds", "SeededIds"]


class SecretIds(IdSource):
    """Ids nobody can guess."""

    def hex32(self) -> str:
        """32 lower-case hex characters from the system's generator."""
        return secrets.token_hex(16)

    def seed(self) -> int:
        """A 63-bit integer from the system's generator."""
        return secrets.randbits(63)


class SeededIds(IdSource):
    """The same ids in the same order for the same seed. Not for a server."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def hex32(self) -> str:
        """The next 32 lower-case hex characters."""
        return f"{self._random.getrandbits(128):032x}"

    def seed(self) -> int:
        """The next 63-bit integer."""
        return self._random.getrandbits(63)
