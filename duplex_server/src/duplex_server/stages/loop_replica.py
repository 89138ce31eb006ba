"""A replica on the engine loop itself, for a model that is ``quick``: no thread, no crossing."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Mapping
from dataclasses import replace

from duplex_sdk.stage import Json, StageInfo
from duplex_sdk.stage.host import StageHost

from .errors import StageCallError
from .inline_replica import HostSettings, InlineReplica
from .replica import Progress, ReplicaSink

__all__ = ["LoopReplica"]

logger = logging.getLogger(__name__)


class LoopReplica(InlineReplica):
    """Collects what one turn of the loop brings and steps once; one timer for what is due later."""

    def __init__(self, settings: HostSettings, sink: ReplicaSink) -> None:
        """See ``InlineReplica``."""
        super().__init__(settings, sink)
        self._host: StageHost | None = None
        self._soon: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: float | None = None

    async def start(self, progress: Progress) -> StageInfo:
        """See ``StageReplica``; the load itself runs on the loop."""
        host = self._settings.make_host()
        info = host.load(replace(self._settings.context, progress=progress))
        self._host = host
        return info

    async def call(self, method: str, arguments: Mapping[str, Json]) -> Json:
        """See ``StageReplica``."""
        if self._host is None:
            raise StageCallError("the replica is stopped")
        try:
            return self._host.call(method, arguments)
        except (Exception, SystemExit) as error:
            raise StageCallError(f"{method}: {error}") from error

    async def stop(self, grace_s: float) -> None:
        """See ``StageReplica``."""
        host, self._host = self._host, None
        self._disarm()
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        if host is not None:
            self._drain(host)
            host.shutdown()

    def _wake(self) -> None:
        if self._soon is None and self._host is not None:
            self._soon = asyncio.get_running_loop().call_soon(self._pass)

    def _pass(self) -> None:
        self._soon = None
        host = self._host
        if host is None:
            return
        try:
            self._drain(host)
            result = host.step()
        except Exception as error:
            logger.exception("a stage on the engine loop broke down")
            self._host = None
            self._disarm()
            host.shutdown()
            self._sink.on_dead(self, f"its host broke down: {error!r}")
            return
        try:
            if result:
                self._sink.on_result(self, result)
        finally:
            self._arm(host)

    def _arm(self, host: StageHost) -> None:
        due = host.next_due()
        if due is None or self._host is None:
            self._disarm()
            return
        now = self._settings.clock()
        if due <= now:
            self._wake()
            return
        if self._timer_at != due:
            self._disarm()
            self._timer_at = due
            # uvloop's timers count whole ms: rounded down they would fire early and spin.
            pause = math.ceil((due - now) * 1000) / 1000
            self._timer = asyncio.get_running_loop().call_later(pause, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._timer_at = None
        self._wake()

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._timer_at = None
