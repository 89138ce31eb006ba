"""The id source of a server."""

from __future__ import annotations

import secrets
from collections import deque

from duplex_sdk.session.ids import IdSource

__all__ = ["SecretIds"]

_BATCH = 256
_HEX_DIGITS = 32


class SecretIds(IdSource):
    """Ids nobody can guess. Safe to use from several threads.

    They are drawn in batches: each request to the system's generator gives up the interpreter, and
    on a busy server the thread that makes events then waits to get it back, once per event.
    """

    def __init__(self) -> None:
        self._drawn: deque[str] = deque()

    def hex32(self) -> str:
        """32 lower-case hex characters from the system's generator."""
        while True:
            try:
                # Atomic, so no id is given out twice whoever asks at the same time.
                return self._drawn.pop()
            except IndexError:
                text = secrets.token_hex(_BATCH * _HEX_DIGITS // 2)
                self._drawn.extend(
                    text[at : at + _HEX_DIGITS] for at in range(0, len(text), _HEX_DIGITS)
                )

    def seed(self) -> int:
        """A 63-bit integer from the system's generator."""
        return secrets.randbits(63)
