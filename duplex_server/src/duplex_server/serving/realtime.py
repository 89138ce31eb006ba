"""The realtime endpoint: one call per connection, from the upgrade to the close."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import msgspec
from duplex_sdk.protocol.duplex import ErrorEvent, RealtimeProtocolError, error_event
from duplex_sdk.session.ids import IdSource

from duplex_server.runtime.errors import DuplexSessionError

from .attachments import AttachmentRegistry, ServedSession
from .connection import InputStalledError, RealtimeConnection
from .delivery import Attachment, SessionDelivery
from .envelope import ConnectionEnvelope
from .http_errors import error_response, status_of_refusal
from .idle import IdleWatch
from .metrics import ServingMetrics
from .opening import HandshakeRefusedError, Opened, SessionOpener
from .profiles import ConnectionProfile
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


class OmniDuplexSessionHandler:
    """Serves connections of an engine. Holds no session state; belongs to the serving loop."""

    def __init__(
        self,
        omni: DuplexOmni,
        registry: AttachmentRegistry,
        metrics: ServingMetrics,
        *,
        ids: IdSource,
        limits: ConnectionLimits,
    ) -> None:
        self._registry = registry
        self._metrics = metrics
        self._ids = ids
        self._limits = limits
        self._opener = SessionOpener(
            omni,
            registry,
            max_frame_bytes=limits.max_frame_bytes,
            config_timeout_s=limits.config_timeout_s,
        )

    async def handle(self, socket: RealtimeSocket, envelope: ConnectionEnvelope) -> None:
        """Serve one connection until it is closed. Raises nothing but cancellation."""
        profile = envelope.new_profile()
        try:
            opened = await self._open(socket, envelope, profile)
        except SocketGone:
            return
        if opened is not None:
            await self._serve(socket, profile, opened)

    async def _open(
        self, socket: RealtimeSocket, envelope: ConnectionEnvelope, profile: ConnectionProfile
    ) -> Opened | None:
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
            return await self._opener.open_by_first_frame(socket, profile, envelope)
        except HandshakeRefusedError as refused:
            await self._refuse_handshake(socket, profile, refused)
            return None

    async def _open_before_accepting(
        self, socket: RealtimeSocket, profile: ConnectionProfile
    ) -> Opened | None:
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
        except SocketGone:
            await _close_quietly(handle, "session_created_undelivered")
            raise
        return Opened(handle)

    async def _refuse_handshake(
        self, socket: RealtimeSocket, profile: ConnectionProfile, refused: HandshakeRefusedError
    ) -> None:
        error = refused.error
        self._metrics.rejections.labels(error.code).inc()
        await _tell(socket, profile, self._error(error))
        await socket.close(refused.close_code, error.code)

    async def _serve(
        self, socket: RealtimeSocket, profile: ConnectionProfile, opened: Opened
    ) -> None:
        observer = self._metrics.observer()
        delivery = SessionDelivery(
            opened.handle, profile, Attachment(1, socket), ids=self._ids, observer=observer
        )
        served = self._registry.create(delivery)
        connection = RealtimeConnection(
            socket,
            delivery,
            ids=self._ids,
            observer=observer,
            max_frame_bytes=self._limits.max_frame_bytes,
            input_stall_timeout_s=self._limits.input_stall_timeout_s,
        )
        reader = asyncio.create_task(self._read(connection, opened))
        try:
            await asyncio.wait({reader, served.pump}, return_when=asyncio.FIRST_COMPLETED)
            if not served.pump.done():
                await self._end_after_reader(served, reader)
        finally:
            reader.cancel()
            if not served.pump.done():
                await _close_quietly(opened.handle, "transport_error")
        self._report_pump(served)

    async def _read(self, connection: RealtimeConnection, opened: Opened) -> None:
        reading = asyncio.current_task()
        assert reading is not None
        watch = IdleWatch(lambda: _idle_timeout_s(opened.handle), reading.cancel)
        try:
            if opened.first is not None:
                await connection.submit(opened.first)
            await connection.read(watch.touch)
        finally:
            watch.stop()

    async def _end_after_reader(self, served: ServedSession, reader: asyncio.Task[None]) -> None:
        """The client left, went silent, sent faster than the engine takes, or we failed."""
        delivery = served.delivery
        reason = "disconnect" if delivery.announced else "session_created_undelivered"
        fault = None if reader.cancelled() else reader.exception()
        if isinstance(fault, InputStalledError):
            await delivery.send_local(
                self._error(RealtimeProtocolError("input_backpressure", "no room for more input"))
            )
            await delivery.close_attachment(1008, "input_backpressure")
        elif fault is not None and not isinstance(fault, SocketGone):
            _log.error("connection of %s failed", served.handle.session_id, exc_info=fault)
            reason = "transport_error"
            await delivery.send_local(
                self._error(
                    RealtimeProtocolError("realtime_input_failed", "the connection layer failed")
                )
            )
            await delivery.close_attachment(1011, "internal_error")
        await _close_quietly(served.handle, reason)
        await asyncio.wait({served.pump}, timeout=_TERMINAL_DRAIN_S)

    def _report_pump(self, served: ServedSession) -> None:
        if not served.pump.done():
            served.pump.cancel()
        elif not served.pump.cancelled() and (fault := served.pump.exception()):
            _log.error("delivery to %s failed", served.handle.session_id, exc_info=fault)

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


async def _tell(socket: RealtimeSocket, profile: ConnectionProfile, event: ErrorEvent) -> None:
    try:
        await socket.send(msgspec.json.encode(profile.render(event)).decode())
    except SocketGone:
        return


async def _close_quietly(handle: DuplexSessionHandle, reason: str) -> None:
    try:
        await handle.close(reason)
    except DuplexSessionError as error:
        _log.warning("closing %s: %s", handle.session_id, error)
