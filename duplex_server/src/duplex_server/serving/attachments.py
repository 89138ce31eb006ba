"""Which sessions are served by this process, by which socket, and who answers for each lease."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from duplex_sdk.session.ids import IdSource

from duplex_server.runtime.errors import DuplexSessionError

from .attachment import Attachment
from .delivery import SessionDelivery
from .metrics import SessionObserver
from .profiles import ConnectionProfile

if TYPE_CHECKING:
    from duplex_server.entrypoints import DuplexOmni, DuplexSessionHandle

__all__ = ["AttachmentRegistry", "ServedSession"]

_log = logging.getLogger(__name__)
_FIRST_RETRY_S = 0.5
_LONGEST_RETRY_S = 5.0


class ServedSession:
    """A session with its delivery, its pump and the sockets that want it.

    Every lease generation the engine hands out has one owner: the socket that serves, a socket
    about to (in ``pending``), or nobody, and then the engine's grace runs.

    Attributes:
        delivery: its outbound side.
        pending: sockets with a resume under way, oldest first.
        pump: done when the last event was delivered and the socket closed.
    """

    def __init__(
        self,
        omni: DuplexOmni,
        handle: DuplexSessionHandle,
        profile: ConnectionProfile,
        attachment: Attachment,
        *,
        ids: IdSource,
        observer: SessionObserver,
    ) -> None:
        self._omni = omni
        self._work: set[asyncio.Task[None]] = set()
        self.pending: list[Attachment] = []
        self.delivery = SessionDelivery(
            handle,
            profile,
            attachment,
            ids=ids,
            observer=observer,
            limits=omni.runtime_config,
            on_gone=self._gone,
        )
        self.pump = asyncio.create_task(self._run(), name=f"deliver {handle.session_id}")

    @property
    def handle(self) -> DuplexSessionHandle:
        """Of the session."""
        return self.delivery.handle

    def lose(self, attachment: Attachment) -> None:
        """The socket is gone: the session waits for its client, or ends when it can't.

        Nothing happens when another socket serves by now, or none.
        """
        if not self.delivery.drop(attachment):
            return
        if not self.delivery.announced:
            self._spawn(self.close("session_created_undelivered"))
        elif not self.delivery.survives_loss:
            self._spawn(self.close("disconnect"))
        elif attachment.lease_generation is not None:
            self._spawn(self._detach(attachment.lease_generation))

    def settle(self, generation: int) -> None:
        """Find an owner for a lease generation whose resume nobody waits for any more."""
        owner = self.pending[-1] if self.pending else self.delivery.attachment
        if owner is not None:
            owner.take_lease(generation)
        else:
            self._spawn(self._detach(generation))

    def give_up(self, attachment: Attachment) -> None:
        """A resume failed: its socket is no longer pending, and what it held goes to others."""
        self.pending.remove(attachment)
        if attachment.lease_generation is not None:
            self.settle(attachment.lease_generation)

    async def close(self, reason: str) -> None:
        """End the session; an engine that cannot is logged."""
        try:
            await self.handle.close(reason)
        except DuplexSessionError as error:
            _log.warning("closing %s: %s", self.handle.session_id, error)

    async def _run(self) -> None:
        try:
            await self.delivery.run()
        except Exception:
            _log.exception("delivery to %s failed", self.handle.session_id)
            await self.delivery.close_attachment(1011, "internal_error")
            await self.close("transport_error")
        finally:
            self.delivery.observer.ended()

    def _gone(self, attachment: Attachment) -> None:
        if attachment.replaced:
            frame = self.delivery.replaced_frame(attachment)
            self._spawn(attachment.say_farewell(frame, 1000, "session_replaced"))
        else:
            self.lose(attachment)

    async def _detach(self, generation: int) -> None:
        """Begin the grace of this lease generation; the engine refuses when it moved on."""
        pause = _FIRST_RETRY_S
        while not self.handle.closed:
            try:
                await self._omni.detach_session(self.handle.session_id, generation)
            except DuplexSessionError as error:
                if error.code != "timeout":
                    _log.debug("detaching %s: %s", self.handle.session_id, error)
                    return
                await asyncio.sleep(pause)
                pause = min(_LONGEST_RETRY_S, 2 * pause)
            else:
                return

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        # Not awaited by the socket's own task: that one may be cancelled at any moment.
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)


class AttachmentRegistry:
    """The served sessions by id. Belongs to the serving loop."""

    def __init__(self) -> None:
        self._sessions: dict[str, ServedSession] = {}

    def add(self, served: ServedSession) -> None:
        """Know a session until its last event is out."""
        session_id = served.handle.session_id
        self._sessions[session_id] = served
        served.pump.add_done_callback(lambda _: self._sessions.pop(session_id, None))

    def get(self, session_id: str) -> ServedSession | None:
        """The session, while it lives."""
        return self._sessions.get(session_id)

    @property
    def attached(self) -> int:
        """Sessions with a socket."""
        return sum(served.delivery.attachment is not None for served in self._sessions.values())

    async def wait_empty(self, timeout_s: float) -> bool:
        """Wait until every session has told its end; False when that took too long."""
        pumps = [served.pump for served in self._sessions.values()]
        if not pumps:
            return True
        _, pending = await asyncio.wait(pumps, timeout=timeout_s)
        return not pending

    async def let_go(self) -> None:
        """Close every socket that is left, told or not; returns soon."""
        left = tuple(self._sessions.values())
        for served in left:
            served.pump.cancel()
        await asyncio.gather(
            *(served.delivery.close_attachment(1001, "shutdown") for served in left)
        )
