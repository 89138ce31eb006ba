"""The secret that lets a client come back to its session: kept as a digest, good for one resume."""

from __future__ import annotations

import hashlib
import hmac
import secrets

__all__ = ["ResumeKey"]

_TOKEN_BYTES = 32


class ResumeKey:
    """What a session accepts as its resume token. Holds SHA-256 digests, never a token.

    A resume rotates the token. The one it was made with stays good as long as nobody is attached,
    until a client frame proves that the new one was received.
    """

    def __init__(self) -> None:
        self._current: bytes | None = None
        self._recovery: bytes | None = None

    def issue(self) -> str:
        """The first token, for ``session.created``: 32 random bytes in URL-safe base64."""
        return self._rotate()

    def accepts(self, token: str, *, attached: bool) -> bool:
        """Whether this token opens the session now; takes the same time for every wrong one.

        Args:
            token: as presented.
            attached: a socket is attached, so that only the newest token counts.
        """
        presented = _digest(token)
        current = _same(presented, self._current)
        recovery = _same(presented, self._recovery)
        return current or (recovery and not attached)

    def exchange(self, presented: str) -> str:
        """A fresh token for one that was accepted, which remains good for recovery."""
        self._recovery = _digest(presented)
        return self._rotate()

    def confirm(self) -> None:
        """The client has shown that it read the newest token: only that one counts from now on."""
        self._recovery = None

    def _rotate(self) -> str:
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        self._current = _digest(token)
        return token


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _same(presented: bytes, kept: bytes | None) -> bool:
    # Compared even when nothing is kept, so that the time does not tell.
    return hmac.compare_digest(presented, kept or bytes(len(presented))) and kept is not None
