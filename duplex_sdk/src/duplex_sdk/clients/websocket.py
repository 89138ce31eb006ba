"""The client over a WebSocket: it numbers what it saw, stays alive, and comes back."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Coroutine, Mapping
from typing import Any

import msgspec

from duplex_sdk.protocol.duplex import ResumeRequest, SignalTurn, encode_command

from .base import DuplexClientBase
from .connection_events import ConnectionLost, ConnectionResumed
from .errors import ClientConnectionError, ClientError
from .event_acks import EventAcknowledger
from .liveness import Liveness
from .receipts import Receipt
from .resume import Reconnect, Resumed, Resumption
from .socket import Socket, SocketFactory, resume_url, session_url
from .streams import DEFAULT_STREAM_SIZE
from .trace import DEFAULT_TRACE_SIZE

__all__ = ["DuplexClient"]

_log = logging.getLogger(__name__)

HEARTBEAT_INTERVAL_S = 15.0
HEARTBEAT_TIMEOUT_S = 10.0
_FRAME = msgspec.json.Decoder(dict[str, Any])
_FENCE = "connection.resumed."


async def _library_socket(url: str, headers: Mapping[str, str]) -> Socket:
    # Imported when the first connection opens: it is two thirds of what importing a client costs.
    from .library_socket import WebSocket

    return await WebSocket.connect(url, headers)


class DuplexClient(DuplexClientBase):
    """A session over a WebSocket, in the server's ``duplex`` profile.

    It acknowledges numbered events once all listeners have them, passes over numbers it has seen,
    and keeps the session alive while the caller is silent. When the connection is lost it comes
    back: listeners get ``ConnectionLost``, then ``ConnectionResumed`` and every event they missed.
    Meanwhile commands wait for the connection, in order.

    Args:
        url: of the server; an empty path becomes ``/v1/realtime``.
        session: as ``DuplexClientBase``.
        api_key: sent as a bearer token; by default the environment's ``DUPLEX_API_KEY``.
        model: name of the model to talk to; None for the one served.
        duplex: False speaks to the ``openai`` profile, as a stock client would; that one has no
            heartbeats and no way back.
        heartbeat_s: silence, in either direction, after which a heartbeat is sent; None for never.
        heartbeat_timeout_s: a connection that is silent for so long after a heartbeat is lost.
        reconnect: how hard to try to come back; None for not at all.
        open_timeout_s: as ``DuplexClientBase``.
        queue_size: as ``DuplexClientBase``.
        trace_size: as ``DuplexClientBase``.
        socket_factory: opens the sockets; for tests.
    """

    def __init__(
        self,
        url: str,
        session: Mapping[str, Any] | None = None,
        *,
        api_key: str | None = None,
        model: str | None = None,
        duplex: bool = True,
        heartbeat_s: float | None = HEARTBEAT_INTERVAL_S,
        heartbeat_timeout_s: float = HEARTBEAT_TIMEOUT_S,
        reconnect: Reconnect | None = Reconnect(),  # noqa: B008  # immutable
        open_timeout_s: float = 30.0,
        queue_size: int = DEFAULT_STREAM_SIZE,
        trace_size: int = DEFAULT_TRACE_SIZE,
        socket_factory: SocketFactory = _library_socket,
    ) -> None:
        super().__init__(
            session, open_timeout_s=open_timeout_s, queue_size=queue_size, trace_size=trace_size
        )
        self._url = session_url(url, model=model, duplex=duplex)
        self._api_key = api_key or os.environ.get("DUPLEX_API_KEY")
        self._reconnect = reconnect if duplex else None
        self._socket_factory = socket_factory
        self._socket: Socket | None = None
        self._reading: asyncio.Task[None] | None = None
        self._lost_by: ClientError | None = None
        # Up while a command can be sent, or never again: what it waits for is decided.
        self._settled = asyncio.Event()
        self._sending = asyncio.Lock()
        self._given_up = False
        self._token: str | None = None
        self._fences: dict[str, tuple[Receipt[Any], ...]] = {}
        self._resumes = 0
        self._acks = EventAcknowledger(self._send_control) if duplex else None
        self._last_seq = 0
        self._liveness = (
            Liveness(
                self._send_control,
                self._lose,
                interval_s=heartbeat_s,
                answer_timeout_s=heartbeat_timeout_s,
            )
            if duplex and heartbeat_s is not None
            else None
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._farewells: set[asyncio.Task[None]] = set()

    async def close(self, timeout_s: float = 20.0, *, reason: str = "client_close") -> None:
        """As ``DuplexClientBase.close``, but a connection that is lost already is not waited for.

        The server ends the session when its grace is over. What waits to be sent fails.
        """
        if self._socket is None:
            self._given_up = True
            self._settled.set()
        await super().close(timeout_s, reason=reason)

    # What the base wants

    async def _open(self) -> None:
        self._socket = await self._connect(self._url)
        self._settled.set()
        self._start(self._serve(self._socket))
        if self._acks is not None:
            self._start(self._acks.run())
        if self._liveness is not None:
            self._start(self._liveness.run())

    async def _send_command(self, payload: dict[str, Any]) -> None:
        frame = msgspec.json.encode(payload).decode()
        async with self._sending:
            while True:
                await self._settled.wait()
                socket = self._socket
                if socket is None:
                    raise self._end or ClientConnectionError("the client is not connected")
                try:
                    await socket.send(frame)
                except ClientError as error:
                    if not self._can_resume(error):
                        raise
                    self._lose(error)
                else:
                    if self._liveness is not None:
                        self._liveness.sent()
                    return

    async def _teardown(self) -> None:
        socket, self._socket = self._socket, None
        self._settled.set()
        if socket is not None:
            await socket.close()
        tasks, self._tasks = self._tasks, set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*self._farewells)

    # The connection's life

    async def _serve(self, socket: Socket) -> None:
        try:
            while True:
                loss = await self._read_until_lost(socket)
                socket = await self._come_back(loss)
        except ClientError as error:
            self._connection_lost(error)
        finally:
            self._settled.set()

    async def _read_until_lost(self, socket: Socket) -> ClientError:
        """Read a socket to its end; ``_lose`` ends it before that."""
        self._lost_by = None
        self._reading = asyncio.create_task(self._read(socket))
        try:
            await asyncio.wait({self._reading})
        finally:
            self._reading.cancel()
            self._socket = None
            self._settled.clear()
            self._abandon(socket)
        return self._lost_by or ClientConnectionError("the connection was lost")

    async def _read(self, socket: Socket) -> None:
        try:
            while True:
                self._take(await socket.recv())
        except ClientError as error:
            self._lost_by = self._lost_by or error
        except Exception as error:
            # A frame that cannot be handled would come again after a resume.
            _log.exception("what the server sent could not be handled")
            self._lost_by = ClientError(f"what the server sent could not be handled: {error!r}")

    def _lose(self, error: ClientError) -> None:
        """The connection is of no use any more, whatever the socket says."""
        self._settled.clear()
        self._lost_by = self._lost_by or error
        if self._reading is not None:
            self._reading.cancel()

    def _can_resume(self, loss: ClientError) -> bool:
        return (
            self._reconnect is not None
            and self._token is not None
            and not self._given_up
            and not self.closed
            and isinstance(loss, ClientConnectionError)
        )

    async def _come_back(self, loss: ClientError) -> Socket:
        if not self._can_resume(loss) or self._reconnect is None or self._token is None:
            raise loss
        lost_at = asyncio.get_running_loop().time()
        self._distribute(ConnectionLost(session_id=self.session_id, reason=str(loss)))
        request = ResumeRequest(
            session_id=self.session_id,
            resume_token=self._token,
            last_received_server_event_seq=self._last_seq,
        )
        self.trace.sent(encode_command(request))
        resumed = await Resumption(
            lambda: self._connect(resume_url(self._url)),
            request,
            self._reconnect,
            report=self._dispatch,
            abandon=self._abandon,
        ).run()
        await self._go_on(resumed, asyncio.get_running_loop().time() - lost_at)
        return resumed.socket

    async def _go_on(self, resumed: Resumed, outage_s: float) -> None:
        self._resumes += 1
        self._note_token(resumed.answer)
        self._dispatch(resumed.answer)
        newest = resumed.answer.get("newest_server_event_seq")
        self._distribute(
            ConnectionResumed(
                session_id=self.session_id,
                outage_s=outage_s,
                attempts=resumed.attempts,
                attachment_generation=int(resumed.answer.get("attachment_generation") or 0),
                missed=newest - self._last_seq if isinstance(newest, int) else None,
            )
        )
        self._socket = resumed.socket
        await self._raise_fence()
        if self._liveness is not None:
            self._liveness.reset()
        self._settled.set()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.add(asyncio.create_task(work))

    def _abandon(self, socket: Socket) -> None:
        # A close can take its time when nobody answers; nothing waits for it.
        farewell = asyncio.create_task(socket.close())
        self._farewells.add(farewell)
        farewell.add_done_callback(self._farewells.discard)

    async def _connect(self, url: str) -> Socket:
        headers = {"Authorization": f"Bearer {self._api_key}"} if self._api_key else {}
        return await self._socket_factory(url, headers)

    # Frames

    def _take(self, frame: str | bytes) -> None:
        if self._liveness is not None:
            self._liveness.received()
        try:
            payload = _FRAME.decode(frame)
        except msgspec.DecodeError:
            self.skipped_frames += 1
            return
        seq = payload.get("server_event_seq")
        if not isinstance(seq, int):
            self._note_token(payload)
            self._hand_out(payload)
        elif seq > self._last_seq:
            self._hand_out(payload)
            self._last_seq = seq
            if self._acks is not None:
                self._acks.received(seq, len(frame))

    def _hand_out(self, payload: dict[str, Any]) -> None:
        if payload.get("type") == "turn.event" and str(payload.get("event")).startswith(_FENCE):
            self._lower_fence(payload["event"])
        else:
            self._dispatch(payload)

    def _note_token(self, payload: Mapping[str, Any]) -> None:
        match payload.get("type"):
            case "session.created" | "session.resumed":
                self._token = payload.get("resume_token")
            case "session.resync_required" | "session.replaced":
                # Events were lost, or the session is somebody else's now: there is no way back.
                self._token = None
            case _:
                pass

    async def _send_control(self, payload: dict[str, Any]) -> None:
        """Send what serves the connection; without one it is not needed."""
        socket = self._socket
        if socket is not None and self._end is None:
            self.trace.sent(payload)
            with contextlib.suppress(ClientError):
                await socket.send(msgspec.json.encode(payload).decode())

    # Commands that a lost connection may have swallowed

    async def _raise_fence(self) -> None:
        """Find out which commands did not arrive: what is unanswered when this one is, is lost.

        A session takes commands in order, so the answer to a signal of a name of its own comes
        after those to all that arrived before. Without it a lost command would be taken for
        answered by the answer to the next of its kind.
        """
        unanswered = self._receipts.unanswered()
        if not unanswered:
            return
        signal = SignalTurn(event=f"{_FENCE}{self._resumes}")
        self._fences[signal.event] = unanswered
        await self._send_control(encode_command(signal))

    def _lower_fence(self, name: str) -> None:
        # Those of earlier connections may be in the replay, or may be lost themselves.
        while name in self._fences:
            doubtful = self._fences.pop(next(iter(self._fences)))
            self._receipts.give_up(
                ClientConnectionError("the connection was lost before the answer came"), doubtful
            )
