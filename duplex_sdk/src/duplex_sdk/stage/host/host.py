"""``StageHost``: drives one ``StageModel`` for many sessions."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from duplex_sdk.stage.model import LoadContext, StageInfo, StageLoadError, StageModel
from duplex_sdk.stage.types import (
    Json,
    StageError,
    StageOutput,
    StageSession,
    StageUnit,
    UnitRequest,
)

from .hosted_session import HostedSession, QueuedUnit
from .loaded_info import checked_info
from .output_check import OutputCheck
from .prefill import PrefillQueue
from .result import HostResult, StepReport
from .schedule import Schedule
from .stepper import BatchLostError, PanicError, Stepper, describe
from .unit_host import UnitHost

__all__ = ["StageHost"]

T = TypeVar("T")

logger = logging.getLogger(__name__)


class StageHost(UnitHost):
    """Keeps the table of sessions of one replica, makes the batches and calls the model.

    It does no I/O, owns no thread and never sleeps: whoever drives it calls ``open``, ``units``,
    ``update``, ``cancel``, ``hold`` and ``close`` as they arrive, ``step`` whenever ``next_due``
    has come, and delivers what ``step`` returns. All calls come from one thread; only
    ``busy_since`` may be read from another.
    """

    def __init__(
        self,
        model: StageModel[Any],
        *,
        clock: Callable[[], float],
        output_rate: int | None = None,
        max_batch: int = 64,
        gather_ms: float = 0.0,
        period_ms: float | None = None,
    ) -> None:
        """Make a host of a model that is not loaded yet.

        Args:
            model: to drive; nobody else may call it.
            clock: seconds, monotonic; the only clock the model sees.
            output_rate: Hz that output audio must have; None: any.
            max_batch: sessions in one step at most.
            gather_ms: how long a step waits for more sessions to be ready.
            period_ms: a unit that ends later than this is counted as late; None: none is.
        """
        self._model = model
        self._clock = clock
        self._period_s = math.inf if period_ms is None else period_ms / 1000
        self._check = OutputCheck(output_rate)
        self._stepper = Stepper(model, self._check, self._serves)
        self._schedule = Schedule(max_batch=max_batch, gather_s=gather_ms / 1000)
        self._prefills = PrefillQueue()
        self._has_prefill = type(model).prefill is not StageModel.prefill
        self._sessions: dict[str, HostedSession] = {}
        self._touched: dict[str, HostedSession] = {}
        self._result = HostResult()
        self._busy_since: float | None = None
        self._close_failures = 0

    @property
    def busy_since(self) -> float | None:
        """When the call of the model that is under way began; None: none is."""
        return self._busy_since

    @property
    def close_failures(self) -> int:
        """How many ``close`` calls of the model raised."""
        return self._close_failures

    @property
    def session_count(self) -> int:
        """How many sessions are open, failed ones that wait for their close included."""
        return len(self._sessions)

    def load(self, context: LoadContext) -> StageInfo:
        """Load the model.

        Raises:
            StageLoadError: it could not be loaded; the model's own, or one made of what it raised.
        """
        kind = type(self._model)
        if not self._stepper.batches and kind.step_unit is StageModel.step_unit:
            raise StageLoadError(f"{kind.__name__} writes neither step_unit nor step")
        try:
            info = self._model.load(context)
        except (StageLoadError, KeyboardInterrupt):
            raise
        except BaseException as error:  # see ``_call``
            raise StageLoadError(f"{kind.__name__} did not load: {describe(error)}") from error
        return checked_info(info, kind.__name__)

    def open(self, session: StageSession) -> None:
        """Make the state of a session; one that is open already is updated."""
        if session.session_id in self._sessions:
            self.update(session)
            return
        hosted = self._sessions[session.session_id] = HostedSession(session)
        began = self._clock()
        try:
            hosted.state = self._call(self._model.open, session)
        except (Exception, SystemExit) as error:
            self._contain(hosted, "open", error)
            return
        hosted.has_state = True
        hosted.prefill_ms = (self._clock() - began) * 1000
        if self._has_prefill:
            self._prefills.put(hosted, began)
        else:
            self._go_live(hosted)

    def units(self, units: Sequence[UnitRequest]) -> None:
        """Queue units; those of unknown or failed sessions and of older epochs are given back."""
        now = self._clock()
        for unit in units:
            hosted = self._sessions.get(unit.session_id)
            if hosted is None or hosted.phase == "failed":
                self._give_back(unit)
                continue
            hosted.active = True
            if unit.epoch < hosted.epoch:
                self._give_back(unit)
                self._touched[unit.session_id] = hosted
                continue
            hosted.note(unit)
            hosted.queue.append(QueuedUnit(unit, now, self._schedule.next_order()))
            self._schedule.refresh(hosted, now)

    def update(self, session: StageSession) -> None:
        """Remember a session's new configuration; the model is told before its next step."""
        hosted = self._sessions.get(session.session_id)
        if hosted is not None and hosted.phase != "failed":
            hosted.session = session
            hosted.update_due = True

    def cancel(self, session_id: str, epoch: int, heard_ms: float) -> None:
        """Drop queued units and the armed tick, then have the model stop; once per epoch."""
        hosted = self._sessions.get(session_id)
        if hosted is None or hosted.phase == "failed" or epoch <= hosted.epoch:
            return
        hosted.epoch = epoch
        hosted.requests.clear()
        self._drop_work(hosted)
        self._touched[session_id] = hosted
        try:
            self._call(self._model.cancel, hosted.state, epoch, heard_ms)
        except (Exception, SystemExit) as error:
            self._contain(hosted, "cancel", error)

    def hold(self, session_id: str, held: bool) -> None:
        """While held a session gets no ticks; an armed one is given out when the hold ends."""
        hosted = self._sessions.get(session_id)
        if hosted is None or hosted.held == held:
            return
        hosted.held = held
        if held and not hosted.queue:
            self._schedule.leave(hosted)
        elif not held and hosted.tick_at is not None:
            self._schedule.arm(hosted, hosted.tick_at)

    def close(self, session_id: str) -> None:
        """End a session; reported as closed, also when it was not open."""
        hosted = self._sessions.pop(session_id, None)
        self._touched.pop(session_id, None)
        self._result.closed.append(session_id)
        if hosted is None:
            return
        self._drop_work(hosted)
        hosted.phase = "failed"
        state, hosted.state = hosted.state, None
        if not hosted.has_state:
            return
        try:
            self._call(self._model.close, state)
        except (Exception, SystemExit):
            self._close_failures += 1
            logger.exception("a model failed in close")

    def call(self, method: str, arguments: Mapping[str, Json]) -> Json:
        """Pass a collective call on to the model; raises what the model raises."""
        return self._call(self._model.call, method, arguments)

    def shutdown(self) -> None:
        """Close every session and unload the model; failures are logged."""
        for session_id in tuple(self._sessions):
            self.close(session_id)
        try:
            self._call(self._model.unload)
        except (Exception, SystemExit):
            logger.exception("a model failed in unload")

    def next_due(self) -> float | None:
        """When ``step`` has something to do, maybe already; None: not before something arrives."""
        if self._result or self._touched:
            return self._clock()
        batch = self._schedule.next_due(len(self._sessions))
        prefill = self._prefills.next_due() if self._prefills else None
        if prefill is None or batch is None:
            return batch if prefill is None else prefill
        return min(prefill, batch)

    def step(self) -> HostResult:
        """Do what is due: slices of prefill, then at most one step of the model.

        Returns:
            Everything that happened since the last call.
        """
        if self._prefills:
            self._run_prefills(self._clock())
        now = self._clock()
        self._schedule.wake_ticks(now)
        batch = self._schedule.take(now, len(self._sessions))
        if batch:
            self._run(batch)
        if self._touched:
            self._report_idle()
        result, self._result = self._result, HostResult()
        return result

    def _run_prefills(self, now: float) -> None:
        for hosted in self._prefills.due(now, self._clock):
            began = self._clock()
            try:
                pause = self._call(self._model.prefill, hosted.state, began)
                if pause is not None and not 0 <= pause < math.inf:
                    raise ValueError(f"prefill returned {pause!r} instead of a number of ms")
            except (Exception, SystemExit) as error:
                self._contain(hosted, "prefill", error)
                continue
            hosted.prefill_ms += (self._clock() - began) * 1000
            if pause is None:
                self._go_live(hosted)
            else:
                self._prefills.put(hosted, began + pause / 1000)

    def _go_live(self, hosted: HostedSession) -> None:
        hosted.phase = "live"
        hosted.live_since = self._clock()
        self._result.opened.append((hosted.session.session_id, hosted.prefill_ms))
        self._schedule.refresh(hosted, hosted.live_since)

    def _run(self, batch: list[HostedSession]) -> None:
        began = self._clock()
        ready: list[tuple[HostedSession, QueuedUnit | None]] = []
        units: list[StageUnit[Any]] = []
        for hosted in batch:
            if hosted.update_due and not self._tell_update(hosted):
                continue
            unit, queued = hosted.next_unit()
            units.append(unit)
            ready.append((hosted, queued))
        try:
            outputs = self._step_model(units, began)
        except BatchLostError as error:
            outputs = []
            for hosted, _ in ready:
                self._fail(hosted, f"step: {error}")
        ended = self._clock()
        self._keep(outputs, began)
        late = 0
        for hosted, queued in ready:
            if queued is not None:
                self._give_back(queued.unit)
                since = max(queued.arrived, hosted.live_since)
                late += ended - since > self._period_s
            self._schedule.refresh(hosted, ended)
            self._touched[hosted.session.session_id] = hosted
        self._result.report = StepReport(
            (ended - began) * 1000, len(units), late, self._check.take_nan_samples()
        )

    def _step_model(self, units: list[StageUnit[Any]], now: float) -> list[StageOutput]:
        if not units:
            return []
        if self._stepper.batches:
            return self._call(self._stepper.step, units, now)
        outputs: list[StageOutput] = []
        for unit in units:
            outputs.extend(self._call(self._stepper.step_unit, unit, now))
        return outputs

    def _serves(self, session_id: str, request_id: str) -> bool:
        hosted = self._sessions.get(session_id)
        return hosted is not None and request_id in hosted.requests

    def _tell_update(self, hosted: HostedSession) -> bool:
        """Tell the model what changed; false when the session failed over it."""
        hosted.update_due = False
        try:
            self._call(self._model.update, hosted.state, hosted.session)
        except (Exception, SystemExit) as error:
            self._contain(hosted, "update", error)
            return False
        return True

    def _keep(self, outputs: list[StageOutput], now: float) -> None:
        for output in outputs:
            hosted = self._sessions[output.session_id]
            if output.epoch < hosted.epoch:
                continue
            if output.again_ms is not None:
                self._schedule.arm(hosted, now + output.again_ms / 1000)
            self._result.outputs.append(output)

    def _report_idle(self) -> None:
        for session_id, hosted in self._touched.items():
            busy = hosted.queue or hosted.tick_at is not None or hosted.phase == "failed"
            if hosted.active and not busy:
                hosted.active = False
                self._result.idle.append(session_id)
        self._touched.clear()

    def _contain(self, hosted: HostedSession, where: str, error: BaseException) -> None:
        logger.error("a model failed in %s", where, exc_info=error)
        self._fail(hosted, f"{where}: {describe(error)}")

    def _fail(self, hosted: HostedSession, message: str) -> None:
        hosted.phase = "failed"
        self._drop_work(hosted)
        failure = StageError("runtime_failed", message, "session")
        self._result.failed.append((hosted.session.session_id, failure))

    def _drop_work(self, hosted: HostedSession) -> None:
        for queued in hosted.queue:
            self._give_back(queued.unit)
        hosted.queue.clear()
        hosted.tick_at = None
        self._schedule.leave(hosted)

    def _give_back(self, unit: UnitRequest) -> None:
        self._result.taken.append((unit.session_id, unit.epoch, unit.seq))

    def _call(self, function: Callable[..., T], *arguments: Any) -> T:
        self._busy_since = self._clock()
        try:
            return function(*arguments)
        except (Exception, SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise PanicError(describe(error)) from error
        finally:
            self._busy_since = None
