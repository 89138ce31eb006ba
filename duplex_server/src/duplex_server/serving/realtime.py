"""The realtime endpoint: one call per connection, from the upgrade to the close."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

import msgspec
from duplex_sdk.protocol.duplex import (
    ErrorEvent,
    RealtimeCommand,
    RealtimeProtocolError,
    ResumeRequest,
    error_event,
)
from duplex_sdk.session.ids import IdSource

from duplex_server.runtime.errors import DuplexSessionError
from duplex_server.runtime.unit_watch import UnitWatch

from .attachment import Attachment
from .attachments import AttachmentRegistry, ServedSession
from .connection import InputStalledError, RealtimeConnection
from .envelope import ConnectionEnvelope
from .http_errors import error_response, status_of_refusal
from .idle import IdleWatch
from .metrics import ServingMetrics
from .observers import ObserverThreads
from .opening import HandshakeRefusedError, Opened, SessionOpener
from .profiles import ConnectionProfile
from .resuming import EventsLostError, SessionResumer
from .traces import session_trace
from .websocket import RealtimeSocket, SocketGone

if TYPE_CHECKING:
    from duplex_server.entrypoints import DuplexOmni, DuplexSessionHandle

__all__ = ["ConnectionLimits", "OmniDuplexSessionHandler"]

_log = logging.getLogger(__name__)
_TERMINAL_DRAIN_S = 5.0
_DEFAULT_IDLE_S = 300.0


class ConnectionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a connection may do.

    Attributes:
        max_frame_bytes: largest client frame, in bytes of UTF-8.
        config_timeout_s: longest wait for a first frame.
        input_stall_timeout_s: longest wait for room, in a profile that waits.
    """

    max_frame_bytes: int
    config_timeout_s: float
    input_stall_timeout_s: float


@dataclass(frozen=True, slots=True)
class _Connected:
    """A socket with a session; ``first`` is the frame that opened it when that is a command."""

    served: ServedSession
    attachment: Attachment
    first: RealtimeCommand | None = None


class _Departure(Enum):
    """Why a socket is read no more."""

    LEFT = auto()
    STALLED = auto()
    FAILED = auto()


class OmniDuplexSessionHandler:
    """Serves connections of an engine. Holds no session state; belongs to the serving loop."""

    def __init__(
        self,
        omni: DuplexOmni,
        registry: AttachmentRegistry,
        metrics: ServingMetrics,
        *,
        observers: ObserverThreads,
        ids: IdSource,
        limits: ConnectionLimits,
    ) -> None:
        self._omni = omni
        self._registry = registry
        self._metrics = metrics
        self._observers = observers
        self._ids = ids
        self._limits = limits
        self._opener = SessionOpener(
            omni, max_frame_bytes=limits.max_frame_bytes, config_timeout_s=limits.config_timeout_s
        )
        self._resumer = SessionResumer(omni, registry, metrics)

    async def handle(self, socket: RealtimeSocket, envelope: ConnectionEnvelope) -> None:
        """Serve one connection until it is closed. Raises nothing but cancellation."""
        profile = envelope.new_profile()
        try:
            connected = await self._connect(socket, envelope, profile)
        except SocketGone:
            return
        if connected is not None:
            await self._serve(socket, connected)

    # From the upgrade to a session

    async def _connect(
        self, socket: RealtimeSocket, envelope: ConnectionEnvelope, profile: ConnectionProfile
    ) -> _Connected | None:
        if profile.model_must_be_known and not self._opener.serves_model(envelope.model):
            self._metrics.rejections.labels("invalid_session_config").inc()
            await socket.refuse(
                error_response(
                    404, "invalid_session_config", "no such model is served here", param="model"
                )
            )
            return None
        if profile.opens_unasked(
            model=envelope.model, autostart=envelope.autostart, resume=envelope.resume
        ):
            return await self._open_before_accepting(socket, profile)
        await socket.accept()
        try:
            opened = await self._opener.open_by_first_frame(socket, profile, envelope)
        except HandshakeRefusedError as refused:
            self._metrics.rejections.labels(refused.error.code).inc()
            await self._refuse(socket, profile, refused.error, refused.close_code)
            return None
        if isinstance(opened, ResumeRequest):
            return await self._resume(socket, profile, opened)
        return self._attach(socket, profile, opened)

    async def _open_before_accepting(
        self, socket: RealtimeSocket, profile: ConnectionProfile
    ) -> _Connected | None:
        # The slot is taken before the upgrade is accepted: a session is never announced and then
        # refused for want of room.
        try:
            handle = await self._opener.open_default(profile)
        except (DuplexSessionError, RealtimeProtocolError) as error:
            self._metrics.rejections.labels(error.code).inc()
            status = status_of_refusal(error.code)
            await socket.refuse(error_response(status, error.code, error.message))
            return None
        try:
            await socket.accept()
        except BaseException:
            await asyncio.shield(_close_quietly(handle, "session_created_undelivered"))
            raise
        return self._attach(socket, profile, Opened(handle))

    async def _resume(
        self, socket: RealtimeSocket, profile: ConnectionProfile, request: ResumeRequest
    ) -> _Connected | None:
        try:
            served, attachment = await self._resumer.resume(socket, request)
        except RealtimeProtocolError as error:
            await self._refuse(socket, profile, error, 1008)
        except EventsLostError as lost:
            await _tell(socket, lost.frame)
            await socket.close(1000, "resync_required")
        else:
            return _Connected(served, attachment)
        return None

    async def _refuse(
        self,
        socket: RealtimeSocket,
        profile: ConnectionProfile,
        error: RealtimeProtocolError,
        close_code: int,
    ) -> None:
        await _tell(socket, msgspec.json.encode(profile.render(self._error(error))))
        await socket.close(close_code, error.code)

    def _attach(
        self, socket: RealtimeSocket, profile: ConnectionProfile, opened: Opened
    ) -> _Connected:
        attachment = Attachment(socket, opened.handle.lease_generation)
        session_id = opened.handle.session_id
        trace = self._observers.traced(session_id, session_trace(session_id, profile.name))
        if trace.wants_units:
            opened.handle.link.units = UnitWatch(trace.unit)
        served = ServedSession(
            self._omni,
            opened.handle,
            profile,
            attachment,
            ids=self._ids,
            observer=self._metrics.observer(trace),
        )
        self._registry.add(served)
        return _Connected(served, attachment, opened.first)

    # A socket with a session

    async def _serve(self, socket: RealtimeSocket, connected: _Connected) -> None:
        served, attachment = connected.served, connected.attachment
        connection = RealtimeConnection(
            socket,
            served.delivery,
            attachment,
            ids=self._ids,
            max_frame_bytes=self._limits.max_frame_bytes,
            input_stall_timeout_s=self._limits.input_stall_timeout_s,
        )
        reader = asyncio.create_task(self._read(connection, served.handle, connected.first))
        try:
            over: set[asyncio.Future[Any]] = {reader, attachment.ended}
            await asyncio.wait(over, return_when=asyncio.FIRST_COMPLETED)
            if reader.done() and served.delivery.serves(attachment):
                departure = None if reader.cancelled() else reader.result()
                await self._after_reader(served, attachment, departure)
            elif not attachment.ended.done():
                await attachment.ended
        finally:
            reader.cancel()
            served.lose(attachment)

    async def _read(
        self,
        connection: RealtimeConnection,
        handle: DuplexSessionHandle,
        first: RealtimeCommand | None,
    ) -> _Departure:
        """Read until the socket is done with; a silent one cancels this task."""
        reading = asyncio.current_task()
        assert reading is not None
        watch = IdleWatch(lambda: _idle_timeout_s(handle), reading.cancel)
        try:
            if first is not None:
                await connection.submit(first)
            await connection.read(watch.touch)
        except SocketGone:
            return _Departure.LEFT
        except InputStalledError:
            return _Departure.STALLED
        except Exception:
            _log.exception("connection of %s failed", handle.session_id)
            return _Departure.FAILED
        finally:
            watch.stop()

    async def _after_reader(
        self, served: ServedSession, attachment: Attachment, departure: _Departure | None
    ) -> None:
        """The client left, sent faster than the engine takes, we failed, or it went silent."""
        delivery = served.delivery
        if departure is _Departure.LEFT:
            served.lose(attachment)
        elif departure is _Departure.STALLED:
            await self._hang_up(
                served, attachment, 1008, "input_backpressure", "no room for more input"
            )
        elif departure is _Departure.FAILED:
            error = RealtimeProtocolError("realtime_input_failed", "the connection layer failed")
            await delivery.send_local(self._error(error), attachment)
            await delivery.close_attachment(1011, "internal_error")
            await served.close("transport_error")
        elif delivery.survives_loss:
            served.lose(attachment)
            await attachment.close(1000, "idle_timeout")
        else:
            await served.close("disconnect")
            await asyncio.wait({served.pump}, timeout=_TERMINAL_DRAIN_S)

    async def _hang_up(
        self, served: ServedSession, attachment: Attachment, code: int, reason: str, message: str
    ) -> None:
        error = self._error(RealtimeProtocolError(reason, message))
        await served.delivery.send_local(error, attachment)
        served.lose(attachment)
        await attachment.close(code, reason)

    def _error(self, error: RealtimeProtocolError) -> ErrorEvent:
        return error_event(
            error.code,
            error.message,
            event_id=error.event_id,
            param=error.param,
            command=error.command,
            new_id=self._ids.event(),
        )


def _idle_timeout_s(handle: DuplexSessionHandle) -> float:
    value = handle.public_session.get("idle_timeout_s")
    return float(value) if isinstance(value, int | float) else _DEFAULT_IDLE_S


async def _tell(socket: RealtimeSocket, frame: bytes) -> None:
    try:
        await socket.send(frame.decode())
    except SocketGone:
        return


async def _close_quietly(handle: DuplexSessionHandle, reason: str) -> None:
    try:
        await handle.close(reason)
    except DuplexSessionError as error:
        _log.warning("closing %s: %s", handle.session_id, error)
