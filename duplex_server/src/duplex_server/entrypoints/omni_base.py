"""``OmniBase``: an engine and its life, for a caller in the same process."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from types import TracebackType

    from duplex_sdk.stage import PipelineConfig

    from duplex_server.engine.figures import EngineFigures
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

    @property
    def pipeline(self) -> PipelineConfig:
        """The stages."""
        return self._engine_base.pipeline

    @property
    def figures(self) -> EngineFigures:
        """What the engine counts."""
        return self._engine_base.figures

    @property
    def device(self) -> str:
        """Where the stages run, as the models say; ``cpu`` before the start."""
        devices = {
            replica.info.device
            for pool in self._engine_base.pools
            for replica in pool.replicas
            if replica.info is not None
        }
        return ", ".join(sorted(devices)) or "cpu"


class AsyncOmniBase(OmniBase):
    """An engine for asyncio callers. As an async context manager it runs inside the block."""

    async def start(self) -> None:
        """Load the stages and start to work.

        Raises:
            DuplexError: the deployment can't run or a stage can't be loaded; with a hint.
        """
        started = asyncio.wrap_future(self._engine_base.start())
        # A caller that was called off asks no more how it went.
        started.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        # Shielded: the engine finishes its start or its end whatever becomes of the caller.
        await asyncio.shield(started)

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
