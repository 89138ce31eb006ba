"""Opening a session for a connection: before its first frame, or with it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duplex_sdk.protocol.duplex import (
    ClientFrame,
    EventAck,
    RealtimeCommand,
    RealtimeProtocolError,
    ResumeRequest,
    UpdateSession,
)

from duplex_server.runtime.errors import DuplexSessionError

from .client_frame import decode_client_frame
from .envelope import ConnectionEnvelope
from .profiles import ConnectionProfile
from .websocket import RealtimeSocket

if TYPE_CHECKING:
    from duplex_server.entrypoints import DuplexOmni, DuplexSessionHandle

__all__ = ["HandshakeRefusedError", "Opened", "SessionOpener"]


@dataclass(frozen=True, slots=True)
class Opened:
    """A session that now exists.

    Attributes:
        handle: of the session.
        first: the frame that opened it, when it is a command as well.
    """

    handle: DuplexSessionHandle
    first: RealtimeCommand | None = None


class HandshakeRefusedError(Exception):
    """No session for this socket: one error, then a close.

    Attributes:
        error: what to tell the client.
        close_code: WebSocket close code; the error's code is its reason.
    """

    def __init__(self, error: RealtimeProtocolError, close_code: int = 1008) -> None:
        super().__init__(error.message)
        self.error = error
        self.close_code = close_code


class SessionOpener:
    """Opens sessions in an engine according to profile and first frame.

    Args:
        omni: the engine.
        max_frame_bytes: largest client frame.
        config_timeout_s: longest wait for a first frame.
    """

    def __init__(self, omni: DuplexOmni, *, max_frame_bytes: int, config_timeout_s: float) -> None:
        self._omni = omni
        self._max_frame_bytes = max_frame_bytes
        self._config_timeout_s = config_timeout_s

    def serves_model(self, model: str | None) -> bool:
        """Whether a client may name this model; None means the one served."""
        return model is None or model in self._omni.served_models

    async def open_default(self, profile: ConnectionProfile) -> DuplexSessionHandle:
        """Open a session nobody has configured.

        Raises:
            DuplexSessionError: the engine refused.
        """
        return await self._open(profile, None, by_update=False)

    async def open_by_first_frame(
        self, socket: RealtimeSocket, profile: ConnectionProfile, envelope: ConnectionEnvelope
    ) -> Opened | ResumeRequest:
        """Wait for the first frame and do what it asks for; a resume is the caller's to do.

        Raises:
            HandshakeRefusedError: no session was opened.
            SocketGone: the client left.
        """
        try:
            async with asyncio.timeout(self._config_timeout_s):
                frame = await socket.receive()
        except TimeoutError:
            error = RealtimeProtocolError(
                "config_timeout", f"no first frame within {self._config_timeout_s:g} s"
            )
            raise HandshakeRefusedError(error) from None
        try:
            first = decode_client_frame(frame, max_bytes=self._max_frame_bytes, first=True)
            return await self._open_by(first, profile, envelope)
        except RealtimeProtocolError as error:
            raise HandshakeRefusedError(error) from error
        except DuplexSessionError as error:
            refused = RealtimeProtocolError(error.code, error.message, param=error.param)
            full = error.code == "resource_exhausted"
            raise HandshakeRefusedError(refused, 1013 if full else 1008) from error

    async def _open_by(
        self, frame: ClientFrame, profile: ConnectionProfile, envelope: ConnectionEnvelope
    ) -> Opened | ResumeRequest:
        if isinstance(frame, ResumeRequest):
            return frame
        if envelope.resume and not envelope.duplex:
            raise RealtimeProtocolError("bad_event", "the first frame must be session.resume")
        if isinstance(frame, UpdateSession):
            self._check_model(profile, frame.session.get("model"), frame.event_id)
            return Opened(await self._open(profile, frame.session, by_update=True))
        if not envelope.may_autostart or isinstance(frame, EventAck):
            raise RealtimeProtocolError(
                "bad_event",
                "the first frame must be session.update or session.resume",
                event_id=frame.event_id,
            )
        return Opened(await self._open(profile, None, by_update=False), frame)

    async def _open(
        self, profile: ConnectionProfile, session: Mapping[str, Any] | None, *, by_update: bool
    ) -> DuplexSessionHandle:
        capabilities = self._omni.duplex_capabilities
        return await self._omni.open_session(
            session,
            by_update=by_update,
            profile_defaults=profile.session_defaults(
                takes_own_turns=capabilities.supports_model_native_turn_policy
            ),
            lenient=profile.lenient,
        )

    def _check_model(self, profile: ConnectionProfile, model: object, event_id: str | None) -> None:
        if not profile.model_must_be_known or not isinstance(model, str):
            return
        if not self.serves_model(model):
            raise RealtimeProtocolError(
                "invalid_session_config",
                "no such model is served here",
                param="session.model",
                event_id=event_id,
            )
