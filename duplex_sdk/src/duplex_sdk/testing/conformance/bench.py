"""The stages of a plugin on a bench: hosts as the engine runs them, a virtual clock, no session."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from time import perf_counter

from msgspec import structs

from duplex_sdk.audio import PcmChunk
from duplex_sdk.plugin import (
    AppendPiece,
    AppendRequest,
    DuplexFence,
    DuplexModelSessionState,
    DuplexRuntimeConfigError,
    OutputContext,
    SessionView,
)
from duplex_sdk.plugin.read_only import read_only
from duplex_sdk.stage import (
    Image,
    Json,
    StageError,
    StageInputContext,
    StageOutput,
    StagePrompt,
    StageSession,
    UnitRequest,
)
from duplex_sdk.stage.host import StageHost
from duplex_sdk.testing.awaited import made_plan

from .breach import breach
from .said import Said
from .subject import Subject

__all__ = ["BenchSession", "StageBench"]

MOST_STEPS = 20_000
"""More steps than any turn of a well-behaved model takes."""


@dataclass
class BenchSession:
    """One session on the bench.

    Attributes:
        stages: the session as each stage is told of it.
        state: the plugin's own memory of it.
        prompts: what its stages were given, in order.
        said: what they handed out, in order.
        failures: why it ended, if it did.
        conversation: what was said before, as the plugin sees it.
    """

    stages: tuple[StageSession, ...]
    state: DuplexModelSessionState
    epoch: int = 0
    turn_id: int = 0
    appended: int = 0
    conversation: tuple[Mapping[str, Json], ...] = ()
    prompts: list[StagePrompt] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)
    failures: list[StageError] = field(default_factory=list)
    memo: dict[int, dict[str, Json]] = field(default_factory=lambda: defaultdict(dict))

    @property
    def session_id(self) -> str:
        """Its name."""
        return self.stages[0].session_id

    @property
    def request_id(self) -> str:
        """The request of the epoch."""
        return f"{self.session_id}/{self.epoch}"

    @property
    def errors(self) -> list[StageError]:
        """All failures, those of single units included."""
        found = [said.output.error for said in self.said if said.output.error is not None]
        return [*found, *self.failures]


class StageBench:
    """Drives the stages of a plugin for several sessions; use it with ``with``.

    Attributes:
        now: the virtual clock, seconds.
        late_s: how long after its moment each step is taken, as on a busy machine.
        steps: how many steps were taken.
        sessions: by id; closed ones stay to be read.
        nan_samples: samples that were no numbers.
        took: stage ids and how long their steps took, seconds of real time.
    """

    def __init__(self, subject: Subject, *, late_s: float = 0.0) -> None:
        self.late_s = late_s
        self.now = subject.models.next_clock()
        self.steps = 0
        self.nan_samples = 0
        self.took: list[tuple[str, float]] = []
        self.sessions: dict[str, BenchSession] = {}
        self._subject = subject
        self._pipeline = subject.pipeline
        self._seq = 0
        self._open: set[str] = set()
        self._hosts = [
            StageHost(
                loaded.model,
                clock=lambda: self.now,
                output_rate=subject.capabilities.output_sample_rate_hz,
                max_batch=stage.max_batch,
            )
            for loaded, stage in zip(subject.stages, self._pipeline.stages, strict=True)
        ]

    def __enter__(self) -> StageBench:
        return self

    def __exit__(self, *_: object) -> None:
        for session_id in sorted(self._open):
            self.close(session_id)
        self._subject.models.clock = self.now

    @property
    def at_rest(self) -> bool:
        """Whether nothing is due, now or later."""
        return all(host.next_due() is None for host in self._hosts)

    @property
    def close_failures(self) -> int:
        """How many ``close`` calls of the models raised."""
        return sum(host.close_failures for host in self._hosts)

    # sessions

    def open(self, session_id: str, **changes: Json) -> BenchSession:
        """A new session; ``changes`` are fields of its session object."""
        session = BenchSession(
            self._subject.stage_sessions(session_id, **changes),
            self._subject.plugin.create_session_state(),
        )
        self.sessions[session_id] = session
        self._open.add(session_id)
        for host, told in zip(self._hosts, session.stages, strict=True):
            host.open(told)
        return session

    def update(self, session_id: str, **changes: Json) -> None:
        """The session object changes, unless the plugin refuses that in its way."""
        session = self.sessions[session_id]
        config = self._subject.session_config(session_id, **changes)
        hook = self._subject.plugin.runtime_config_for_update
        try:
            runtime = hook(config, session.stages[0].runtime, started=True)
        except DuplexRuntimeConfigError:
            return
        except Exception as error:
            breach(
                f"runtime_config_for_update raised {type(error).__name__}: {error}",
                "return the runtime config after the update; refuse what cannot change with"
                " DuplexRuntimeConfigError, and only that",
            )
        session.stages = self._subject.told_to_stages(session_id, config, read_only(dict(runtime)))
        for host, told in zip(self._hosts, session.stages, strict=True):
            host.update(told)

    def cancel(self, session_id: str, heard_ms: float = 0.0) -> None:
        """The answer under way is broken off, in every stage."""
        session = self.sessions[session_id]
        session.epoch += 1
        session.memo.clear()
        for host in self._hosts:
            host.cancel(session_id, session.epoch, heard_ms)

    def close(self, session_id: str) -> None:
        """The session ends."""
        self._open.discard(session_id)
        for host in self._hosts:
            host.close(session_id)

    # input

    def say(self, session_id: str, audio: PcmChunk, *, images: tuple[Image, ...] = ()) -> None:
        """A turn of the user, and the wish for an answer, as this kind of model is given it."""
        self.say_all({session_id: audio}, images=images)

    def say_all(self, turns: Mapping[str, PcmChunk], *, images: tuple[Image, ...] = ()) -> None:
        """The users of several sessions speak at the same time, and show ``images``."""
        if not (self._subject.native or self._subject.plugin.early_input):
            for session_id, audio in turns.items():
                turn = AppendPiece(audio=audio, is_speech=True, images=images, final=True)
                self._submit(session_id, turn)
            return
        self._stream(turns, is_speech=True, images=images)
        if not self._subject.native:
            for session_id in turns:
                self.commit(session_id)

    def listen(self, seconds: float, *session_ids: str) -> None:
        """Users are silent; a native model is given the silence, unit by unit."""
        if not self._subject.native:
            self.run(seconds)
            return
        rate = self._subject.capabilities.input_sample_rate_hz
        silence = PcmChunk.silence(round(rate * seconds), rate)
        self._stream(dict.fromkeys(session_ids, silence), is_speech=False)

    def begin(self, session_id: str, audio: PcmChunk) -> None:
        """Input that no commit ends, for a model that takes it early."""
        self._stream({session_id: audio}, is_speech=True)

    def commit(self, session_id: str, *, respond: bool = True) -> None:
        """The turn's input ends here, for a model that takes it early."""
        cut = self.sessions[session_id].state.audio_buffer.prepare_commit(operation_id="commit")
        unit = cut.unit or AppendPiece(final=True)
        cut.commit()
        self._submit(session_id, structs.replace(unit, final=True, respond=respond))

    def discard(self, session_id: str) -> None:
        """The input of the unfinished turn is to be forgotten."""
        self.sessions[session_id].state.audio_buffer.clear()
        self._submit(session_id, AppendPiece(kind="discard"))

    def write(self, session_id: str, text: str) -> None:
        """The user writes instead of speaking."""
        session = self.sessions[session_id]
        session.conversation = (read_only({"role": "user", "content": text}),)
        self._submit(session_id, AppendPiece(kind="conversation"))
        session.conversation = ()

    def _stream(
        self,
        turns: Mapping[str, PcmChunk],
        *,
        is_speech: bool,
        images: tuple[Image, ...] = (),
    ) -> None:
        """Units of all the sessions in step with each other, in real time for a native model."""
        cut = [
            [
                (session_id, unit)
                for unit in self._units(
                    session_id, AppendPiece(audio=audio, is_speech=is_speech, images=images)
                )
            ]
            for session_id, audio in turns.items()
        ]
        period = (self._subject.capabilities.chunk_period_ms or 0) / 1000
        for together in zip_longest(*cut):
            for session_id, unit in filter(None, together):
                self._submit(session_id, unit)
            self.run(period)

    def _units(self, session_id: str, piece: AppendPiece) -> list[AppendPiece]:
        buffer = self.sessions[session_id].state.audio_buffer
        units: list[AppendPiece] = []
        while True:
            cut = buffer.prepare_append(piece, operation_id="unit", allow_emit=True)
            if cut is None:
                return units
            units += [] if cut.unit is None else [cut.unit]
            cut.commit()
            piece = AppendPiece()

    def _submit(self, session_id: str, unit: AppendPiece) -> None:
        session = self.sessions[session_id]
        session.appended += 1
        view = self._view(session)
        request = AppendRequest(
            fence=DuplexFence(session_id, session.epoch, session.turn_id),
            request_id=session.request_id,
            seq=session.appended,
            turn_seq=session.appended,
            unit=unit,
            session=view,
            sampling=tuple(stage.sampling for stage in session.stages),
        )
        try:
            plan = made_plan(self._subject.plugin, request)
        except Exception as error:
            breach(
                f"planning an append raised {type(error).__name__}: {error}",
                "what a request brings is read-only: start from super().plan_append(request) and"
                " replace what differs; the runtime config holds what the config hooks returned",
            )
        self.prompt(session, 0, plan.prompt)

    def prompt(self, session: BenchSession, stage: int, prompt: StagePrompt) -> None:
        """One unit for a stage, whatever the plugin would have planned."""
        self._seq += 1
        session.prompts.append(prompt)
        unit = UnitRequest(
            session.session_id,
            session.request_id,
            session.epoch,
            session.turn_id,
            self._seq,
            prompt,
        )
        self._hosts[stage].units([unit])

    # time

    def run(self, seconds: float) -> None:
        """Let time pass: units and ticks are stepped at their moment."""
        end = self.now + seconds
        while self.step(end):
            pass
        self.now = end

    def step(self, end: float) -> bool:
        """Take the next step that is due until ``end``; false when none is.

        Raises:
            LawBrokenError: the models never come to rest.
        """
        due = [(host.next_due(), index) for index, host in enumerate(self._hosts)]
        waiting = [(at, index) for at, index in due if at is not None and at <= end]
        if not waiting:
            return False
        at, index = min(waiting)
        self.now = max(self.now, min(at + self.late_s, end))
        self.steps += 1
        if self.steps > MOST_STEPS:
            breach(
                f"after {self.steps} steps stage {self._pipeline.stages[index].id!r} still asks"
                " for ticks",
                "leave again_ms None in the last output of an answer; 0 means at once, so only an"
                " output that brings the answer forward may carry it",
            )
        self._deliver(index)
        return True

    def _deliver(self, index: int) -> None:
        began = perf_counter()
        result = self._hosts[index].step()
        self.took.append((self._pipeline.stages[index].id, perf_counter() - began))
        if result.report is not None:
            self.nan_samples += result.report.nan_samples
        for session_id, error in result.failed:
            self.sessions[session_id].failures.append(error)
        for output in result.outputs:
            self._deliver_output(index, output)

    def _deliver_output(self, index: int, output: StageOutput) -> None:
        session = self.sessions[output.session_id]
        stage = self._pipeline.stages[index]
        last = index + 1 == len(self._hosts)
        shown = last or self._is_direct(session, index, output)
        session.said.append(Said(stage.id, shown, self.steps, self.now, output))
        if shown:
            return
        context = StageInputContext(stage, session.stages[0].config, (), session.memo[index])
        try:
            prompts = tuple(self._pipeline.stage_input(output, context))
        except Exception as error:
            breach(
                f"stage_input failed of an output of {stage.id!r}: {type(error).__name__}: {error}",
                "return the next stage's prompts as a sequence, () for none; an output may have no"
                " text, no audio, or neither",
            )
        for prompt in prompts:
            self.prompt(session, index + 1, prompt)

    def _is_direct(self, session: BenchSession, index: int, output: StageOutput) -> bool:
        try:
            decision = self._subject.plugin.decide_output(output, self.context(session, index))
        except Exception as error:
            breach(
                f"decide_output raised {type(error).__name__}: {error}",
                "return None for what goes on to the next stage; an output may lack any field",
            )
        return decision is not None

    def context(self, session: BenchSession, index: int) -> OutputContext:
        """Where an output of a stage stands."""
        return OutputContext(
            stage=self._pipeline.stages[index],
            stage_id=index,
            is_last=index + 1 == len(self._hosts),
            fence=DuplexFence(session.session_id, session.epoch, session.turn_id),
            session=self._view(session),
            auto_responds=self._subject.native,
        )

    def _view(self, session: BenchSession) -> SessionView:
        told = session.stages[0]
        return SessionView(
            session_id=told.session_id,
            config=told.config,
            runtime=told.runtime,
            conversation=session.conversation,
        )
