"""``InlineDuplexClient``: the client over no wire at all."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from duplex_sdk.clients import (
    ClientConnectionError,
    ClientProtocolError,
    ClientSessionClosedError,
    DuplexClientBase,
)
from duplex_sdk.plugin import DuplexConfigError
from duplex_sdk.protocol.duplex import (
    AudioDelta,
    DuplexEvent,
    EventAck,
    RealtimeCommand,
    RealtimeProtocolError,
    ResumeRequest,
    UpdateSession,
    decode_command,
    error_event,
)

from duplex_server.runtime.errors import DuplexSessionError

if TYPE_CHECKING:
    from .duplex_omni import DuplexOmni
    from .session_handle import DuplexSessionHandle

__all__ = ["InlineDuplexClient"]


class InlineDuplexClient(DuplexClientBase):
    """A session of a ``DuplexOmni`` in this process, behind the interface of every client.

    It sees what the ``duplex`` profile of the server sends, apart from numbers and attachments,
    and its frames go through the codec of the wire.

    Args:
        omni: a started engine.
        session: as ``DuplexClientBase``.
        open_timeout_s: as ``DuplexClientBase``.
        queue_size: as ``DuplexClientBase``.
        trace_size: as ``DuplexClientBase``.
    """

    def __init__(
        self,
        omni: DuplexOmni,
        session: Mapping[str, Any] | None = None,
        *,
        open_timeout_s: float = 30.0,
        queue_size: int = 1024,
        trace_size: int = 256,
    ) -> None:
        super().__init__(
            session, open_timeout_s=open_timeout_s, queue_size=queue_size, trace_size=trace_size
        )
        self._omni = omni
        self._handle: DuplexSessionHandle | None = None
        self._reader: asyncio.Task[None] | None = None
        self._gone = False

    async def _open(self) -> None:
        if not self._omni.alive:
            raise ClientConnectionError("the engine is not running")

    async def _send_command(self, payload: dict[str, Any]) -> None:
        if self._gone:
            raise ClientSessionClosedError("the session is closed")
        try:
            frame = decode_command(payload)
        except RealtimeProtocolError as error:
            self._refuse(error.code, error.message, error.event_id, error.param, error.command)
            return
        if isinstance(frame, EventAck):
            return
        if isinstance(frame, ResumeRequest):
            self._refuse("unsupported_session_resume", "there is no socket to resume on")
        elif self._handle is None:
            await self._begin(frame)
        else:
            self._submit(self._handle, frame)

    async def _begin(self, command: RealtimeCommand) -> None:
        if not isinstance(command, UpdateSession):
            raise ClientProtocolError("bad_event", "the first frame must be session.update")
        try:
            handle = await self._omni.open_session(command.session, by_update=True)
        except (DuplexSessionError, DuplexConfigError) as error:
            raise ClientProtocolError(
                error.code, error.message, event_id=command.event_id, param=error.param
            ) from error
        self._handle = handle
        self._reader = asyncio.create_task(self._read(handle))

    def _submit(self, handle: DuplexSessionHandle, command: RealtimeCommand) -> None:
        try:
            handle.submit(command)
        except DuplexSessionError as error:
            if error.code == "session_closed":
                raise ClientSessionClosedError(error.message) from error
            self._refuse(error.code, error.message, command.event_id, error.param, command.type)

    def _refuse(
        self,
        code: str,
        message: str,
        event_id: str | None = None,
        param: str | None = None,
        command: str | None = None,
    ) -> None:
        event = error_event(
            code,
            message,
            event_id=event_id,
            param=param,
            command=command,
            session_id=self.session_id,
            new_id=self._omni.new_event_id(),
        )
        self._dispatch(event.to_realtime())

    async def _read(self, handle: DuplexSessionHandle) -> None:
        async for event in handle.events():
            if isinstance(event, AudioDelta):
                with handle.output_guard(event) as valid:
                    if not valid:
                        continue
            self._dispatch(_rendered(event))
        self._connection_lost(ClientSessionClosedError(handle.close_reason or "closed"))

    async def _teardown(self) -> None:
        self._gone = True
        handle, self._handle = self._handle, None
        if handle is not None:
            with contextlib.suppress(DuplexSessionError):
                await handle.close()
        reader, self._reader = self._reader, None
        if reader is not None and reader is not asyncio.current_task():
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)


def _rendered(event: DuplexEvent) -> dict[str, Any]:
    payload = event.to_realtime()
    if event.epoch is not None:
        payload.setdefault("epoch", event.epoch)
    return payload
