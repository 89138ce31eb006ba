"""What a session's clients get: one pump per session, one order, one numbering."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec
from duplex_sdk.protocol.duplex import (
    DuplexEvent,
    ErrorEvent,
    EventAck,
    RealtimeProtocolError,
    ResumeRequest,
    SessionClosed,
    SessionCreated,
    SessionReplaced,
    SessionResumed,
    SessionResyncRequired,
)
from duplex_sdk.session.ids import IdSource
from duplex_sdk.session.replay_journal import (
    JournalPositionError,
    ReplayJournal,
)

from .attachment import Attachment
from .metrics import SessionObserver
from .profiles import ConnectionProfile
from .resume_key import ResumeKey
from .websocket import SocketGone

if TYPE_CHECKING:
    from duplex_sdk.plugin import DuplexSessionRuntimeConfig

    from duplex_server.entrypoints import DuplexSessionHandle

__all__ = ["SessionDelivery"]

_FRAMES_PER_TURN = 16


class SessionDelivery:
    """Takes a session's events to whatever socket is attached. Belongs to the serving loop.

    Validity, number, journal and sending happen under one lock, so that the order on the wire is
    the order of the numbers. A failed send loses the socket; events go on being numbered and kept.

    Args:
        handle: of the session; this object is the only reader of its events.
        profile: of the session.
        attachment: the socket it begins with.
        ids: where event ids come from.
        observer: sees every event.
        limits: of the deployment.
        on_gone: called with an attachment whose socket failed, or that was replaced.
        clock: seconds, for the age of journaled events.

    Attributes:
        attachment: the present one; None while no socket serves the session.
        announced: a client was sent ``session.created``.
        finished: the last event is out; nothing can be attached any more.
        survives_loss: the session goes on when its socket is lost.
        observer: as given.
    """

    def __init__(
        self,
        handle: DuplexSessionHandle,
        profile: ConnectionProfile,
        attachment: Attachment,
        *,
        ids: IdSource,
        observer: SessionObserver,
        limits: DuplexSessionRuntimeConfig,
        on_gone: Callable[[Attachment], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        attachment.generation = 1
        self.handle = handle
        self.profile = profile
        self.observer = observer
        self.attachment: Attachment | None = attachment
        self.announced = False
        self.finished = False
        self._key = ResumeKey() if handle.capabilities.supports_session_resume else None
        self.survives_loss = self._key is not None and profile.journals_from_the_start
        self._journal = ReplayJournal(
            limits.resume_replay_max_bytes_per_session,
            limits.resume_replay_ttl_s,
            keeping=self.survives_loss,
        )
        self._generation = attachment.generation
        self._ids = ids
        self._on_gone = on_gone
        self._clock = clock
        self._outbound = asyncio.Lock()
        self._terminal: SessionClosed | None = None

    # The session's events

    async def run(self) -> None:
        """Deliver until the session's stream ends, then close the socket as the profile says."""
        async for event in self.handle.events():
            self.observer.event(event)
            if isinstance(event, SessionClosed):
                self._terminal = event
            for outgoing in self.profile.outgoing(event):
                if isinstance(outgoing, SessionCreated):
                    await self._announce(outgoing)
                else:
                    await self._deliver(outgoing)
        self.finished = True
        await self._close_socket()

    async def _announce(self, event: SessionCreated) -> None:
        async with self._outbound:
            if self._key is not None:
                event = msgspec.structs.replace(
                    event,
                    attachment_generation=self._generation,
                    resume_token=self._key.issue(),
                )
            self.announced = await self._send(_encoded(self.profile.render(event)))

    async def _deliver(self, event: DuplexEvent) -> None:
        async with self._outbound:
            payload = self.profile.render(event)
            with self.handle.output_guard(event) as valid:
                if not valid:
                    return
                journaled = self._journal.append(payload, self._clock())
            if journaled.overflowed:
                self.observer.journal_overflowed()
                await self._send(self._resync_frame("journal_overflow"))
            await self._send(journaled.frame)
            # Under the lock, so that no answer of the connection layer follows the end.
            self.finished = isinstance(event, SessionClosed)

    # What the connection layer says

    async def send_local(self, event: ErrorEvent, attachment: Attachment) -> None:
        """Send an answer of the connection layer: unnumbered, past what the session has queued.

        Args:
            event: the answer.
            attachment: whom it is for; nothing is sent when that no longer serves the session, nor
                after the session's last event.
        """
        self.observer.event(event)
        async with self._outbound:
            if self.serves(attachment) and not self.finished:
                await self._send(_encoded(self.profile.render(event)))

    def serves(self, attachment: Attachment) -> bool:
        """Whether this is the socket the session is attached to."""
        return self.attachment is attachment

    def drop(self, attachment: Attachment) -> bool:
        """Send nothing more to a socket; False when it does not serve the session anyway."""
        if self.attachment is not attachment:
            return False
        self.attachment = None
        attachment.end()
        return True

    async def close_attachment(self, code: int, reason: str) -> None:
        """Close the attached socket, if any; the session goes on until it is closed itself."""
        attachment, self.attachment = self.attachment, None
        if attachment is not None:
            await attachment.close(code, reason)

    # Acknowledging and resuming

    def heard_from(self, attachment: Attachment) -> None:
        """A client frame came: whoever sends it has read the newest resume token."""
        if self._key is not None and self.serves(attachment):
            self._key.confirm()

    def acknowledge(self, ack: EventAck) -> None:
        """The client has every event up to a number; from its first ack on, events are kept.

        Raises:
            RealtimeProtocolError: ``invalid_event_ack``.
        """
        try:
            self._journal.acknowledge(ack.server_event_seq)
        except JournalPositionError as error:
            raise RealtimeProtocolError(
                "invalid_event_ack",
                str(error),
                param="server_event_seq",
                event_id=ack.event_id,
            ) from error
        self._keep_events()

    def check_resume(self, request: ResumeRequest) -> None:
        """Whether a socket may take this session with what it presents; changes nothing.

        Raises:
            RealtimeProtocolError: ``session_resume_expired``, ``unsupported_session_resume``,
                ``invalid_resume_token`` or ``session_resume_conflict``.
            JournalGapError: events it has not seen are gone.
        """
        if self.finished:
            raise _refusal(request, "session_resume_expired", "the session has ended")
        if self._key is None:
            raise _refusal(request, "unsupported_session_resume", "this session cannot be resumed")
        if not self._key.accepts(request.resume_token, attached=self.attachment is not None):
            raise _refusal(request, "invalid_resume_token", "resume token not accepted")
        self._missed(request)

    async def recheck(self, request: ResumeRequest) -> None:
        """``check_resume`` once the socket that is being attached now, if any, has been.

        Raises:
            RealtimeProtocolError: as ``check_resume``.
            JournalGapError: as ``check_resume``.
        """
        async with self._outbound:
            self.check_resume(request)

    async def activate(self, attachment: Attachment, request: ResumeRequest) -> None:
        """Give the session to a socket whose lease has landed: announcement, replay, then live.

        The socket it had is told and closed. On failure after the exchange nobody is attached, and
        the token that was presented is good again.

        Raises:
            RealtimeProtocolError: as ``check_resume``; somebody was faster.
            JournalGapError: as ``check_resume``.
            SocketGone: the new socket failed.
        """
        async with self._outbound_soon():
            self.check_resume(request)
            assert self._key is not None
            token = self._key.exchange(request.resume_token)
            missed = self._missed(request)
            self._generation += 1
            attachment.generation = self._generation
            self._replace(attachment)
            self._keep_events()
            try:
                await attachment.send(self._resumed_frame(token))
                for number, frame in enumerate(missed, 1):
                    await attachment.send(frame)
                    if number % _FRAMES_PER_TURN == 0:
                        # A socket with room suspends nobody, and others want the loop as well.
                        await asyncio.sleep(0)
            except BaseException:
                self.drop(attachment)
                raise

    def replaced_frame(self, attachment: Attachment) -> bytes:
        """What a socket is told whose session another one took."""
        return _encoded(
            self.profile.render(
                SessionReplaced(
                    event_id=self._ids.event(),
                    session_id=self.handle.session_id,
                    attachment_generation=attachment.generation,
                )
            )
        )

    def resync_frame(self) -> bytes:
        """What a socket is told that cannot resume for want of events."""
        return self._resync_frame("journal_gap")

    # Parts

    @asynccontextmanager
    async def _outbound_soon(self) -> AsyncIterator[None]:
        """The lock, without waiting long for a send to a peer that may be gone."""
        present = self.attachment
        if present is not None:
            present.hurry()
        try:
            await self._outbound.acquire()
        finally:
            if present is not None:
                present.relax()
        try:
            yield
        finally:
            self._outbound.release()

    def _replace(self, attachment: Attachment) -> None:
        former, self.attachment = self.attachment, attachment
        if former is not None:
            former.replaced = True
            self._on_gone(former)

    def _keep_events(self) -> None:
        if self._key is not None and not self.survives_loss:
            self._journal.keep()
            self.survives_loss = True

    def _missed(self, request: ResumeRequest) -> tuple[bytes, ...]:
        try:
            return self._journal.replay_after(request.last_received_server_event_seq, self._clock())
        except JournalPositionError as error:
            raise _refusal(request, "session_resume_conflict", str(error)) from error

    def _resumed_frame(self, token: str) -> bytes:
        return _encoded(
            self.profile.render(
                SessionResumed(
                    event_id=self._ids.event(),
                    session_id=self.handle.session_id,
                    session=self.handle.public_session,
                    attachment_generation=self._generation,
                    resume_token=token,
                    newest_server_event_seq=self._journal.newest,
                )
            )
        )

    def _resync_frame(self, reason: str) -> bytes:
        return _encoded(
            self.profile.render(
                SessionResyncRequired(
                    event_id=self._ids.event(), session_id=self.handle.session_id, reason=reason
                )
            )
        )

    async def _send(self, frame: bytes) -> bool:
        attachment = self.attachment
        if attachment is None:
            return False
        try:
            await attachment.send(frame)
        except SocketGone:
            self._on_gone(attachment)
            return False
        return True

    async def _close_socket(self) -> None:
        if self.attachment is None:
            return
        ending = self.profile.ending(self._terminal, self.handle.close_reason or "internal_error")
        if ending.error is not None:
            error = ending.error
            if not error.event_id:
                error = msgspec.structs.replace(error, event_id=self._ids.event())
            self.observer.event(error)
            async with self._outbound:
                await self._send(_encoded(self.profile.render(error)))
        await self.close_attachment(ending.code, ending.reason)


def _encoded(payload: dict[str, object]) -> bytes:
    return msgspec.json.encode(payload)


def _refusal(request: ResumeRequest, code: str, message: str) -> RealtimeProtocolError:
    return RealtimeProtocolError(code, message, event_id=request.event_id)
