"""Who may use the server: who has one of its keys, and whom an installed authenticator admits."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Mapping

from duplex_sdk.discovery import Authenticator

from .auth import ApiKeys

__all__ = ["Admission", "AdmitsNobody"]

_log = logging.getLogger(__name__)
_PATIENCE_S = 10.0


class AdmitsNobody(Authenticator):
    """Stands for an authenticator that could not be had: a fault must not open the server."""

    async def admit(self, key: str | None, headers: Mapping[str, str]) -> bool:
        """No."""
        return False


class Admission:
    """Decides about one client at a time. Belongs to the serving loop.

    Args:
        keys: of the server's settings; each of them opens it, whatever the authenticator thinks.
        authenticator: asked about everybody else; None: the keys decide alone.
        patience_s: longest it may think about one client.
    """

    def __init__(
        self,
        keys: ApiKeys,
        authenticator: Authenticator | None = None,
        *,
        patience_s: float = _PATIENCE_S,
    ) -> None:
        self._keys = keys
        self._authenticator = authenticator
        self._patience_s = patience_s

    @property
    def needed(self) -> bool:
        """Whether anybody is refused at all."""
        return self._keys.required or self._authenticator is not None

    async def admits(self, key: str | None, headers: Mapping[str, str]) -> bool:
        """Whether a client may come in. Raises nothing but cancellation.

        Args:
            key: what it presented; None: nothing.
            headers: of its request, names in lower case.
        """
        if self._authenticator is None:
            return self._keys.accept(key)
        if self._keys.required and self._keys.accept(key):
            return True
        try:
            async with asyncio.timeout(self._patience_s):
                return await _ask(self._authenticator, key, headers)
        except TimeoutError:
            _log.error("the authenticator gave no answer in %g s: refused", self._patience_s)
        except (Exception, SystemExit):  # a package that exits must not take the server along
            _log.exception("the authenticator failed: refused")
        return False


async def _ask(authenticator: Authenticator, key: str | None, headers: Mapping[str, str]) -> bool:
    admit = authenticator.admit
    if inspect.iscoroutinefunction(admit):
        answer = await admit(key, headers)
    else:
        answer = await asyncio.to_thread(admit, key, headers)
        if inspect.isawaitable(answer):
            answer = await answer
    # Anything but a plain yes is a slip of the package: a truthy error object must open nothing.
    return answer is True
