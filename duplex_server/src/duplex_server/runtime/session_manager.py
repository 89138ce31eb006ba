"""``DuplexSessionManager``: the shell of ``SessionTable`` and the keeper of the runners."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from duplex_sdk.session.inputs import CommandReceived, Fault, StageFailed, Started
from duplex_sdk.session.session_table import SessionTable, TableCounts
from duplex_sdk.session.table_messages import (
    AbandonPreparation,
    AnswerCaller,
    CleanupTried,
    CloseAsked,
    ControlAnswered,
    DetachAsked,
    DiscardSession,
    FeedSession,
    ForgetSession,
    OpenAsked,
    PreparationFailed,
    PrepareSession,
    ResumeAsked,
    RetryCleanup,
    SessionClosing,
    SessionEnded,
    SessionPrepared,
    ShutdownAsked,
    StartSession,
    TableEffect,
    TableInput,
    Ticked,
    TouchAsked,
    WakeTableAt,
)

from .control import (
    CloseSessionMessage,
    CommandMessage,
    ControlResult,
    OpenSessionMessage,
    ResumeSessionMessage,
    TouchSessionMessage,
)
from .services import RunnerOwner
from .session_factory import PreparedSession, SessionFactory, fault_of
from .session_runner import DuplexSessionRunner, release_stages

if TYPE_CHECKING:
    from duplex_sdk.plugin import DuplexSessionRuntimeConfig
    from duplex_sdk.session.effects import AnswerControl

    from .control import ControlMessage
    from .output_wakes import OutputWakes
    from .services import EngineServices

__all__ = ["DuplexSessionManager"]

logger = logging.getLogger(__name__)


class DuplexSessionManager(RunnerOwner):
    """Opens, finds and ends sessions; what is allowed when is the table's to say.

    Everything is called on the engine's loop and never waits.

    Args:
        services: the engine's.
        factory: makes sessions.
        limits: the deployment's.
        wakes: wakes readers.
        answer: takes the result of a control operation, by its id.
        room_made: called on a reader's thread with a session id: its output has room again.
    """

    def __init__(
        self,
        services: EngineServices,
        factory: SessionFactory,
        limits: DuplexSessionRuntimeConfig,
        *,
        wakes: OutputWakes,
        answer: Callable[[str, ControlResult], None],
        room_made: Callable[[str], object],
    ) -> None:
        self._services = services
        self._factory = factory
        self._limits = limits
        self._wakes = wakes
        self._answer_caller = answer
        self._room_made = room_made
        self._table = SessionTable(
            max_sessions=limits.max_sessions or 1, retry_s=limits.reaper_interval_s
        )
        self._opens: dict[str, OpenSessionMessage] = {}
        self._preparing: dict[str, asyncio.Task[PreparedSession]] = {}
        self._prepared: dict[str, PreparedSession] = {}
        self._runners: dict[str, DuplexSessionRunner] = {}
        self._retries: set[asyncio.Task[None]] = set()
        self._todo: deque[TableEffect] = deque()
        self._working = False
        self._tick = services.timers.deadline(lambda: self._feed_table(Ticked()))
        self._empty: asyncio.Future[None] | None = None
        self.cleanup_retries = 0

    # Messages of callers

    def dispatch(self, message: ControlMessage) -> None:
        """Carry out what a caller asks of a session as a whole."""
        if isinstance(message, OpenSessionMessage):
            self._opens.setdefault(message.session_id, message)
        self._feed_table(_asked(message))

    def room_made(self, session_id: str) -> None:
        """A reader took events: the outputs held back for it may go on."""
        runner = self._runners.get(session_id)
        if runner is not None:
            runner.room_made()

    def room_asked(self, session_id: str) -> None:
        """A caller waits until the session takes more input."""
        runner = self._runners.get(session_id)
        if runner is not None:
            runner.room_asked()

    def command(self, message: CommandMessage) -> None:
        """Hand a client's command to its session, or refuse it."""
        refusal = self._table.refusal(message.session_id)
        runner = self._runners.get(message.session_id)
        if refusal is None and runner is not None:
            runner.command(CommandReceived(message.command, message.lenient), message.size)
        elif runner is not None:
            runner.refuse(message.command, refusal or UNKNOWN)
        else:
            # Whoever still holds a link to it has its terminal event already, or will at once.
            logger.info("a command for a session that is gone was dropped")

    # What stages say

    def stage_failed(self, session_id: str, failure: StageFailed) -> None:
        """A stage can no longer serve a session."""
        runner = self._runners.get(session_id)
        if runner is not None:
            runner.feed(failure)

    def runner(self, session_id: str) -> DuplexSessionRunner | None:
        """The runner of a session that is neither being opened nor gone."""
        return self._runners.get(session_id)

    def counts(self) -> TableCounts:
        """Sessions by state."""
        return self._table.counts()

    async def shutdown(self, timeout_s: float) -> None:
        """End every session and wait until they have, at most so long; then let go of all."""
        self._empty = self._services.loop.create_future()
        self._feed_table(ShutdownAsked())
        if not self._table.empty:
            await asyncio.wait((self._empty,), timeout=timeout_s)
        for task in (*self._preparing.values(), *self._retries):
            task.cancel()
        for runner in tuple(self._runners.values()):
            runner.end_by_force("shutdown")
            runner.stop()
        self._runners.clear()
        self._tick.close()

    # What sessions say

    def control_answered(self, session_id: str, answer: AnswerControl) -> None:
        """The session answered a lease operation."""
        self._feed_table(
            ControlAnswered(
                answer.control_id,
                session_id,
                answer.generation,
                answer.public_session,
                answer.fault,
            )
        )

    def session_closing(self, session_id: str) -> None:
        """The session takes no more commands."""
        self._feed_table(SessionClosing(session_id))

    def session_ended(self, session_id: str, released: bool, request_ids: tuple[str, ...]) -> None:
        """The terminal event is out; without ``released`` its stage cleanup is still owed."""
        self._feed_table(SessionEnded(session_id, released, request_ids))

    # The table's effects

    def _feed_table(self, item: TableInput) -> None:
        self._todo.extend(self._table.handle(item, self._services.clock()))
        if self._working:
            return
        self._working = True
        try:
            while self._todo:
                effect = self._todo.popleft()
                try:
                    PERFORMERS[type(effect)](self, effect)
                except Exception:
                    logger.exception("%s failed", type(effect).__name__)
        finally:
            self._working = False
        if self._empty is not None and self._table.empty and not self._empty.done():
            self._empty.set_result(None)

    def _prepare(self, effect: PrepareSession) -> None:
        session_id = effect.session_id
        message = self._opens[session_id]
        task = self._services.loop.create_task(self._factory.prepare(session_id, message.config))
        self._preparing[session_id] = task
        task.add_done_callback(lambda done: self._preparation_done(session_id, done))

    def _preparation_done(self, session_id: str, task: asyncio.Task[PreparedSession]) -> None:
        self._preparing.pop(session_id, None)
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is None:
            self._prepared[session_id] = task.result()
            self._feed_table(SessionPrepared(session_id))
            return
        fault, retryable = fault_of(error)
        logger.log(
            logging.ERROR if fault.code == "failed_precondition" else logging.INFO,
            "a session could not be opened: %s: %s",
            fault.code,
            fault.message,
        )
        self._feed_table(PreparationFailed(session_id, fault, retryable))

    def _abandon(self, effect: AbandonPreparation) -> None:
        task = self._preparing.get(effect.session_id)
        if task is not None:
            task.cancel()

    def _discard(self, effect: DiscardSession) -> None:
        self._prepared.pop(effect.session_id, None)

    def _start(self, effect: StartSession) -> None:
        session_id = effect.session_id
        prepared = self._prepared.pop(session_id)
        link = self._opens.pop(session_id).link
        runner = DuplexSessionRunner(
            prepared.session,
            session_id=session_id,
            link=link,
            ear=prepared.ear,
            services=self._services,
            owner=self,
            stage_output_limit=self._limits.max_pending_stage_output_bytes_per_session,
        )
        self._runners[session_id] = runner
        link.output.attach(self._wakes, partial(self._room_made, session_id))
        runner.feed(Started(effect.by_update))

    def _feed_session(self, effect: FeedSession) -> None:
        runner = self._runners.get(effect.session_id)
        if runner is None:
            self._feed_table(SessionEnded(effect.session_id, released=True))
            return
        runner.feed(effect.item)

    def _answer(self, effect: AnswerCaller) -> None:
        if not effect.control_id:
            return
        runner = self._runners.get(effect.session_id)
        public = effect.public_session
        if effect.operation == "open" and effect.fault is None and runner is not None:
            public = runner.session.public_session
        self._answer_caller(
            effect.control_id,
            ControlResult(
                effect.operation,
                effect.session_id,
                effect.generation,
                public,
                effect.fault,
                effect.retryable,
            ),
        )

    def _retry(self, effect: RetryCleanup) -> None:
        self.cleanup_retries += 1
        task = self._services.loop.create_task(self._try_cleanup(effect))
        self._retries.add(task)
        task.add_done_callback(self._retries.discard)

    async def _try_cleanup(self, effect: RetryCleanup) -> None:
        try:
            async with asyncio.timeout(self._services.call_timeout_s):
                await release_stages(self._services, effect.session_id, effect.request_ids, ())
        except Exception:
            logger.exception("the cleanup of session %s failed again", effect.session_id)
            self._feed_table(CleanupTried(effect.session_id, ok=False))
        else:
            self._feed_table(CleanupTried(effect.session_id, ok=True))

    def _forget(self, effect: ForgetSession) -> None:
        self._opens.pop(effect.session_id, None)
        runner = self._runners.pop(effect.session_id, None)
        if runner is not None:
            runner.stop()

    def _wake_at(self, effect: WakeTableAt) -> None:
        self._tick.set(effect.at)


UNKNOWN = Fault("unknown_session", "no such session")


def _asked(
    message: OpenSessionMessage | CloseSessionMessage | ResumeSessionMessage | TouchSessionMessage,
) -> OpenAsked | CloseAsked | ResumeAsked | DetachAsked | TouchAsked:
    match message:
        case OpenSessionMessage():
            return OpenAsked(message.control_id, message.session_id, message.by_update)
        case CloseSessionMessage():
            return CloseAsked(message.control_id, message.session_id, message.reason)
        case ResumeSessionMessage():
            return ResumeAsked(message.control_id, message.session_id, message.expected_generation)
        case TouchSessionMessage() if message.activity == "detach":
            return DetachAsked(
                message.control_id, message.session_id, message.expected_generation or 0
            )
        case TouchSessionMessage():
            return TouchAsked(
                message.control_id,
                message.session_id,
                message.activity,
                message.expected_generation,
            )


PERFORMERS: dict[type[Any], Callable[[DuplexSessionManager, Any], None]] = {
    PrepareSession: DuplexSessionManager._prepare,
    AbandonPreparation: DuplexSessionManager._abandon,
    DiscardSession: DuplexSessionManager._discard,
    StartSession: DuplexSessionManager._start,
    FeedSession: DuplexSessionManager._feed_session,
    AnswerCaller: DuplexSessionManager._answer,
    RetryCleanup: DuplexSessionManager._retry,
    ForgetSession: DuplexSessionManager._forget,
    WakeTableAt: DuplexSessionManager._wake_at,
}
