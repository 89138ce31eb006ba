"""API keys: where a client puts one, and whether it is ours. Keys are never logged."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Sequence

__all__ = ["ApiKeys", "presented_key", "selected_subprotocol"]

_KEY_ENTRY = "openai-insecure-api-key."
_SUBPROTOCOL = "realtime"


class ApiKeys:
    """The keys a server accepts; without any, everybody is let in."""

    def __init__(self, keys: Iterable[str]) -> None:
        # Digests have one length, so comparing tells nothing of a key's length either.
        self._digests = tuple(_digest(key) for key in keys)

    @property
    def required(self) -> bool:
        """Whether a client must present a key."""
        return bool(self._digests)

    def accept(self, key: str | None) -> bool:
        """Whether this key opens the server; the time taken does not depend on the key."""
        if not self._digests:
            return True
        presented = _digest(key or "")
        matches = [hmac.compare_digest(presented, known) for known in self._digests]
        return key is not None and any(matches)


def presented_key(authorization: str | None, subprotocols: Sequence[str] = ()) -> str | None:
    """The key in ``Authorization: Bearer``, else the one browsers hide among the subprotocols."""
    scheme, _, credentials = (authorization or "").partition(" ")
    if scheme.lower() == "bearer" and credentials.strip():
        return credentials.strip()
    for entry in subprotocols:
        if entry.startswith(_KEY_ENTRY) and entry != _KEY_ENTRY:
            return entry.removeprefix(_KEY_ENTRY)
    return None


def selected_subprotocol(offered: Sequence[str]) -> str | None:
    """``realtime`` when offered. Never the entry with the key, nor anything we do not speak."""
    return _SUBPROTOCOL if _SUBPROTOCOL in offered else None


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
