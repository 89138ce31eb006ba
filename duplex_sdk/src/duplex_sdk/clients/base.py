"""Everything a caller touches of a session, whatever carries it.

A transport adds three coroutines (``_open``, ``_send_command``, ``_teardown``) and reports what
arrives by ``_dispatch`` and ``_connection_lost``. All of it belongs to one event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import abstractmethod
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from duplex_sdk.protocol.duplex import (
    CloseSession,
    DuplexEvent,
    ErrorEvent,
    OutputAudioCleared,
    RealtimeCommand,
    RealtimeProtocolError,
    ResponseCreated,
    ResponseDone,
    SessionClosed,
    SessionCreated,
    SessionUpdated,
    decode_command,
    decode_event,
    encode_command,
)

from .commands import SessionCommands
from .errors import (
    ClientConnectionError,
    ClientError,
    ClientProtocolError,
    ClientSessionClosedError,
)
from .playback_reports import PlaybackReporter
from .player import PlayedAudio, Player
from .receipts import Receipt, ReceiptLedger
from .responses import ResponseStream
from .streams import DEFAULT_STREAM_SIZE, BoundedStream, OverflowPolicy
from .trace import DEFAULT_TRACE_SIZE, WireTrace

__all__ = ["DuplexClientBase"]

EventTypes = type[DuplexEvent] | tuple[type[DuplexEvent], ...]


class DuplexClientBase(SessionCommands):
    """A session with a full-duplex speech model; an async context manager.

    Entering opens the session, leaving closes it in order.

    Args:
        session: what the session shall be (``session.update``); None takes the server's defaults.
        open_timeout_s: longest wait for ``session.created``.
        queue_size: entries each listener may leave unread before its overflow policy applies.
        trace_size: frames that ``trace`` keeps.

    Attributes:
        skipped_frames: server frames that were no event of the vocabulary.
        trace: the last frames both ways, without secrets.
    """

    def __init__(
        self,
        session: Mapping[str, Any] | None = None,
        *,
        open_timeout_s: float = 30.0,
        queue_size: int = DEFAULT_STREAM_SIZE,
        trace_size: int = DEFAULT_TRACE_SIZE,
    ) -> None:
        super().__init__()
        self._wanted_session = dict(session or {})
        self._open_timeout_s = open_timeout_s
        self._queue_size = queue_size
        self._streams: list[BoundedStream[DuplexEvent]] = []
        self._response_streams: list[ResponseStream] = []
        self._session: dict[str, Any] = {}
        self._session_id = ""
        self._receipts = ReceiptLedger()
        self._active_responses: set[str] = set()
        self._players: dict[PlaybackReporter, asyncio.Task[None]] = {}
        self._end: ClientError | None = None
        self._opened = False
        self.skipped_frames = 0
        self.trace = WireTrace(trace_size)

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
            with contextlib.suppress(ClientError, TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._report_playback()
                    await self._ask_to_end(reason)
        await self._teardown()
        self._finish(ClientSessionClosedError(reason), orderly=True)
        await asyncio.gather(*self._players.values(), return_exceptions=True)

    async def _ask_to_end(self, reason: str) -> None:
        while True:
            receipt = await self._send(CloseSession(reason=reason))
            try:
                await receipt.acknowledged(None)
                return
            except ClientConnectionError:
                # Lost on its way, over a connection that is back: asked again. Else this raises.
                continue

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

    # Playing

    def attach(self, player: Player, *, report_interval_s: float = 0.25) -> None:
        """Play what is answered from now on, and tell the server how far it was heard.

        Args:
            player: fed with every event until the client is closed.
            report_interval_s: between two reports while something plays.
        """
        reporter = PlaybackReporter(player, self._tell_played, interval_s=report_interval_s)
        self._players[reporter] = asyncio.create_task(reporter.run())

    async def interrupt(self, timeout_s: float | None = 10.0) -> OutputAudioCleared:
        """Silence the assistant: attached players at once, then the session.

        The server is told first how far the answer was heard. After the return nothing of that
        answer can come any more. Harmless when nothing is said.

        Raises:
            ClientError: the session or connection ended first.
            TimeoutError: the server did not confirm in time.
        """
        for reporter in self._players:
            reporter.silence(self._active_responses)
        events = self.events()
        try:
            async with asyncio.timeout(timeout_s):
                await self._report_playback()
                cleared = await (await self.clear_output()).acknowledged(None)
                async for _ in events:
                    if cleared.response_id not in self._active_responses:
                        return cleared
        finally:
            events.close()
        raise self._end or ClientSessionClosedError("the session ended")

    async def _tell_played(self, report: PlayedAudio) -> None:
        await self.ack_playback(report.played_ms, response_id=report.response_id)

    async def _report_playback(self) -> None:
        for reporter in list(self._players):
            await reporter.tell()

    # Sending

    async def send(self, raw: Mapping[str, Any]) -> str:
        """Send any client event as it is, given an ``event_id`` if it has none; returns the id.

        Raises:
            ClientConnectionError: the transport is gone.
            ClientSessionClosedError: the session is over.
        """
        payload = dict(raw)
        event_id = str(payload.setdefault("event_id", self._new_event_id()))
        await self._hand_over(payload, self._receipts.expect(event_id, _command_of(payload)))
        return event_id

    async def _send(self, command: RealtimeCommand) -> Receipt[Any]:
        payload = encode_command(command)
        event_id = str(payload.setdefault("event_id", self._new_event_id()))
        receipt = self._receipts.expect(event_id, command)
        await self._hand_over(payload, receipt)
        return receipt

    async def _hand_over(self, payload: dict[str, Any], receipt: Receipt[Any]) -> None:
        try:
            if self._end is not None:
                raise self._end
            self.trace.sent(payload)
            await self._send_command(payload)
            receipt.sent = True
        except BaseException:
            self._receipts.forget(receipt)
            raise

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
        self.trace.received(payload)
        try:
            event = decode_event(payload)
        except RealtimeProtocolError:
            # A newer server may say things we do not know; they are passed over, and counted.
            self.skipped_frames += 1
            return
        self._note(event)
        self._distribute(event)
        if isinstance(event, SessionClosed):
            self._finish(ClientSessionClosedError(event.reason), orderly=True)

    def _distribute(self, event: DuplexEvent) -> None:
        """Hand a typed event to everybody who listens; returns at once, never raises."""
        for reporter in self._players:
            reporter.take(event)
        for stream in list(self._streams):
            stream.put(event)
        for responses in list(self._response_streams):
            responses.take(event)
        self._receipts.take(event)

    def _connection_lost(self, error: ClientError) -> None:
        """The transport ended without a terminal event; in order if ``error`` says closed."""
        self._finish(error, orderly=isinstance(error, ClientSessionClosedError))

    def _note(self, event: DuplexEvent) -> None:
        if isinstance(event, SessionCreated | SessionUpdated):
            self._session = event.session
            self._session_id = str(event.session.get("id", self._session_id))
        elif isinstance(event, ResponseCreated):
            self._active_responses.add(event.response_id)
        elif isinstance(event, ResponseDone):
            self._active_responses.discard(event.response_id)

    def _finish(self, end: ClientError, *, orderly: bool = False) -> None:
        if self._end is not None:
            return
        self._end = end
        for stream in list(self._streams):
            stream.finish(None if orderly else end)
        for responses in list(self._response_streams):
            responses.finish(end, orderly=orderly)
        self._receipts.give_up(end)
        for reporting in self._players.values():
            reporting.cancel()


def _unless_orderly(end: ClientError) -> ClientError | None:
    return None if isinstance(end, ClientSessionClosedError) else end


async def _session_created(events: BoundedStream[DuplexEvent]) -> None:
    async for event in events:
        if isinstance(event, SessionCreated):
            return
        if isinstance(event, ErrorEvent):
            raise ClientProtocolError.of(event)
    raise ClientConnectionError("the connection ended before the session began")


def _command_of(payload: Mapping[str, Any]) -> RealtimeCommand:
    """What a raw frame asks for, in so far as an answer to it can be told."""
    try:
        command = decode_command(payload)
    except RealtimeProtocolError:
        return RealtimeCommand()
    return command if isinstance(command, RealtimeCommand) else RealtimeCommand()
