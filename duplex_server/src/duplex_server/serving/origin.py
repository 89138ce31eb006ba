"""Which web pages may drive this server. A foreign page in the user's own browser may not."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

__all__ = ["OriginRule"]

_DEFAULT_PORTS = {"http": 80, "https": 443}
_SECURE = {"ws": "http", "wss": "https", "http": "http", "https": "https"}

Origin = tuple[str, str, int]
"""Scheme, host in lower case, port."""


class OriginRule:
    """Own origin and listed ones pass, and whoever sends none (no browser)."""

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        """Take the allow-list: origins as browsers send them, or ``*`` for every one.

        Raises:
            ValueError: an entry is not an origin.
        """
        entries = [entry.strip() for entry in allowed]
        self._any = "*" in entries
        self._null = "null" in entries
        self._allowed = frozenset(
            _required(entry) for entry in entries if entry not in ("*", "null")
        )

    def allows(self, origin: str | None, *, scheme: str, host: str | None) -> bool:
        """Whether a request may go on.

        Args:
            origin: the ``Origin`` header, None when there is none.
            scheme: of the request: ``http``, ``https``, ``ws`` or ``wss``.
            host: the ``Host`` header the client used.
        """
        if origin is None or self._any:
            return True
        if origin == "null":
            return self._null
        parsed = _parse(origin)
        if parsed is None:
            return False
        own = _parse(f"{_SECURE.get(scheme, scheme)}://{host}") if host else None
        return parsed == own or parsed in self._allowed


def _required(entry: str) -> Origin:
    parsed = _parse(entry)
    if parsed is None:
        raise ValueError(f"'{entry}' is not an origin such as https://app.example.com:8443")
    return parsed


def _parse(origin: str) -> Origin | None:
    try:
        parts = urlsplit(origin)
        port = parts.port
    except ValueError:
        return None
    beyond_origin = parts.path or parts.query or parts.fragment or "@" in parts.netloc
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname or beyond_origin:
        return None
    return parts.scheme, parts.hostname, port if port is not None else _DEFAULT_PORTS[parts.scheme]
