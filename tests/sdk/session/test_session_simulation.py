"""Random conversations on one bench, every law of the session held after every step.

``DUPLEX_SIMULATE=5000`` runs so many of them, newly drawn; without it a few that are always the
same. A failure prints the steps that lead to it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
from duplex_sdk.plugin import DuplexCapabilities, DuplexSessionRuntimeConfig
from duplex_sdk.protocol.duplex import (
    AckPlayback,
    AppendAudio,
    BargeIn,
    CancelInput,
    CancelResponse,
    ClearInput,
    ClearOutputAudio,
    CloseSession,
    Commit,
    CreateItem,
    CreateResponse,
    DeleteItem,
    Heartbeat,
    RealtimeCommand,
    RetrieveItem,
    SignalTurn,
    TruncateItem,
    UpdateSession,
)
from duplex_sdk.session import effects, inputs
from duplex_sdk.stage import StageError
from duplex_sdk.testing.invariants import SessionWatch
from duplex_sdk.testing.scripted.model import Scripted
from duplex_sdk.testing.session_lab import SessionLab, tone
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
)

EXAMPLES = int(os.environ.get("DUPLEX_SIMULATE", "0"))
PHASES = (Phase.generate,) if os.environ.get("DUPLEX_SIMULATE_QUICK") else tuple(Phase)

FAULT = inputs.Fault("runtime_append_failed", "on purpose")
HELD: dict[type[Any], Callable[[Any], inputs.Input]] = {
    effects.DecodeAudio: lambda effect: inputs.AudioDecoded(
        effect.op, fault=inputs.Fault("bad_audio", "on purpose")
    ),
    effects.PlanAppend: lambda effect: inputs.AppendPlanned(effect.op, fault=FAULT),
    effects.SubmitUnit: lambda effect: inputs.UnitSubmitted(effect.op, FAULT),
    effects.AbortRequests: lambda effect: inputs.RequestsAborted(effect.op, FAULT),
}


class Early(Scripted):
    """Hears units before their commit."""

    early_input = True


class Patient(Scripted):
    """Interrupted by sustained speech only."""

    def capabilities(self, *, max_sessions: int) -> DuplexCapabilities:
        known = super().capabilities(max_sessions=max_sessions)
        return replace(known, interrupt_policy="barge_in_on_sustained_speech")


class Ears(Patient):
    """Hears early, and is interrupted by sustained speech only, as a real local model."""

    early_input = True


class Unstoppable(Scripted):
    """Can only be muted."""

    def capabilities(self, *, max_sessions: int) -> DuplexCapabilities:
        return replace(super().capabilities(max_sessions=max_sessions), cancel_effect="mutes")


SUSTAINED = {
    "turn_detection": {"type": "server_vad"},
    "overlap_short_ack_ms": 400,
    "overlap_barge_in_ms": 600,
}
SPEAKS_THRICE = [{"ms": 500, "say": {"delay_ms": 0}}] * 3

KINDS: dict[str, tuple[type[Scripted], dict[str, Any], dict[str, Any]]] = {
    "manual": (Scripted, {"turns": "commit"}, {}),
    "manual burst": (Scripted, {"turns": "commit", "pace": "burst"}, {}),
    "detector": (Scripted, {}, {"turn_detection": {"type": "server_vad"}}),
    "detector, patient": (
        Scripted,
        {},
        {"turn_detection": {"type": "server_vad", "interrupt_response": False}},
    ),
    "early": (Early, {"turns": "commit"}, {}),
    "early detector": (Early, {}, {"turn_detection": {"type": "server_vad"}}),
    "auto": (Scripted, {"turns": "commit"}, {"auto_response": True}),
    "native": (Scripted, {"turns": "native", "answers": [{"delay_ms": 0}]}, {}),
    "native auto": (Scripted, {"turns": "native", "at": SPEAKS_THRICE}, {"auto_response": True}),
    "native mutes": (
        Unstoppable,
        {"turns": "native", "at": SPEAKS_THRICE},
        {"auto_response": True},
    ),
    "native detector": (
        Scripted,
        {"turns": "native", "at": SPEAKS_THRICE},
        {"auto_response": True, "turn_detection": {"type": "server_vad"}},
    ),
    "sustained": (Patient, {}, SUSTAINED),
    "sustained early": (Ears, {"answers": [{"ms": 5000}]}, SUSTAINED),
    "silent": (Scripted, {"turns": "commit", "answers": [None, {"ms": 300}]}, {}),
    "other rates": (
        Scripted,
        {"turns": "commit", "in_rate": 24_000, "out_rate": 16_000},
        {"audio": {"output": {"format": {"type": "audio/pcmu"}}}},
    ),
}

lengths = st.sampled_from([7, 20, 80, 130, 300, 900])
positions = st.sampled_from([0, 1, 250.5, 1000, 9000])


class Conversation(RuleBasedStateMachine):
    """One session, its client, its stage and the clock."""

    @initialize(
        kind=st.sampled_from(sorted(KINDS)),
        policy=st.sampled_from(["commit_all_on_done", "ack_only"]),
        overflow=st.sampled_from(["close_session", "fail_response"]),
        small=st.booleans(),
    )
    def open(self, kind: str, policy: str, overflow: str, small: bool) -> None:
        plugin, script, session = KINDS[kind]
        limits = DuplexSessionRuntimeConfig(
            overflow_policy=overflow,
            max_pending_input_bytes_per_session=200_000,
            **(
                {
                    "max_pending_output_bytes_per_session": 150_000,
                    "max_pending_output_events_per_session": 60,
                }
                if small
                else {}
            ),
        )
        self.lab = SessionLab(
            plugin({"script": script}), {**session, "playback_commit_policy": policy}, limits=limits
        )
        self.watch = SessionWatch(self.lab)
        self.held: dict[type[Any], list[Any]] = {}
        self.commands = 0
        self.generation = 0

    def send(self, command: type[RealtimeCommand], **fields: Any) -> None:
        self.commands += 1
        self.lab.send(command(event_id=f"c{self.commands}", **fields))

    def an_item(self, data: st.DataObject) -> str:
        known = [e.item.id for e in self.lab.events if e.type == "conversation.item.added"]
        known += [f"item_{e.response_id}" for e in self.lab.events if e.type == "response.done"]
        return str(data.draw(st.sampled_from([*known[-6:], "item_none"])))

    # the user

    @rule(ms=lengths)
    def speak(self, ms: int) -> None:
        self.lab.speak(ms)

    @rule(ms=lengths)
    def pause(self, ms: int) -> None:
        self.lab.pause(ms)

    @rule(ms=lengths, hint=st.sampled_from([None, True, False]))
    def send_at_once(self, ms: int, hint: bool | None) -> None:
        self.send(AppendAudio, audio=tone(ms), is_speech=hint)

    @rule(ms=st.sampled_from([1, 30, 79, 200, 1000, 3000]))
    def wait(self, ms: int) -> None:
        self.lab.run(ms)

    # the client

    @rule(ask=st.sampled_from([None, True, False]), final=st.sampled_from([True, True, False]))
    def commit(self, ask: bool | None, final: bool) -> None:
        self.send(Commit, response_create=ask, final=final)

    @rule()
    def commit_silence(self) -> None:
        self.send(Commit, is_speech=False)

    @rule(options=st.sampled_from([{}, {"output_modalities": ["text"]}, {"metadata": {"a": 3}}]))
    def create(self, options: dict[str, Any]) -> None:
        self.send(CreateResponse, response=options)

    @rule(
        kind=st.sampled_from(
            [CancelResponse, ClearOutputAudio, ClearInput, CancelInput, BargeIn, Heartbeat]
        )
    )
    def interrupt(self, kind: type[RealtimeCommand]) -> None:
        self.send(kind)

    @rule()
    def cancel_and_create(self) -> None:
        self.send(CancelResponse)
        self.send(CreateResponse)

    @rule(role=st.sampled_from(["user", "assistant", "system"]))
    def write(self, role: str) -> None:
        part = {"type": "output_text" if role == "assistant" else "input_text", "text": "hello"}
        self.send(CreateItem, item={"type": "message", "role": role, "content": [part]})

    @rule(data=st.data(), kind=st.sampled_from([DeleteItem, RetrieveItem]))
    def of_item(self, data: st.DataObject, kind: type[RealtimeCommand]) -> None:
        self.send(kind, item_id=self.an_item(data))

    @rule(data=st.data(), ms=positions)
    def truncate(self, data: st.DataObject, ms: float) -> None:
        self.send(TruncateItem, item_id=self.an_item(data), audio_end_ms=ms)

    @rule(data=st.data(), ms=positions, cut=st.booleans(), named=st.booleans())
    def acknowledge(self, data: st.DataObject, ms: float, cut: bool, named: bool) -> None:
        item = self.an_item(data) if named else None
        self.send(AckPlayback, played_ms=ms, item_id=item, truncate=cut)

    @rule(
        change=st.sampled_from(
            [
                {"instructions": "other"},
                {"model": "no such"},
                {"turn_detection": None},
                {"turn_detection": {"type": "server_vad"}},
                {"sample_rate_hz": 24_000},
                {"voice": "v"},
            ]
        )
    )
    def update(self, change: dict[str, Any]) -> None:
        self.send(UpdateSession, session=change)

    @rule(event=st.sampled_from(["user_started", "assistant_done", "something"]))
    def signal(self, event: str) -> None:
        self.send(SignalTurn, event=event)

    @rule(reads=st.booleans())
    def read(self, reads: bool) -> None:
        self.lab.reading = reads
        if reads:
            self.lab.read_all()

    @rule(data=st.data())
    def reconnect(self, data: st.DataObject) -> None:
        stale = data.draw(st.booleans())
        self.lab.feed(inputs.LeaseDetached(f"d{self.commands}", self.generation - stale))
        self.lab.feed(inputs.LeaseResumed(f"r{self.commands}", self.generation - stale))
        self.generation = self.lab.session.lease_generation
        self.commands += 1

    # what can go wrong

    @rule(kind=st.sampled_from(list(HELD)))
    def hold(self, kind: type[Any]) -> None:
        if kind not in self.held:
            kept = self.held[kind] = []
            self.lab.faults[kind] = kept.append

    @precondition(lambda self: self.held)
    @rule(data=st.data(), well=st.booleans())
    def let_go(self, data: st.DataObject, well: bool) -> None:
        self.release(data.draw(st.sampled_from(list(self.held))), well=well)

    def release(self, kind: type[Any], *, well: bool) -> None:
        kept = self.held.pop(kind)
        self.lab.faults.pop(kind, None)
        for effect in kept:
            if well:
                self.lab.carry_out(effect)
            else:
                self.lab.feed(HELD[kind](effect))

    @rule(scope=st.sampled_from(["event", "response"]), stale=st.booleans(), end=st.booleans())
    def stage_says(self, scope: Any, stale: bool, end: bool) -> None:
        if not self.lab.submitted:
            return
        submission = self.lab.submitted[0 if stale else -1]
        error = StageError("runtime_append_failed", "on purpose", scope)
        fields = {"text": "late", "end_of_turn": True} if end else {"error": error}
        self.lab.stage_output(submission.context, **fields)

    @precondition(lambda self: self.commands > 25)
    @rule(how=st.sampled_from(["client", "stage"]))
    def end(self, how: str) -> None:
        if how == "client":
            self.send(CloseSession)
        else:
            self.lab.feed(inputs.StageFailed("runtime_failed", "on purpose"))

    def teardown(self) -> None:
        if not hasattr(self, "watch") or self.watch.broken:
            return
        for kind in list(self.held):
            self.release(kind, well=True)
        self.lab.reading = True
        self.lab.read_all()
        self.lab.run(20_000)
        self.watch.at_rest()
        self.lab.send(CloseSession())
        self.lab.run(10_000)
        self.watch.at_rest()
        assert self.lab.session.closed


Conversation.TestCase.settings = settings(
    max_examples=EXAMPLES or 40,
    stateful_step_count=40,
    deadline=None,
    derandomize=not EXAMPLES,
    database=None,
    print_blob=True,
    report_multiple_bugs=False,
    phases=PHASES,
    suppress_health_check=list(HealthCheck),
)
TestConversation = Conversation.TestCase
