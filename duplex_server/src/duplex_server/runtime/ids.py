"""The id source of a server."""

from __future__ import annotations

import secrets

from duplex_sdk.session.ids import IdSource

__all__ = ["SecretIds"]


class SecretIds(IdSource):
    """Ids nobody can guess."""

    def hex32(self) -> str:
        """32 lower-case hex characters from the system's generator."""
        return secrets.token_hex(16)

    def seed(self) -> int:
        """A 63-bit integer from the system's generator."""
        return secrets.randbits(63)
