"""``session.resume``: from a first frame to a socket that serves a session that was there."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from duplex_sdk.protocol.duplex import RealtimeProtocolError, ResumeRequest
from duplex_sdk.session.replay_journal import JournalGapError

from duplex_server.runtime.errors import DuplexSessionError

from .attachment import Attachment
from .attachments import AttachmentRegistry, ServedSession
from .metrics import ServingMetrics
from .websocket import RealtimeSocket, SocketGone

if TYPE_CHECKING:
    from duplex_server.entrypoints import DuplexOmni

__all__ = ["EventsLostError", "SessionResumer"]

_ENDED = frozenset({"session_closed", "unknown_session"})


class EventsLostError(Exception):
    """Replay is not possible from there; the session itself goes on.

    Attributes:
        frame: what to tell the client.
    """

    def __init__(self, frame: bytes) -> None:
        super().__init__("events were lost to replay")
        self.frame = frame


class SessionResumer:
    """Gives sessions to sockets that prove they may have them.

    Args:
        omni: the engine, which has the last word: of several resumes one gets the lease.
        registry: the sessions that live here.
        metrics: counts how resumes went.
    """

    def __init__(
        self, omni: DuplexOmni, registry: AttachmentRegistry, metrics: ServingMetrics
    ) -> None:
        self._omni = omni
        self._registry = registry
        self._metrics = metrics

    async def resume(
        self, socket: RealtimeSocket, request: ResumeRequest
    ) -> tuple[ServedSession, Attachment]:
        """Let a socket take the session over; it has been told and replayed when this returns.

        A refusal leaves the session as it was. So does a socket that fails on the way, or a caller
        that is cancelled: nobody is attached then, and the token presented is good again.

        Raises:
            RealtimeProtocolError: refused, with the code the client is told.
            EventsLostError: events the client has not seen are gone.
            SocketGone: the socket failed.
        """
        try:
            taken = await self._resume(socket, request)
        except RealtimeProtocolError as error:
            self._count(error.code)
            raise
        except EventsLostError:
            self._count("resync_required")
            raise
        except (SocketGone, asyncio.CancelledError):
            self._count("abandoned")
            raise
        self._count("resumed")
        return taken

    async def _resume(
        self, socket: RealtimeSocket, request: ResumeRequest
    ) -> tuple[ServedSession, Attachment]:
        served = self._registry.get(request.session_id)
        if served is None:
            raise _refusal(request, "session_resume_expired", "the session is not known any more")
        attachment = Attachment(socket)
        try:
            served.delivery.check_resume(request)
            served.pending.append(attachment)
            try:
                await self._take_lease(served, attachment, request)
                await served.delivery.activate(attachment, request)
            except BaseException:
                served.give_up(attachment)
                raise
            served.pending.remove(attachment)
        except JournalGapError as error:
            raise EventsLostError(served.delivery.resync_frame()) from error
        return served, attachment

    async def _take_lease(
        self, served: ServedSession, attachment: Attachment, request: ResumeRequest
    ) -> None:
        session_id = served.handle.session_id
        try:
            handle = await self._omni.resume_session(
                session_id,
                served.handle.lease_generation,
                on_abandoned=lambda _, generation: served.settle(generation),
            )
        except DuplexSessionError as error:
            if error.code in _ENDED:
                raise _refusal(
                    request, "session_resume_expired", "the session has ended"
                ) from error
            if error.code == "session_resume_conflict":
                # Somebody was faster. If it came with the same token, that token is used up.
                await served.delivery.recheck(request)
            raise _refusal(request, "runtime_resume_failed", error.message) from error
        attachment.take_lease(handle.lease_generation)

    def _count(self, result: str) -> None:
        self._metrics.resumes.labels(result).inc()


def _refusal(request: ResumeRequest, code: str, message: str) -> RealtimeProtocolError:
    return RealtimeProtocolError(code, message, event_id=request.event_id)
