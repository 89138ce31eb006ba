"""``StageFlow``: streams through the stages, with no more on the way than stages have room for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from duplex_sdk.stage import StageSession, UnitRequest

from duplex_server.stages import RequestCancelledError, StageUnavailableError

from .streams import Stream, prompt_size

if TYPE_CHECKING:
    from duplex_server.stages import StagePool

__all__ = ["StageFlow"]


class StageFlow:
    """Which streams there are, what of each waits between stages, and who waits for credit.

    It knows nothing of requests; everything happens on the engine loop.

    Args:
        pools: one per stage, in order.
        max_waiting_bytes: how much of one stream may wait between stages.
        on_submitted: called with stage, unit and replica when a stage took a unit.
    """

    def __init__(
        self,
        pools: Sequence[StagePool],
        *,
        max_waiting_bytes: int,
        on_submitted: Callable[[int, UnitRequest, int], None],
    ) -> None:
        self._pools = tuple(pools)
        self.max_waiting_bytes = max_waiting_bytes
        self._on_submitted = on_submitted
        self._streams: dict[str, Stream] = {}

    def __len__(self) -> int:
        """Streams with state in the stages, or about to have it."""
        return len(self._streams)

    def get(self, stream_id: str) -> Stream | None:
        """A stream; None: there is none of that id."""
        return self._streams.get(stream_id)

    def add(self, sessions: Sequence[StageSession]) -> Stream:
        """Make the stream of a session or request; it opens with its first unit."""
        stream = Stream(sessions)
        self._streams[stream.stream_id] = stream
        return stream

    def begin(self, stream: Stream, epoch: int) -> bool:
        """A unit of this epoch is about to come: whether stage 0 has room for it now.

        Raises:
            StageUnavailableError: no replica can take it.
            RequestCancelledError: the epoch is over.
        """
        if epoch < stream.epoch:
            raise RequestCancelledError("the request was aborted")
        stream.epoch = epoch
        if not stream.opened:
            self._open(stream)
        return self._pools[0].room(stream.stream_id) > 0

    async def room(self, stream: Stream, epoch: int) -> None:
        """Wait until stage 0 has room for a unit of this epoch.

        Raises:
            StageUnavailableError: the stage no longer serves the stream.
            RequestCancelledError: aborted while it waited.
        """
        pool = self._pools[0]
        while not pool.room(stream.stream_id):
            if not pool.is_open(stream.stream_id):
                raise StageUnavailableError(f"stage {pool.config.id} no longer serves this session")
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            stream.waiters.append((epoch, waiter))
            await _wait(stream, epoch, waiter)

    def hand_over(self, stage_id: int, stream: Stream, unit: UnitRequest) -> int:
        """Give a stage that has room a unit; returns the replica's id.

        Raises:
            StageUnavailableError: the stage does not serve the stream.
        """
        replica_id = self._pools[stage_id].submit(unit)
        stream.busy = True
        self._on_submitted(stage_id, unit, replica_id)
        return replica_id

    def forward(self, stage_id: int, stream: Stream, unit: UnitRequest) -> None:
        """Give a later stage a unit, at once or when it has room; the stage before it rests then.

        Raises:
            StageUnavailableError: more waits already than may.
        """
        pool = self._pools[stage_id]
        if not stream.queued.get(stage_id) and pool.room(stream.stream_id):
            self.hand_over(stage_id, stream, unit)
            return
        if stream.queued_bytes + prompt_size(unit.prompt) > self.max_waiting_bytes:
            raise StageUnavailableError(
                f"stage {pool.config.id} does not keep up with the one before it"
            )
        if not stream.queued.get(stage_id):
            self._pools[stage_id - 1].hold(stream.stream_id, True)
        stream.push(stage_id, unit)

    def taken(self, stage_id: int, stream_id: str) -> None:
        """A stage has room again: hand on what waits for it."""
        stream = self._streams.get(stream_id)
        if stream is None:
            return
        if stage_id == 0:
            if stream.waiters:
                stream.wake_one()
            return
        queue = stream.queued.get(stage_id)
        if not queue:
            return
        while queue and self._pools[stage_id].room(stream_id):
            self.hand_over(stage_id, stream, stream.pop(stage_id))
        if not queue:
            self._pools[stage_id - 1].hold(stream_id, False)

    def rested(self, stream_id: str) -> Stream | None:
        """A stage is idle: the stream, if all its stages are now, said once per change."""
        stream = self._streams.get(stream_id)
        if stream is None or not stream.busy or stream.queued_bytes or stream.waiters:
            return None
        for pool in self._pools:
            if not pool.is_idle(stream_id):
                return None
        stream.busy = False
        return stream

    def failed(self, stream_id: str) -> None:
        """A stage serves the stream no more: whoever waits for credit waits for nothing."""
        stream = self._streams.get(stream_id)
        if stream is not None:
            while stream.waiters:
                stream.wake_one()

    def abort(self, stream_id: str, epoch: int, heard_ms: float) -> None:
        """Stop all work of a stream; ``epoch`` begins. Its state in the stages lives on."""
        stream = self._streams.get(stream_id)
        if stream is None:
            return
        stream.begin_epoch(epoch)
        for pool in self._pools:
            pool.cancel(stream_id, stream.epoch, heard_ms)
            pool.hold(stream_id, False)

    async def close(self, stream_id: str) -> None:
        """End a stream's state in every stage. Idempotent."""
        stream = self._streams.get(stream_id)
        if stream is None:
            return
        stream.begin_epoch(stream.epoch + 1)
        await asyncio.gather(*(pool.close(stream_id) for pool in self._pools))
        self._streams.pop(stream_id, None)

    def _open(self, stream: Stream) -> None:
        """Open all stages with the first unit, so that none opens in the middle of an answer."""
        for pool, session in zip(self._pools, stream.sessions, strict=True):
            pool.open(session)
        stream.opened = True


async def _wait(stream: Stream, epoch: int, waiter: asyncio.Future[None]) -> None:
    try:
        await waiter
    except asyncio.CancelledError:
        if stream.epoch > epoch:
            raise RequestCancelledError("the request was aborted") from None
        raise
    if stream.epoch > epoch:
        raise RequestCancelledError("the request was aborted")
