"""The engine's end of the stream to a worker."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import cast

from duplex_sdk.stage import UnitRequest
from duplex_sdk.stage.worker import (
    FrameError,
    FrameReader,
    FrameWriter,
    FromWorker,
    ToWorker,
    Units,
)

__all__ = ["ChannelOwner", "WorkerChannel"]


class ChannelOwner(ABC):
    """Who hears what a channel brings; called on the loop."""

    @abstractmethod
    def on_messages(self, messages: Sequence[FromWorker]) -> None:
        """Messages, in order."""

    @abstractmethod
    def on_unsendable(self, message: ToWorker, error: Exception) -> None:
        """A message was not sent: it holds what no message carries, or too much of it."""

    @abstractmethod
    def on_lost(self, reason: str | None) -> None:
        """The stream ended; ``reason`` when we gave it up over what it brought."""


class WorkerChannel(asyncio.BufferedProtocol):
    """Sends once per turn of the loop whatever that turn produced; the units in one frame."""

    def __init__(self, owner: ChannelOwner) -> None:
        self._owner = owner
        self._reader: FrameReader[FromWorker] = FrameReader(FromWorker)
        self._writer = FrameWriter()
        self._pending: list[ToWorker | list[UnitRequest]] = []
        self._loop = asyncio.get_running_loop()
        self._flush_due = False
        self._transport: asyncio.Transport | None = None
        self._reason: str | None = None

    def send(self, message: ToWorker) -> None:
        """Send a message after those before it. Once the stream ended it goes nowhere."""
        self._pending.append(message)
        self._schedule()

    def send_units(self, units: Sequence[UnitRequest]) -> None:
        """Send units, together with those that were last given in the same turn."""
        last = self._pending[-1] if self._pending else None
        if isinstance(last, list):
            last.extend(units)
        else:
            self._pending.append(list(units))
        self._schedule()

    def close(self) -> None:
        """Send what is pending, then end the stream."""
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """End the stream at once."""
        if self._transport is not None:
            self._transport.abort()

    # asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The stream is there."""
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go."""
        return self._reader.room()

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes came."""
        try:
            messages = self._reader.received(nbytes)
        except FrameError as error:
            self._reason = f"it cannot be understood: {error}"
            self.abort()
            return
        if messages:
            self._owner.on_messages(messages)

    def connection_lost(self, exc: Exception | None) -> None:
        """The stream ended."""
        self._transport = None
        self._owner.on_lost(self._reason)

    def _schedule(self) -> None:
        if not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_due = False
        pending, self._pending = self._pending, []
        for entry in pending:
            self._add(Units(entry) if isinstance(entry, list) else entry)
        frames = self._writer.take()
        if frames and self._transport is not None:
            self._transport.write(frames)

    def _add(self, message: ToWorker) -> None:
        try:
            self._writer.add(message)
        except Exception as error:  # whatever a plugin's values raise in the encoder
            if isinstance(message, Units) and len(message.units) > 1:
                # One of them is to blame; the others are not to suffer.
                for unit in message.units:
                    self._add(Units([unit]))
            else:
                self._owner.on_unsendable(message, error)
