"""One question put to a session of its own, and the answer as it comes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from duplex_sdk.protocol.duplex import (
    AppendAudio,
    AudioDelta,
    Commit,
    CreateItem,
    CreateResponse,
    DuplexEvent,
    ErrorEvent,
    InputCommitted,
    ItemDone,
    RealtimeCommand,
    ResponseCreated,
    ResponseDone,
    ResponseObject,
    SessionClosed,
    TextDelta,
    TranscriptDelta,
)
from msgspec import UNSET

from duplex_server.runtime.errors import DuplexSessionError

from .answer import ChatAnswer, ChatPiece
from .refusal import ChatRefusedError

if TYPE_CHECKING:
    from duplex_server.entrypoints import DuplexSessionHandle

__all__ = ["ChatTurn"]

_log = logging.getLogger(__name__)
_MOST_UNACKNOWLEDGED = 64
"""Each item is answered by events, which must fit the session's output."""


class ChatTurn(ChatAnswer):
    """Says the commands in a session and reads the one answer to them.

    The session belongs to this object: ``close`` it, whatever happens.
    """

    def __init__(self, handle: DuplexSessionHandle, commands: Sequence[RealtimeCommand]) -> None:
        self._handle = handle
        self._events = handle.events()
        self._fault: ChatRefusedError | None = None
        asks_by_speech = isinstance(commands[-1], Commit)
        self._turns = sum(isinstance(each, Commit) for each in commands) if asks_by_speech else 0
        self._unacknowledged = asyncio.Semaphore(_MOST_UNACKNOWLEDGED)
        # Beside the reading: a long conversation is acknowledged while it is told.
        self._feeder = asyncio.create_task(self._feed(commands))

    async def begin(self) -> None:
        """Wait until the answer begins.

        Raises:
            ChatRefusedError: something of the question was refused, or the session failed.
        """
        while not isinstance(await self._next_event(), ResponseCreated):
            pass

    async def next(self) -> ChatPiece:
        """The next piece; the last one has ``done``.

        Raises:
            ChatRefusedError: the answer failed.
        """
        while True:
            event = await self._next_event()
            if isinstance(event, TextDelta | TranscriptDelta) and event.delta:
                return ChatPiece(text=event.delta)
            if isinstance(event, AudioDelta):
                return ChatPiece(audio=event.delta)
            if isinstance(event, ResponseDone):
                return _last_piece(event.response)

    async def close(self) -> None:
        """End the session. Safe to call at any time, and again."""
        self._feeder.cancel()
        await self._end()

    async def _end(self) -> None:
        try:
            await asyncio.shield(self._handle.close("client_close"))
        except DuplexSessionError as error:
            _log.warning("closing %s: %s", self._handle.session_id, error)

    async def _next_event(self) -> DuplexEvent:
        try:
            event = await anext(self._events)
        except StopAsyncIteration:
            event = SessionClosed(reason=self._handle.close_reason or "internal_error")
        if self._fault is not None:
            raise self._fault
        if isinstance(event, ItemDone):
            self._unacknowledged.release()
        if isinstance(event, InputCommitted):
            self._committed(event)
        if isinstance(event, ErrorEvent) and event.command is not None:
            error = event.error
            raise ChatRefusedError(error.code, error.message, param=error.param)
        if isinstance(event, SessionClosed):
            raise ChatRefusedError(
                "engine_error", f"the session ended: {event.reason}", status=_end_status(event)
            )
        return event

    def _committed(self, event: InputCommitted) -> None:
        """A turn arrived. The last one asks for the answer, but silence does not: then we do."""
        self._turns -= 1
        if self._turns == 0 and (event.event or {}).get("is_speech") is False:
            try:
                self._handle.submit(CreateResponse(), lenient=True)
            except DuplexSessionError as error:
                raise ChatRefusedError(error.code, error.message, param=error.param) from error

    async def _feed(self, commands: Sequence[RealtimeCommand]) -> None:
        try:
            for command in commands:
                await self._wait_for_room(command)
                if isinstance(command, CreateItem | Commit):
                    await self._unacknowledged.acquire()
                self._handle.submit(command, lenient=True)
        except DuplexSessionError as error:
            self._fault = ChatRefusedError(error.code, error.message, param=error.param)
        except ChatRefusedError as error:
            self._fault = error
        if self._fault is not None:
            await self._end()

    async def _wait_for_room(self, command: RealtimeCommand) -> None:
        size = len(command.audio) if isinstance(command, AppendAudio) else 0
        if not await self._handle.wait_for_room(size, turn=isinstance(command, Commit)):
            raise ChatRefusedError(
                "input_backpressure", "the question holds too much audio", status=400
            )


def _last_piece(response: ResponseObject) -> ChatPiece:
    if response.status != "failed":
        return ChatPiece(done=response)
    details = response.status_details
    error = details.error if details is not None and details.error is not UNSET else {}
    raise ChatRefusedError(
        str(error.get("code") or "engine_error"), str(error.get("message") or "the answer failed")
    )


def _end_status(event: SessionClosed) -> int:
    return 503 if event.reason in ("shutdown", "engine_dead") else 500
