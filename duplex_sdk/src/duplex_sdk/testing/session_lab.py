"""One session on a bench: the real core and stage, a virtual clock, and no loop or thread.

The smallest shell there can be. It carries out effects at once and in order, so a run is repeatable
to the last id. Tests drive it step by step; faults are put in by replacing a performer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy

from duplex_sdk.plugin import (
    AppendRequest,
    DuplexAppendPlan,
    DuplexCapabilities,
    DuplexModelPlugin,
    DuplexSessionConfig,
    DuplexSessionRuntimeConfig,
    DuplexStageRequestContext,
    DuplexStageSubmission,
)
from duplex_sdk.protocol.duplex import AppendAudio, DuplexEvent, RealtimeCommand
from duplex_sdk.session import DuplexEngineSession, OutputQueue, effects, inputs
from duplex_sdk.session.output_queue import DuplexOutputOverflowError, OutputLimits
from duplex_sdk.stage import StageOutput
from duplex_sdk.stage.host import StageHost

from .awaited import awaited, made_plan
from .energy_ear import EnergyEar
from .lab_stages import LabStages
from .seeded_ids import SeededIds
from .shared_models import load_host

__all__ = ["SessionLab", "prepared", "tone"]


SPINS = 2000
"""So much may happen at one moment of the virtual clock; more is a loop without an end."""


def tone(ms: float, rate: int = 16_000, hz: float = 220.0, level: float = 0.3) -> bytes:
    """PCM16 bytes of a steady tone; level 0 is silence."""
    count = int(rate * ms / 1000)
    wave = level * numpy.sin(2 * numpy.pi * hz * numpy.arange(count) / rate)
    return (wave * 32767).astype("<i2").tobytes()


def prepared(plugin: DuplexModelPlugin, config: DuplexSessionConfig) -> Mapping[str, Any]:
    """What the plugin makes of the config at the opening; the lab's clock stands still."""
    told, options = config.for_stages(""), plugin.options
    return awaited(lambda: plugin.prepare_runtime_config(told, model_config=options))


def _output_queue(limits: DuplexSessionRuntimeConfig) -> OutputQueue:
    return OutputQueue(
        OutputLimits(
            max_bytes=limits.max_pending_output_bytes_per_session,
            max_events=limits.max_pending_output_events_per_session,
        )
    )


class SessionLab:
    """A session with a plugin and all its stages, in virtual time.

    Attributes:
        now: the virtual clock, seconds.
        events: all that its client has read, in order.
        log: lines the session reported.
        faults: performers that replace the usual ones, by effect type; they return the outcome,
            or None for an effect that hangs.
        reading: whether the client reads; while False events wait in the output queue.
        stages: of the session; closing them frees what a session that never ended holds.
        watch: told of every step: its input and what it asked for, before that is carried out.
    """

    def __init__(
        self,
        plugin: DuplexModelPlugin,
        session: Mapping[str, Any] | DuplexSessionConfig | None = None,
        *,
        limits: DuplexSessionRuntimeConfig | None = None,
        profile_defaults: Mapping[str, Any] | None = None,
        lenient: bool = False,
        runtime_config: Mapping[str, Any] | None = None,
        seed: int = 0,
        by_update: bool = False,
        capabilities: DuplexCapabilities | None = None,
    ) -> None:
        self.now = 0.0
        self.plugin = plugin
        self.limits = limits or DuplexSessionRuntimeConfig()
        self.capabilities = capabilities or plugin.capabilities(max_sessions=1)
        self.pipeline = plugin.pipeline()
        ids = SeededIds(seed)
        config = session
        if not isinstance(config, DuplexSessionConfig):
            config = DuplexSessionConfig.from_realtime(
                config or {},
                capabilities=self.capabilities,
                profile_defaults=profile_defaults or {},
                lenient=lenient,
            )
        self.session = DuplexEngineSession(
            ids.session(),
            config=config,
            capabilities=self.capabilities,
            plugin=plugin,
            pipeline=self.pipeline,
            limits=self.limits,
            runtime_config=runtime_config or prepared(plugin, config),
            ids=ids,
            wall_time=0.0,
            now=0.0,
        )
        self.events: list[DuplexEvent] = []
        self.log: list[str] = []
        self.answers: list[effects.AnswerControl] = []
        self.ended: list[effects.Ended] = []
        self.submitted: list[DuplexStageSubmission] = []
        self.aborted: list[effects.AbortRequests] = []
        self.lags: list[effects.TellLag] = []
        self.faults: dict[type[Any], Callable[[Any], Any]] = {}
        self.reading = True
        self.watch: Callable[[inputs.Input, tuple[effects.Effect, ...]], None] | None = None
        self.queue = _output_queue(self.limits)
        self._ear = EnergyEar(self.capabilities.input_sample_rate_hz)
        self._mailbox: deque[inputs.Input] = deque()
        self._wakes_at: float | None = None
        self.stages = self._make_stages()
        self.feed(inputs.Started(by_update))

    def _make_stages(self) -> LabStages:
        return LabStages(
            self.session,
            plugin=self.plugin,
            pipeline=self.pipeline,
            hosts=self._make_hosts(),
            feed=self.feed,
        )

    def _make_hosts(self) -> tuple[StageHost, ...]:
        """A host per stage, its model loaded."""
        rate = self.capabilities.output_sample_rate_hz
        return tuple(
            load_host(self.pipeline, index, clock=lambda: self.now, output_rate=rate)
            for index in range(len(self.pipeline.stages))
        )

    # what a client does

    def send(self, *commands: RealtimeCommand, lenient: bool = False) -> None:
        """Commands arrive, in order, at one moment."""
        for command in commands:
            self.feed(inputs.CommandReceived(command, lenient))

    def append(self, data: bytes, *, piece_ms: float = 20, **fields: Any) -> None:
        """Audio arrives in real time, in pieces; the clock moves on with it."""
        rate = self.capabilities.input_sample_rate_hz
        size = int(rate * piece_ms / 1000) * 2
        for start in range(0, len(data), size):
            piece = data[start : start + size]
            self.send(AppendAudio(audio=piece, **fields))
            self.run(len(piece) / 2 * 1000 / rate)

    def speak(self, ms: float, **fields: Any) -> None:
        """The user makes a sound."""
        self.append(tone(ms, self.capabilities.input_sample_rate_hz), **fields)

    def pause(self, ms: float) -> None:
        """The user's microphone sends silence."""
        self.append(tone(ms, self.capabilities.input_sample_rate_hz, level=0.0))

    def types(self, since: int = 0) -> list[str]:
        """Wire types of what the client has read."""
        return [event.to_realtime()["type"] for event in self.events[since:]]

    def read_all(self) -> None:
        """The client reads whatever waits."""
        while (event := self.queue.get(self.now)) is not None:
            self.events.append(event)

    # time

    def run(self, ms: float) -> None:
        """Let time pass: ticks of the stage and timers happen at their moment."""
        end = self.now + ms / 1000
        stood = 0
        while True:
            moment, wakes_at = self.stages.next_due(), self._wakes_at
            if moment is None or (wakes_at is not None and wakes_at < moment):
                moment = end if wakes_at is None else wakes_at
            if moment > end:
                break
            stood = stood + 1 if moment <= self.now else 0
            assert stood < SPINS, "the session does work without end, and no time passes"
            self.now = max(self.now, moment)
            if not self._work() and moment >= end:
                break
        self.now = end

    def _work(self) -> bool:
        woken = self._wakes_at is not None and self._wakes_at <= self.now
        if woken:
            self._wakes_at = None
            self.feed(inputs.TimerFired())
        return self.stages.step(self.now) or woken

    # the shell

    def feed(self, item: inputs.Input) -> None:
        """Hand an input to the core and carry out what it asks for."""
        mailbox = self._mailbox
        mailbox.append(item)
        if len(mailbox) > 1:
            return
        while mailbox:
            asked = self.session.handle(mailbox[0], self.now)
            if self.watch is not None:
                self.watch(mailbox[0], asked)
            if asked:
                self._perform(asked)
            mailbox.popleft()
        if self.reading and self.queue.readable:
            self.read_all()

    def _perform(self, asked: tuple[effects.Effect, ...]) -> None:
        refused: list[DuplexEvent] = []
        limit = ""
        for effect in asked:
            if type(effect) is effects.Emit:
                if refused:
                    refused.append(effect.event)
                    continue
                try:
                    self.queue.put(effect.event, self.now)
                except DuplexOutputOverflowError as error:
                    refused.append(effect.event)
                    limit = error.limit
                continue
            replaced = self.faults.get(type(effect))
            outcome = (
                _PERFORMERS[type(effect)](self, effect) if replaced is None else replaced(effect)
            )
            if outcome is not None:
                self._mailbox.append(outcome)
        if refused:
            self._mailbox.insert(1, inputs.OutputRefused(tuple(refused), limit))

    def stage_output(self, context: DuplexStageRequestContext, **fields: Any) -> None:
        """The last stage says something under a request, whatever the stage itself thinks."""
        output = StageOutput(
            session_id=context.session_id,
            request_id=context.request_id,
            epoch=context.fence.epoch,
            turn_id=context.fence.turn_id,
            **fields,
        )
        self.feed(inputs.StageOutputReceived(output, len(self.pipeline.stages) - 1))

    def carry_out(self, effect: effects.Effect) -> None:
        """Do now what a fault has kept back, and hand its outcome to the core."""
        outcome = self.outcome_of(effect)
        if outcome is not None:
            self.feed(outcome)

    def outcome_of(self, effect: effects.Effect) -> inputs.Input | None:
        """Do an effect as usual, whatever its fault; what became of it, for the core to be fed."""
        outcome: inputs.Input | None = _PERFORMERS[type(effect)](self, effect)
        return outcome

    def _plan(self, op: int, request: AppendRequest) -> inputs.AppendPlanned:
        try:
            plan: DuplexAppendPlan | None = made_plan(self.plugin, request)
        except Exception as error:
            fault = inputs.Fault("runtime_append_failed", repr(error))
            return inputs.AppendPlanned(op, fault=fault)
        return inputs.AppendPlanned(op, plan)

    def _submit(self, op: int, submission: DuplexStageSubmission) -> inputs.UnitSubmitted:
        self.submitted.append(submission)
        self.stages.submit(submission)
        return inputs.UnitSubmitted(op)

    def _abort(self, effect: effects.AbortRequests) -> inputs.RequestsAborted:
        self.aborted.append(effect)
        self.stages.cancel(effect.epoch, effect.heard_ms)
        return inputs.RequestsAborted(effect.op)

    def _release(self, effect: effects.ReleaseStages) -> inputs.StagesReleased:
        self.stages.close()
        return inputs.StagesReleased(effect.op)

    def _drop(self, effect: effects.DropQueuedAudio) -> inputs.QueuedAudioDropped | None:
        removed = self.queue.invalidate(effect.response_id, effect.through_epoch)
        if not removed.duration_ms:
            return None
        return inputs.QueuedAudioDropped(effect.response_id, removed.duration_ms)

    def _wake(self, effect: effects.WakeAt) -> None:
        # One timer per session, as a server has it: the newest wish is the one that counts.
        self._wakes_at = effect.at


# One table for all labs: one for each would have to be made at every opening.
_PERFORMERS: dict[type[Any], Callable[[Any, Any], Any]] = {
    effects.DecodeAudio: lambda lab, effect: lab._ear.decode(effect),
    effects.ConfigureInput: lambda lab, effect: lab._ear.configure(effect),
    effects.PlanAppend: lambda lab, effect: lab._plan(effect.op, effect.request),
    effects.RegisterRequest: lambda lab, effect: None,
    effects.SubmitUnit: lambda lab, effect: lab._submit(effect.op, effect.submission),
    effects.AbortRequests: lambda lab, effect: lab._abort(effect),
    effects.ReleaseRequests: lambda lab, effect: inputs.RequestsAborted(effect.op),
    effects.ReleaseStages: lambda lab, effect: lab._release(effect),
    effects.DropQueuedAudio: lambda lab, effect: lab._drop(effect),
    effects.WakeAt: lambda lab, effect: lab._wake(effect),
    effects.AnswerControl: lambda lab, effect: lab.answers.append(effect),
    effects.MarkClosing: lambda lab, effect: None,
    effects.Ended: lambda lab, effect: lab.ended.append(effect),
    effects.Report: lambda lab, effect: lab.log.append(effect.message),
    effects.TellLag: lambda lab, effect: lab.lags.append(effect),
}
