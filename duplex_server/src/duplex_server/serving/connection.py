"""One socket serving one session: frames in, commands out to the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NoReturn

from duplex_sdk.protocol.duplex import (
    AppendAudio,
    Commit,
    EventAck,
    RealtimeCommand,
    RealtimeProtocolError,
    ResumeRequest,
    error_event,
)
from duplex_sdk.session.ids import IdSource

from duplex_server.runtime.errors import DuplexSessionError
from duplex_server.runtime.input_room import Room

from .attachment import Attachment
from .client_frame import decode_client_frame
from .delivery import SessionDelivery
from .websocket import RealtimeSocket

__all__ = ["InputStalledError", "RealtimeConnection"]


class InputStalledError(Exception):
    """The engine made no room for a patient client's input in time."""


class RealtimeConnection:
    """The reading side of a connection. It decodes and submits; it never waits for the model.

    Args:
        socket: where frames come from.
        delivery: the session's outbound side, for answers of the connection layer.
        attachment: this socket's; once it does not serve the session, frames are dropped.
        ids: where event ids come from.
        max_frame_bytes: largest client frame.
        input_stall_timeout_s: longest wait for room, where the profile waits.
    """

    def __init__(
        self,
        socket: RealtimeSocket,
        delivery: SessionDelivery,
        attachment: Attachment,
        *,
        ids: IdSource,
        max_frame_bytes: int,
        input_stall_timeout_s: float,
    ) -> None:
        self._socket = socket
        self._delivery = delivery
        self._handle = delivery.handle
        self._profile = delivery.profile
        self._ids = ids
        self._observer = delivery.observer
        self._attachment = attachment
        self._max_frame_bytes = max_frame_bytes
        self._input_stall_timeout_s = input_stall_timeout_s

    async def read(self, touch: Callable[[], None]) -> NoReturn:
        """Take frames until the socket is gone.

        Args:
            touch: called with every frame.

        Raises:
            SocketGone: the client left.
            InputStalledError: no room within the time.
        """
        while True:
            frame = await self._socket.receive()
            if not self._delivery.serves(self._attachment):
                continue
            touch()
            self._delivery.heard_from(self._attachment)
            await self._take(frame)

    async def submit(self, command: RealtimeCommand) -> None:
        """Give a command to the session; what refuses it is answered here."""
        try:
            self._profile.check_command(command)
            if self._profile.waits_for_room and isinstance(command, AppendAudio | Commit):
                await self._wait_for_room(command)
                if not self._delivery.serves(self._attachment):
                    return
            self._observer.command(command)
            self._handle.submit(command, lenient=self._profile.lenient)
        except (RealtimeProtocolError, DuplexSessionError) as error:
            await self.refuse(
                RealtimeProtocolError(
                    error.code,
                    error.message,
                    param=error.param,
                    event_id=command.event_id,
                    command=command.type,
                )
            )
        else:
            self._profile.command_submitted(command)

    async def refuse(self, error: RealtimeProtocolError) -> None:
        """Answer a frame that is no command."""
        await self._delivery.send_local(
            error_event(
                error.code,
                error.message,
                event_id=error.event_id,
                param=error.param,
                command=error.command,
                session_id=self._handle.session_id,
                new_id=self._ids.event(),
            ),
            self._attachment,
        )

    async def _take(self, frame: str | bytes) -> None:
        try:
            message = decode_client_frame(frame, max_bytes=self._max_frame_bytes)
            if isinstance(message, EventAck):
                self._delivery.acknowledge(message)
                return
            if isinstance(message, ResumeRequest):
                raise RealtimeProtocolError(
                    "unsupported_session_resume",
                    "session.resume is taken only as the first frame of a connection",
                    event_id=message.event_id,
                )
        except RealtimeProtocolError as error:
            await self.refuse(error)
            return
        await self.submit(message)

    async def _wait_for_room(self, command: AppendAudio | Commit) -> None:
        size = len(command.audio) if isinstance(command, AppendAudio) else 0
        turn = isinstance(command, Commit)
        if self._handle.link.room.room(size, turn=turn) is not Room.LATER:
            return
        try:
            async with asyncio.timeout(self._input_stall_timeout_s):
                # "No" means that only the client can make room: the session then refuses.
                await self._handle.wait_for_room(size, turn=turn)
        except TimeoutError as error:
            raise InputStalledError from error
