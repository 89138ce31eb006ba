"""``OmniBase``: an engine and its life, for a caller in the same process."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from types import TracebackType

    from duplex_server.engine.omni_engine_base import OmniEngineBase

__all__ = ["AsyncOmniBase", "OmniBase"]


class OmniBase(ABC):
    """Owns an engine; ``_create_engine`` makes it, once, at construction."""

    def __init__(self, **engine_arguments: Any) -> None:
        self._engine_base = self._create_engine(**engine_arguments)

    @abstractmethod
    def _create_engine(self, **engine_arguments: Any) -> OmniEngineBase:
        """The engine, not started."""

    @property
    def alive(self) -> bool:
        """The engine takes work."""
        return self._engine_base.alive


class AsyncOmniBase(OmniBase):
    """An engine for asyncio callers. As an async context manager it runs inside the block."""

    async def start(self) -> None:
        """Load the stages and start to work.

        Raises:
            DuplexError: the deployment can't run or a stage can't be loaded; with a hint.
        """
        # Shielded: the engine finishes its start or its end whatever becomes of the caller.
        await asyncio.shield(asyncio.wrap_future(self._engine_base.start()))

    async def stop(self) -> None:
        """End everything, in order; safe to call twice and after a failed start."""
        await asyncio.shield(asyncio.wrap_future(self._engine_base.stop()))

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()
