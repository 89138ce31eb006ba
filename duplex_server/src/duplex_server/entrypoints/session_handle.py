"""A caller's grip on one session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Self

from duplex_sdk.protocol.duplex import (
    AppendAudio,
    SessionClosed,
    SessionCreated,
    SessionUpdated,
)

from duplex_server.runtime.control import CommandMessage
from duplex_server.runtime.errors import DuplexSessionError

from .session_commands import SessionCommands

if TYPE_CHECKING:
    from types import TracebackType

    from duplex_sdk.plugin import DuplexCapabilities
    from duplex_sdk.protocol.duplex import DuplexEvent, RealtimeCommand

    from duplex_server.runtime.session_link import SessionLink

    from .duplex_omni import DuplexOmni

__all__ = ["DuplexSessionHandle"]


class DuplexSessionHandle(SessionCommands):
    """Commands in, events out; holds nothing of the session itself and outlives connections.

    Use it from one event loop at a time. Made by ``DuplexOmni.open_session``. As an async context
    manager it closes its session at the end.

    Attributes:
        session_id: of the session.
        capabilities: what the model can do.
        public_session: the session object as last announced; empty before the first event.
        lease_generation: of the lease as last heard.
        close_reason: why the session ended; None while it lives.
    """

    __slots__ = (
        "__weakref__",
        "_link",
        "_omni",
        "_stream",
        "capabilities",
        "close_reason",
        "lease_generation",
        "public_session",
        "session_id",
    )

    def __init__(
        self,
        session_id: str,
        *,
        omni: DuplexOmni,
        capabilities: DuplexCapabilities,
        link: SessionLink,
    ) -> None:
        self.session_id = session_id
        self.capabilities = capabilities
        self.public_session: dict[str, Any] = {}
        self.lease_generation = 0
        self.close_reason: str | None = None
        self._omni: DuplexOmni | None = omni
        self._link = link
        link.output.on_closed(self._let_go)
        self._stream: EventStream | None = None

    @property
    def closed(self) -> bool:
        """The session ended or the engine is gone; queued events can still be read."""
        return self._omni is None

    def submit(self, command: RealtimeCommand, *, lenient: bool = False) -> None:
        """Hand a command to the session. Never waits; commands arrive in the order submitted.

        Args:
            command: what is asked.
            lenient: what can no longer change keeps its value, and what the model cannot honour
                is dropped, instead of failing the command.

        Raises:
            DuplexSessionError: ``session_closed``, ``engine_dead``, or ``engine_backpressure``
                when the engine does not keep up with this session's commands.
        """
        omni = self._omni
        if omni is None:
            raise DuplexSessionError("session_closed", self.close_reason or "the session is closed")
        size = 0
        if isinstance(command, AppendAudio):
            size = len(command.audio)
            if command.video_frames:
                size += sum(len(frame) for frame in command.video_frames)
        room = self._link.room
        if not room.send(size):
            raise DuplexSessionError("engine_backpressure", "the engine does not keep up", True)
        try:
            omni.engine.submit(CommandMessage(self.session_id, command, lenient, size))
        except DuplexSessionError:
            room.unsend(size)
            raise

    async def wait_for_room(self, count: int = 0, *, turn: bool = False) -> bool:
        """Wait until an append of ``count`` bytes (after base64), or another command, fits.

        Args:
            count: bytes of audio and video the command carries.
            turn: it is a commit, which takes one of the pending turns.

        Returns:
            True: it fits. False: at once when only the client can make room (it holds too much
            uncommitted input), or when the session ended.
        """
        return await self._link.room.wait(count, self._ask_for_room, turn=turn)

    def events(self) -> AsyncIterator[DuplexEvent]:
        """Everything the session tells, in order, up to and with its terminal event.

        One reader at a time: a new call takes over from an iterator that is not waiting just now,
        which then ends with ``RuntimeError``. An event counts as delivered when the next one is
        asked for. Audio that a cancel removed is passed over.

        Raises:
            RuntimeError: another reader waits for an event.
        """
        if self._stream is not None and self._stream.waiting:
            raise RuntimeError("this session's events already have a reader")
        self._stream = EventStream(self)
        return self._stream

    def reads(self, stream: EventStream) -> bool:
        """Whether this iterator is the one that reads."""
        return self._stream is stream

    def output_guard(self, event: DuplexEvent) -> AbstractContextManager[bool]:
        """Whether the event just taken still stands, and it stays so inside the ``with`` block.

        For "still valid?", numbering and journaling as one step. Do not await inside: the
        engine's thread waits.
        """
        return self._link.output.guard(event)

    async def wait_closed(self) -> str:
        """Wait until the session has ended, read or not; returns why."""
        await self._link.output.wait_closed()
        return self.close_reason or self._link.output.end_reason or "closed"

    async def close(self, reason: str = "client_close") -> None:
        """End the session and wait for its end. Nothing happens when it has ended already."""
        if self._omni is not None:
            await self._omni.close_session(self.session_id, reason)

    def mark_closed(self, reason: str) -> None:
        """The session is over: no command is taken any more, queued events stay readable."""
        if self.close_reason is None:
            self.close_reason = reason
        self._link.close()

    def _ask_for_room(self) -> None:
        if self._omni is not None:
            self._omni.engine.ask_for_room(self.session_id)

    def _let_go(self) -> None:
        """Nothing more comes of the session; called once, on whatever thread."""
        omni, self._omni = self._omni, None
        if omni is not None:
            omni.forget_session(self.session_id)

    @property
    def link(self) -> SessionLink:
        """The shared end of the session, for the engine's side."""
        return self._link

    def note(self, event: DuplexEvent) -> None:
        """Remember what an event says of the session as a whole."""
        if isinstance(event, SessionClosed):
            self.mark_closed(event.reason)
        elif isinstance(event, (SessionCreated, SessionUpdated)):
            self.public_session = event.session

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await asyncio.shield(self.close())


class EventStream(AsyncIterator["DuplexEvent"]):
    """An iterator over a session's events; leaving it half-way leaves nothing behind."""

    def __init__(self, handle: DuplexSessionHandle) -> None:
        self._handle: DuplexSessionHandle | None = handle
        self.waiting = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> DuplexEvent:
        handle = self._handle
        if handle is None:
            raise StopAsyncIteration
        if not handle.reads(self):
            raise RuntimeError("another reader has taken this session's events over")
        output = handle.link.output
        while True:
            self.waiting = True
            try:
                event = await output.get()
            finally:
                self.waiting = False
            if event is None:
                self._handle = None
                raise StopAsyncIteration
            if output.is_valid(event):
                handle.note(event)
                return event
