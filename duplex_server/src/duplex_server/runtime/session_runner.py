"""``DuplexSessionRunner``: the dull shell of one session.

Inputs go in, effects are carried out at once, in order; nothing here knows about turns. There is
no task per session: ``feed`` runs the session right where the input arrives, and only what arrives
while that is under way waits in the mailbox, urgent things first.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from duplex_sdk.plugin import AppendPlanner
from duplex_sdk.protocol.duplex import AudioDelta, SessionClosed, error_event
from duplex_sdk.session.effects import (
    AbortRequests,
    AnswerControl,
    ConfigureInput,
    DecodeAudio,
    DropQueuedAudio,
    Emit,
    Ended,
    MarkClosing,
    PlanAppend,
    RegisterRequest,
    ReleaseRequests,
    ReleaseStages,
    Report,
    SubmitUnit,
    TellLag,
    WakeAt,
)
from duplex_sdk.session.inputs import (
    AppendPlanned,
    AudioDecoded,
    CloseRequested,
    CommandReceived,
    Fault,
    Input,
    InputConfigured,
    LeaseDetached,
    LeaseResumed,
    LeaseTouched,
    OutputRefused,
    QueuedAudioDropped,
    RequestsAborted,
    StageFailed,
    StagesIdle,
    StagesReleased,
    TimerFired,
    UnitSubmitted,
)

from .output_buffer import DuplexOutputOverflowError
from .pending_ops import OpKind, PendingOps
from .stage_outputs import HeldOutputs

if TYPE_CHECKING:
    from duplex_sdk.protocol.duplex import DuplexEvent, RealtimeCommand
    from duplex_sdk.session.engine_session import DuplexEngineSession
    from duplex_sdk.session.inputs import StageOutputReceived

    from .ear import SessionEar
    from .services import EngineServices, RunnerOwner
    from .session_link import SessionLink

__all__ = ["DuplexSessionRunner"]

logger = logging.getLogger(__name__)

URGENT = frozenset({CloseRequested, LeaseDetached, LeaseResumed, LeaseTouched, StageFailed})

LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

DECODE = OpKind("decoding", "runtime_input_failed", lambda op, f: AudioDecoded(op, fault=f))
CONFIGURE = OpKind(
    "configuring the detector",
    "server_vad_unavailable",
    lambda op, f: InputConfigured(op, fault=f),
)
PLAN = OpKind("planning", "runtime_append_failed", lambda op, f: AppendPlanned(op, fault=f))
SUBMIT = OpKind("submitting", "runtime_append_failed", lambda op, f: UnitSubmitted(op, fault=f))
ABORT = OpKind("aborting", "runtime_abort_failed", lambda op, f: RequestsAborted(op, fault=f))
RELEASE = OpKind("the cleanup", "runtime_abort_failed", lambda op, f: StagesReleased(op, fault=f))


class DuplexSessionRunner:
    """Runs one session. Everything is called on the engine's loop and never waits."""

    __slots__ = (
        "__weakref__",
        "_ear",
        "_held",
        "_link",
        "_ops",
        "_ordered",
        "_output",
        "_owner",
        "_plans_at_once",
        "_running",
        "_services",
        "_urgent",
        "_wake",
        "session",
        "session_id",
    )

    def __init__(
        self,
        session: DuplexEngineSession,
        *,
        session_id: str,
        link: SessionLink,
        ear: SessionEar,
        services: EngineServices,
        owner: RunnerOwner,
        stage_output_limit: int,
    ) -> None:
        """Make the shell of ``session``; it does nothing before its first input.

        Args:
            session: the machine.
            session_id: its id.
            link: what the caller holds of it.
            ear: decodes and listens for it.
            services: shared with the other runners.
            owner: hears about its life.
            stage_output_limit: bytes of stage outputs that may wait for room in the output.
        """
        self.session_id = session_id
        self.session = session
        self._link = link
        self._output = link.output
        self._ear = ear
        self._services = services
        self._owner: RunnerOwner | None = owner
        self._plans_at_once = _plans_at_once(services.plugin)
        # Lists: they are empty nearly always, and an empty deque takes 760 bytes per session.
        self._urgent: list[Input] = []
        self._ordered: list[Input] = []
        self._running = False
        feed = self.feed
        self._ops = PendingOps(services, feed)
        self._wake = services.timers.deadline(self._timer_fired)
        self._held = HeldOutputs(link.output, services, feed, limit=stage_output_limit)

    def feed(self, item: Input) -> None:
        """Give the session an input and carry out what it asks for.

        From inside such a run the input waits in its lane until the run is over.
        """
        if self._running:
            (self._urgent if type(item) in URGENT else self._ordered).append(item)
            return
        if self._owner is None:
            return
        self._running = True
        try:
            self._step(item)
            while self._urgent or self._ordered:
                self._step((self._urgent or self._ordered).pop(0))
        finally:
            self._running = False
        if self._owner is not None:
            self._publish()

    def command(self, item: CommandReceived, size: int) -> None:
        """A client's command of ``size`` input bytes arrived."""
        self._link.room.taken(size)
        self.feed(item)

    def refuse(self, command: RealtimeCommand, fault: Fault) -> None:
        """Answer a command that the session can no longer take."""
        self._report(fault, command)

    def stage_output(self, item: StageOutputReceived, size: int) -> None:
        """Something came out of a stage; it may wait until the client has read more."""
        self._held.take(item, size)

    def stages_idle(self, epoch: int) -> None:
        """All stages fell silent, behind every output of theirs."""
        # After each unit of a model that speaks from unit to unit: a step of the session that
        # only ignores it would be a tenth of what the unit costs.
        if len(self._held) or not self.session.ignores_idle:
            self._held.take(StagesIdle(epoch, self.session.accepted_seq), 0)

    def room_made(self) -> None:
        """The reader took events: what was held back may go on."""
        self._held.release()

    def room_asked(self) -> None:
        """Somebody waits until the session takes more input."""
        if self._owner is not None:
            self._publish()

    def stop(self) -> None:
        """Call everything off and let go of every reference; the session is not told."""
        self._owner = None
        self._ops.close()
        self._wake.close()
        self._held.close()
        self._urgent.clear()
        self._ordered.clear()
        self._link.close()
        self._services.lateness.forget(self.session_id)

    def _step(self, item: Input) -> None:
        units = self._link.units
        if units is not None:
            units.came(item)
        try:
            effects = self.session.handle(item, self._services.clock())
        except Exception:
            logger.exception("session %s failed to handle %s", self.session_id, type(item).__name__)
            self._handle_failed(item)
            return
        ear = self._ear
        refused: list[DuplexEvent] = []
        limit = "bytes"
        for effect in effects:
            if type(effect) is not Emit:
                if units is not None:
                    units.asked(effect)
                try:
                    PERFORMERS[type(effect)](self, effect)
                except Exception:
                    kind = type(effect).__name__
                    logger.exception("session %s: %s failed", self.session_id, kind)
            elif refused:
                refused.append(effect.event)
            else:
                event = effect.event
                try:
                    self._output.put(event)
                except DuplexOutputOverflowError as overflow:
                    refused.append(event)
                    limit = overflow.limit
                else:
                    if type(event) is AudioDelta:
                        ear.play(event.delta, event.format, event.sample_rate_hz or 0)
        if refused:
            # At once: before anything else that waits.
            self._urgent.insert(0, OutputRefused(tuple(refused), limit))

    def _handle_failed(self, item: Input) -> None:
        """The machine itself broke: say so, and never keep a session that cannot be closed."""
        if isinstance(item, CloseRequested):
            self.end_by_force(item.reason)
            return
        command = item.command if isinstance(item, CommandReceived) else None
        self._report(Fault("internal_error", "the server failed to handle this"), command)

    def _report(self, fault: Fault, command: RealtimeCommand | None) -> None:
        event = error_event(
            fault.code,
            fault.message,
            event_id=command.event_id if command is not None else None,
            command=command.type if command is not None else None,
            session_id=self.session_id,
            new_id=self._services.ids.event(),
        )
        try:
            self._output.put(event)
        except DuplexOutputOverflowError:
            logger.warning("session %s: no room to report the failure", self.session_id)

    def end_by_force(self, reason: str) -> None:
        """Give the terminal event that the session itself does not give; its cleanup is owed."""
        self._output.put(
            SessionClosed(
                event_id=self._services.ids.event(), session_id=self.session_id, reason=reason
            )
        )
        if self._owner is not None:
            self._owner.session_closing(self.session_id)
            self._owner.session_ended(self.session_id, False, ())

    # Performers, by effect

    def _decode(self, effect: DecodeAudio) -> None:
        ear = self._ear
        if not ear.is_cheap(effect):
            self._ops.run_thread(effect.op, DECODE, lambda: ear.decode(effect))
        else:
            self._ops.run_now(effect.op, DECODE, self._hear, effect)

    def _hear(self, effect: DecodeAudio) -> AudioDecoded | None:
        heard = self._ear.hear(effect)
        if isinstance(heard, AudioDecoded):
            return heard
        detection = self._services.detection
        self._ops.run_elsewhere(effect.op, DECODE, lambda report: detection.add(heard, report))
        return None

    def _configure(self, effect: ConfigureInput) -> None:
        ear = self._ear
        # At once wherever possible: audio that came after it must be heard by the new detector.
        if ear.is_cheap_to_configure(effect):
            self._ops.run_now(effect.op, CONFIGURE, ear.configure, effect)
        else:
            self._ops.run_thread(effect.op, CONFIGURE, lambda: ear.configure(effect))

    def _plan(self, effect: PlanAppend) -> None:
        op = effect.op
        if self._plans_at_once:
            self._ops.run_now(op, PLAN, self._plan_now, effect)
        else:
            work = self._services.plugin.prepare_append_plan(effect.request)
            self._ops.run_task(op, PLAN, work, lambda plan: AppendPlanned(op, plan))

    def _plan_now(self, effect: PlanAppend) -> AppendPlanned:
        return AppendPlanned(effect.op, self._services.plugin.plan_append(effect.request))

    def _register(self, effect: RegisterRequest) -> None:
        try:
            self._services.port.ensure_request(effect.context)
        except Exception as error:
            logger.exception("session %s: registering a request failed", self.session_id)
            self.feed(StageFailed("runtime_input_failed", str(error)))

    def _submit(self, effect: SubmitUnit) -> None:
        op = effect.op
        work = self._services.port.submit(effect.submission)
        self._ops.run_eagerly(op, SUBMIT, work, lambda _: UnitSubmitted(op))

    def _abort(self, effect: AbortRequests) -> None:
        self._held.drop_older(effect.epoch)
        op = effect.op
        work = _abort(self._services, effect)
        self._ops.run_eagerly(op, ABORT, work, lambda _: RequestsAborted(op))

    def _release_requests(self, effect: ReleaseRequests) -> None:
        op = effect.op
        work = self._services.port.cleanup(effect.request_ids)
        self._ops.run_eagerly(op, ABORT, work, lambda _: RequestsAborted(op))

    def _release(self, effect: ReleaseStages) -> None:
        op = effect.op
        work = release_stages(self._services, self.session_id, effect.submitted, effect.reserved)
        self._ops.run_eagerly(op, RELEASE, work, lambda _: StagesReleased(op))

    def _drop_audio(self, effect: DropQueuedAudio) -> None:
        self._ear.stop_playing()
        dropped_ms = self._output.invalidate(effect.response_id, effect.through_epoch)
        if dropped_ms > 0:
            self.feed(QueuedAudioDropped(effect.response_id, dropped_ms))

    def _wake_at(self, effect: WakeAt) -> None:
        self._wake.set(effect.at)

    def _answer(self, effect: AnswerControl) -> None:
        if self._owner is not None:
            self._owner.control_answered(self.session_id, effect)

    def _mark_closing(self, effect: MarkClosing) -> None:
        self._held.close()
        if self._owner is not None:
            self._owner.session_closing(self.session_id)

    def _mark_ended(self, effect: Ended) -> None:
        self._link.room.close()
        if self._owner is not None:
            self._owner.session_ended(self.session_id, effect.released, effect.request_ids)

    def _log(self, effect: Report) -> None:
        logger.log(LEVELS[effect.level], "session %s: %s", self.session_id, effect.message)

    def _tell_lag(self, effect: TellLag) -> None:
        self._services.lateness.tell(self.session_id, effect.dropped, effect.lag_ms)

    def _timer_fired(self) -> None:
        self.feed(TimerFired())

    def _publish(self) -> None:
        room = self._link.room
        held = self.session.held_input_bytes if room.wants_held else None
        total, commands, turns = self.session.input_load()
        room.publish(total=total, commands=commands, turns=turns, held=held)


async def _abort(services: EngineServices, effect: AbortRequests) -> None:
    await services.port.abort_requests(
        effect.request_ids, heard_ms=effect.heard_ms, epoch=effect.epoch
    )
    await services.port.cleanup(effect.request_ids)


async def release_stages(
    services: EngineServices, session_id: str, submitted: tuple[str, ...], reserved: tuple[str, ...]
) -> None:
    """End all stage work of a session; raises when a part of it failed and must be tried again."""
    await services.port.cleanup(submitted, abort=True)
    await services.port.cleanup(reserved)
    await services.port.release_session(session_id)


def _plans_at_once(plugin: object) -> bool:
    return getattr(type(plugin), "prepare_append_plan", None) is AppendPlanner.prepare_append_plan


PERFORMERS: dict[type[Any], Callable[[DuplexSessionRunner, Any], None]] = {
    DecodeAudio: DuplexSessionRunner._decode,
    ConfigureInput: DuplexSessionRunner._configure,
    PlanAppend: DuplexSessionRunner._plan,
    RegisterRequest: DuplexSessionRunner._register,
    SubmitUnit: DuplexSessionRunner._submit,
    AbortRequests: DuplexSessionRunner._abort,
    ReleaseRequests: DuplexSessionRunner._release_requests,
    ReleaseStages: DuplexSessionRunner._release,
    DropQueuedAudio: DuplexSessionRunner._drop_audio,
    WakeAt: DuplexSessionRunner._wake_at,
    AnswerControl: DuplexSessionRunner._answer,
    MarkClosing: DuplexSessionRunner._mark_closing,
    Ended: DuplexSessionRunner._mark_ended,
    Report: DuplexSessionRunner._log,
    TellLag: DuplexSessionRunner._tell_lag,
}
