"""Users in a text file: one line each, a name and the SHA-256 of the key, in hex."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from pathlib import Path

from duplex_sdk.discovery import Authenticator

__all__ = ["UsersFile"]

_log = logging.getLogger(__name__)


class UsersFile(Authenticator):
    """Admits whoever has a key of the file. Read once, so an unreadable file is known at start.

    Raises:
        OSError: the file cannot be read; the server then admits nobody.
        ValueError: a line is not a name and a digest.
    """

    def __init__(self, path: Path) -> None:
        self._names: dict[str, str] = {}
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            try:
                name, digest = line.split()
                bytes.fromhex(digest)
            except ValueError:
                raise ValueError(f"{path}:{number}: expected a name and a SHA-256") from None
            self._names[digest.lower()] = name

    async def admit(self, key: str | None, headers: Mapping[str, str]) -> bool:
        """Look the key's digest up; the key itself is kept nowhere."""
        if key is None:
            return False
        name = self._names.get(hashlib.sha256(key.encode()).hexdigest())
        if name is not None:
            _log.info("%s comes in", name)
        return name is not None
