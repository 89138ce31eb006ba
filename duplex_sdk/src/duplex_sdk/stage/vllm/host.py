"""``VllmHost``: the sessions of one vllm replica. The batch is vLLM's own affair."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Sequence

from duplex_sdk.stage.host.result import HostResult, StepReport
from duplex_sdk.stage.host.unit_host import UnitHost
from duplex_sdk.stage.types import StageError, StageOutput, StageSession, UnitRequest

from .engine import EngineLostError, LanguageEngine
from .session import LanguageSession, SessionSink
from .settings import BackendSettings

__all__ = ["VllmHost"]

logger = logging.getLogger(__name__)


class VllmHost(UnitHost, SessionSink):
    """Keeps the table of sessions and gathers what becomes of them.

    Sessions stream side by side: each has its own request, and vLLM computes together whatever is
    there to compute. All calls come from the loop's thread; only ``busy_since`` may be read from
    another.
    """

    def __init__(
        self,
        engine: LanguageEngine,
        settings: BackendSettings,
        *,
        on_result: Callable[[HostResult], None],
        on_engine_lost: Callable[[EngineLostError], None],
        clock: Callable[[], float],
        period_ms: float | None = None,
    ) -> None:
        """Make a host of an engine that works already.

        Args:
            engine: computes.
            settings: the stage's options.
            on_result: called on the loop with all that one turn of it brought.
            on_engine_lost: called on the loop once, when nothing more can be computed.
            clock: seconds, monotonic.
            period_ms: a unit whose answer ends later than this is counted as late; None: none is.
        """
        self._engine = engine
        self._settings = settings
        self._on_result = on_result
        self._on_engine_lost = on_engine_lost
        self._clock = clock
        self._period_s = math.inf if period_ms is None else period_ms / 1000
        self._sessions: dict[str, LanguageSession] = {}
        self._touched: dict[str, LanguageSession] = {}
        self._stepped_at = clock()
        self._result = HostResult()
        self._answers: list[tuple[float, float]] = []
        self._flush_due = False
        self._lost = False
        engine.on_step = self._on_step

    @property
    def busy_since(self) -> float | None:
        """Since when the engine owes something and makes no step; None: it owes nothing."""
        since = [session.answering_since for session in tuple(self._sessions.values())]
        oldest = min((each for each in since if each is not None), default=None)
        return None if oldest is None else max(oldest, self._stepped_at)

    @property
    def session_count(self) -> int:
        """How many sessions are open, failed ones that wait for their close included."""
        return len(self._sessions)

    def open(self, session: StageSession) -> None:
        """See ``UnitHost``; nothing is computed before the first unit."""
        if session.session_id in self._sessions:
            self.update(session)
            return
        self._sessions[session.session_id] = LanguageSession(
            session, self._engine, self._settings, self, self._clock
        )
        self._result.opened.append((session.session_id, 0.0))
        self._flush_soon()

    def units(self, units: Sequence[UnitRequest]) -> None:
        """See ``UnitHost``."""
        for unit in units:
            session = self._sessions.get(unit.session_id)
            if session is None or session.failed or unit.epoch < session.epoch:
                self.on_taken(unit)
                if session is not None:
                    session.active = True
                    self.on_changed(session)
                continue
            session.epoch = unit.epoch
            session.take(unit)

    def update(self, session: StageSession) -> None:
        """See ``UnitHost``."""
        known = self._sessions.get(session.session_id)
        if known is not None:
            known.session = session

    def cancel(self, session_id: str, epoch: int, heard_ms: float) -> None:
        """See ``UnitHost``; what the answer's request computed stays in the session's context."""
        session = self._sessions.get(session_id)
        if session is None or session.failed or epoch <= session.epoch:
            return
        session.cancel(epoch)
        self._result.outputs = [
            output
            for output in self._result.outputs
            if output.session_id != session_id or output.epoch >= epoch
        ]
        self.on_changed(session)

    def hold(self, session_id: str, held: bool) -> None:
        """See ``UnitHost``: there are no ticks, and a segment under way cannot be paused."""

    def close(self, session_id: str) -> None:
        """See ``UnitHost``."""
        session = self._sessions.pop(session_id, None)
        self._touched.pop(session_id, None)
        if session is not None:
            session.close()
        self._result.closed.append(session_id)
        self._flush_soon()

    def shutdown(self) -> None:
        """Close every session and tell what came of it."""
        for session_id in tuple(self._sessions):
            self.close(session_id)
        self._flush()

    # What sessions tell

    def on_output(self, output: StageOutput) -> None:
        """See ``SessionSink``."""
        self._result.outputs.append(output)
        self._flush_soon()

    def on_taken(self, unit: UnitRequest) -> None:
        """See ``SessionSink``."""
        self._result.taken.append((unit.session_id, unit.epoch, unit.seq))
        self._flush_soon()

    def on_answered(self, took_s: float, waited_s: float) -> None:
        """See ``SessionSink``."""
        self._answers.append((took_s, waited_s))

    def on_changed(self, session: LanguageSession) -> None:
        """See ``SessionSink``."""
        self._touched[session.session.session_id] = session
        self._flush_soon()

    def on_failed(self, session: LanguageSession, message: str) -> None:
        """See ``SessionSink``."""
        logger.error("%s: %s", session.session.session_id, message)
        failure = StageError("runtime_failed", message, "session")
        self._result.failed.append((session.session.session_id, failure))
        self._flush_soon()

    def on_engine_lost(self, error: EngineLostError) -> None:
        """See ``SessionSink``; said once for all sessions."""
        if not self._lost:
            self._lost = True
            self._on_engine_lost(error)

    def _on_step(self) -> None:
        # A long input takes many steps before its first word: it is not stuck meanwhile.
        self._stepped_at = self._clock()

    def _flush_soon(self) -> None:
        if not self._flush_due:
            self._flush_due = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_due = False
        self._report_idle()
        self._report_answers()
        result, self._result = self._result, HostResult()
        if result:
            self._on_result(result)

    def _report_idle(self) -> None:
        for session_id, session in self._touched.items():
            if session.active and session.is_idle and not session.failed:
                session.active = False
                self._result.idle.append(session_id)
        self._touched.clear()

    def _report_answers(self) -> None:
        answers, self._answers = self._answers, []
        if answers:
            late = sum(waited_s > self._period_s for _, waited_s in answers)
            longest_s = max(took_s for took_s, _ in answers)
            self._result.report = StepReport(longest_s * 1000, len(answers), late)
