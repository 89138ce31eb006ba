"""Everything a caller touches of a session, whatever carries it.

A transport adds three coroutines (``_open``, ``_send_command``, ``_teardown``) and reports what
arrives by ``_dispatch`` and ``_connection_lost``. All of it belongs to one event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from duplex_sdk.protocol.duplex import (
    AckPlayback,
    AppendAudio,
    CancelResponse,
    ClearInput,
    ClearOutputAudio,
    CloseSession,
    Commit,
    CreateItem,
    CreateResponse,
    DeleteItem,
    DuplexEvent,
    ErrorEvent,
    RealtimeCommand,
    RealtimeProtocolError,
    RetrieveItem,
    SessionClosed,
    SessionCreated,
    SessionUpdated,
    TruncateItem,
    UpdateSession,
    decode_event,
    encode_command,
)

from .errors import (
    ClientConnectionError,
    ClientError,
    ClientProtocolError,
    ClientSessionClosedError,
)
from .pacing import paced
from .responses import ResponseStream
from .streams import DEFAULT_STREAM_SIZE, BoundedStream, OverflowPolicy

__all__ = ["DuplexClientBase"]

EventTypes = type[DuplexEvent] | tuple[type[DuplexEvent], ...]


class DuplexClientBase(ABC):
    """A session with a full-duplex speech model; an async context manager.

    Entering opens the session, leaving closes it in order. Methods that send return the client
    event id, which the server names in an error that answers it.

    Args:
        session: what the session shall be (``session.update``); None takes the server's defaults.
        open_timeout_s: longest wait for ``session.created``.
        queue_size: entries each listener may leave unread before its overflow policy applies.

    Attributes:
        skipped_frames: server frames that were no event of the vocabulary.
    """

    def __init__(
        self,
        session: Mapping[str, Any] | None = None,
        *,
        open_timeout_s: float = 30.0,
        queue_size: int = DEFAULT_STREAM_SIZE,
    ) -> None:
        self._wanted_session = dict(session or {})
        self._open_timeout_s = open_timeout_s
        self._queue_size = queue_size
        self._event_numbers = itertools.count(1)
        self._streams: list[BoundedStream[DuplexEvent]] = []
        self._response_streams: list[ResponseStream] = []
        self._session: dict[str, Any] = {}
        self._session_id = ""
        self._end: Exception | None = None
        self._opened = False
        self.skipped_frames = 0

    # Life

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Connect, configure and wait for the session; a client opens once.

        Raises:
            ClientConnectionError: no transport, or it was lost before the session began.
            ClientProtocolError: the server refused the session.
            TimeoutError: no session within ``open_timeout_s``.
        """
        if self._opened:
            raise RuntimeError("a client opens one session, once")
        self._opened = True
        events = self.events()
        try:
            async with asyncio.timeout(self._open_timeout_s):
                await self._open()
                await self.update(self._wanted_session)
                await _session_created(events)
        except BaseException:
            await self._teardown()
            self._finish(ClientConnectionError("the session was not opened"))
            raise
        finally:
            events.close()

    async def close(self, timeout_s: float = 20.0, *, reason: str = "client_close") -> None:
        """End the session: ask, wait up to ``timeout_s`` for its last event, let go. Idempotent."""
        if self._end is None and self._opened:
            ended = self.events()
            with contextlib.suppress(ClientError, TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._send(CloseSession(reason=reason))
                    async for _ in ended:
                        pass
        await self._teardown()
        self._finish(ClientSessionClosedError(reason), orderly=True)

    @property
    def closed(self) -> bool:
        """Whether the session is over, by whichever side."""
        return self._end is not None

    @property
    def session_id(self) -> str:
        """Id the server gave the session; empty before it opened."""
        return self._session_id

    @property
    def session(self) -> Mapping[str, Any]:
        """The effective session object as the server last showed it."""
        return self._session

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """What this model can do; branch on it, never on the model's name."""
        capabilities: Mapping[str, Any] = self._session.get("capabilities") or {}
        return capabilities

    # Listening

    def events(
        self,
        *,
        size: int | None = None,
        policy: OverflowPolicy = OverflowPolicy.FAIL,
    ) -> BoundedStream[DuplexEvent]:
        """All events from this call on; each call has a queue of its own.

        Iteration ends after the session's terminal event, and raises when the connection was lost.
        """
        stream: BoundedStream[DuplexEvent] = BoundedStream(
            size or self._queue_size, policy, on_close=self._streams.remove
        )
        self._streams.append(stream)
        if self._end is not None:
            stream.finish(_unless_orderly(self._end))
        return stream

    def responses(self) -> ResponseStream:
        """The responses that begin from this call on; each call has handles of its own."""
        stream = ResponseStream(
            stream_size=self._queue_size, on_close=self._response_streams.remove
        )
        self._response_streams.append(stream)
        if self._end is not None:
            stream.finish(self._end, orderly=_unless_orderly(self._end) is None)
        return stream

    async def wait_for(self, types: EventTypes, timeout_s: float | None = None) -> DuplexEvent:
        """Return the next event of one of ``types``; errors of the server are not raised.

        What arrived before the call does not count: to see the answer to something you are about
        to send, take ``events()`` first.

        Raises:
            TimeoutError: nothing of the kind within ``timeout_s``.
            ClientSessionClosedError: the session ended first.
            ClientConnectionError: the connection was lost first.
        """
        stream = self.events()
        try:
            async with asyncio.timeout(timeout_s):
                async for event in stream:
                    if isinstance(event, types):
                        return event
        finally:
            stream.close()
        raise self._end or ClientSessionClosedError("the session ended")

    # Speaking

    async def append_audio(
        self,
        audio: bytes,
        *,
        format: str | None = None,
        sample_rate_hz: int | None = None,
        is_speech: bool | None = None,
    ) -> str:
        """Send input audio, by default in the session's input format."""
        return await self._send(
            AppendAudio(
                audio=audio, format=format, sample_rate_hz=sample_rate_hz, is_speech=is_speech
            )
        )

    async def stream_pcm(
        self,
        source: bytes | Iterable[bytes] | AsyncIterable[bytes],
        *,
        sample_rate_hz: int,
        chunk_ms: int = 40,
        declare_rate: bool = False,
    ) -> None:
        """Send mono PCM16 as a microphone would: in chunks, at the speed of speech.

        Args:
            source: all of it, or pieces of any size.
            sample_rate_hz: its rate, which must be the session's unless it is declared.
            chunk_ms: length of one append.
            declare_rate: state the rate with every append.
        """
        rate = sample_rate_hz if declare_rate else None
        async for chunk in paced(source, bytes_per_second=2 * sample_rate_hz, chunk_ms=chunk_ms):
            await self.append_audio(chunk, sample_rate_hz=rate)

    async def commit(
        self,
        *,
        response_create: bool | None = None,
        final: bool = True,
        is_speech: bool | None = None,
    ) -> str:
        """Seal the input so far into one user item."""
        return await self._send(
            Commit(final=final, response_create=response_create, is_speech=is_speech)
        )

    async def clear_input(self) -> str:
        """Drop the input that no commit has sealed."""
        return await self._send(ClearInput())

    # Answers

    async def create_response(self, **options: Any) -> str:
        """Ask for an answer to what was committed; options hold for this response only."""
        return await self._send(CreateResponse(response=options))

    async def cancel_response(self, response_id: str | None = None) -> str:
        """End the active response at once."""
        return await self._send(CancelResponse(response_id=response_id))

    async def clear_output(self, response_id: str | None = None) -> str:
        """Discard output audio that was not sent, and stop its response."""
        return await self._send(ClearOutputAudio(response_id=response_id))

    async def ack_playback(
        self,
        played_ms: float,
        *,
        response_id: str | None = None,
        item_id: str | None = None,
        committed_ms: float | None = None,
        truncate: bool = False,
    ) -> str:
        """Tell how much of a response was played, in ms of its audio."""
        return await self._send(
            AckPlayback(
                played_ms=played_ms,
                committed_ms=committed_ms,
                response_id=response_id,
                item_id=item_id,
                truncate=truncate,
            )
        )

    # Conversation

    async def create_item(
        self, item: Mapping[str, Any], *, previous_item_id: str | None = None
    ) -> str:
        """Add an item; ``previous_item_id="root"`` puts it first."""
        return await self._send(CreateItem(item=dict(item), previous_item_id=previous_item_id))

    async def send_text(self, text: str) -> str:
        """Add what the user says in writing; ``create_response`` asks for the answer."""
        content = [{"type": "input_text", "text": text}]
        return await self.create_item({"type": "message", "role": "user", "content": content})

    async def delete_item(self, item_id: str) -> str:
        """Remove an item."""
        return await self._send(DeleteItem(item_id=item_id))

    async def truncate_item(
        self, item_id: str, audio_end_ms: int, *, content_index: int = 0
    ) -> str:
        """Cut an assistant item to what was heard."""
        return await self._send(
            TruncateItem(item_id=item_id, audio_end_ms=audio_end_ms, content_index=content_index)
        )

    async def retrieve_item(self, item_id: str) -> str:
        """Ask for an item as the session now holds it."""
        return await self._send(RetrieveItem(item_id=item_id))

    async def update(self, session: Mapping[str, Any]) -> str:
        """Change the session: a patch, nested objects merge."""
        return await self._send(UpdateSession(session=dict(session)))

    async def send(self, raw: Mapping[str, Any]) -> str:
        """Send any client event as it is, given an ``event_id`` if it has none; returns the id.

        Raises:
            ClientConnectionError: the transport is gone.
            ClientSessionClosedError: the session is over.
        """
        if self._end is not None:
            raise self._end
        payload = dict(raw)
        event_id = str(payload.setdefault("event_id", f"client_{next(self._event_numbers)}"))
        await self._send_command(payload)
        return event_id

    async def _send(self, command: RealtimeCommand) -> str:
        return await self.send(encode_command(command))

    # What a transport provides

    @abstractmethod
    async def _open(self) -> None:
        """Establish the transport and start delivering every server event to ``_dispatch``.

        Undoes partial work when it fails.

        Raises:
            ClientConnectionError: it cannot be established.
        """

    @abstractmethod
    async def _send_command(self, payload: dict[str, Any]) -> None:
        """Deliver one client event, in the order of the calls; never drops one silently.

        Raises:
            ClientConnectionError: the transport is gone.
            ClientSessionClosedError: the session is over.
        """

    @abstractmethod
    async def _teardown(self) -> None:
        """Let go of the transport. Idempotent, never raises."""

    # What a transport reports

    def _dispatch(self, payload: Mapping[str, Any]) -> None:
        """Hand one server event to everybody who listens; returns at once, never raises."""
        if self._end is not None:
            return
        try:
            event = decode_event(payload)
        except RealtimeProtocolError:
            # A newer server may say things we do not know; they are passed over, and counted.
            self.skipped_frames += 1
            return
        self._note_session(event)
        for stream in list(self._streams):
            stream.put(event)
        for responses in list(self._response_streams):
            responses.take(event)
        if isinstance(event, SessionClosed):
            self._finish(ClientSessionClosedError(event.reason), orderly=True)

    def _connection_lost(self, error: ClientError) -> None:
        """The transport ended without a terminal event; in order if ``error`` says closed."""
        self._finish(error, orderly=isinstance(error, ClientSessionClosedError))

    def _note_session(self, event: DuplexEvent) -> None:
        if isinstance(event, SessionCreated | SessionUpdated):
            self._session = event.session
            self._session_id = str(event.session.get("id", self._session_id))

    def _finish(self, end: Exception, *, orderly: bool = False) -> None:
        if self._end is not None:
            return
        self._end = end
        for stream in list(self._streams):
            stream.finish(None if orderly else end)
        for responses in list(self._response_streams):
            responses.finish(end, orderly=orderly)


def _unless_orderly(end: Exception) -> Exception | None:
    return None if isinstance(end, ClientSessionClosedError) else end


async def _session_created(events: BoundedStream[DuplexEvent]) -> None:
    async for event in events:
        if isinstance(event, SessionCreated):
            return
        if isinstance(event, ErrorEvent):
            details = event.error
            raise ClientProtocolError(
                details.code, details.message, event_id=details.event_id, param=details.param
            )
    raise ClientConnectionError("the connection ended before the session began")
