"""A line full of commands that wait: what never waits goes past it."""

from __future__ import annotations

import pytest
from duplex_sdk.plugin import DuplexSessionRuntimeConfig
from duplex_sdk.protocol.duplex import (
    AckPlayback,
    AppendAudio,
    AppendText,
    BargeIn,
    CancelInput,
    CancelResponse,
    ClearOutputAudio,
    CloseSession,
    Commit,
    CreateItem,
    CreateResponse,
    DeleteItem,
    Heartbeat,
    RealtimeCommand,
    SignalTurn,
    UpdateSession,
)
from duplex_sdk.session import effects
from duplex_sdk.testing.scripted.model import Scripted
from duplex_sdk.testing.session_lab import SessionLab, tone

PLACES = 70
LARGE = "x" * 50_000


@pytest.fixture
def full() -> SessionLab:
    """An answer is spoken, decoding hangs, and behind it no place is left."""
    lab = SessionLab(
        Scripted({"script": {"turns": "commit", "answers": [{"ms": 60_000, "delay_ms": 0}]}}),
        limits=DuplexSessionRuntimeConfig(max_pending_commands_per_session=PLACES),
    )
    lab.speak(200)
    lab.send(Commit(response_create=True))
    lab.run(500)
    lab.faults[effects.DecodeAudio] = lambda effect: None
    lab.send(AppendAudio(audio=tone(20)))
    item = {"type": "message", "role": "system", "content": []}
    lab.send(*(CreateItem(item=item) for _ in range(PLACES)))
    assert lab.session.waiting_commands == PLACES
    return lab


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        (CancelResponse(), "response.done"),
        (ClearOutputAudio(), "response.done"),
        (CancelInput(), "response.done"),
        (BargeIn(), "response.done"),
        (AckPlayback(played_ms=10), "playback.acknowledged"),
        (Heartbeat(), "session.heartbeat_ack"),
        (CloseSession(), "session.closed"),
    ],
)
def test_what_never_waits_needs_no_place(
    full: SessionLab, command: RealtimeCommand, answer: str
) -> None:
    seen = len(full.events)
    full.send(command)
    assert answer in full.types(seen)
    assert "error" not in full.types(seen)


@pytest.mark.parametrize(
    "command", [AppendAudio(audio=tone(20)), Commit(), DeleteItem(item_id="item_x")]
)
def test_what_would_wait_is_refused(full: SessionLab, command: RealtimeCommand) -> None:
    seen = len(full.events)
    full.send(command)
    (error,) = (event.to_realtime() for event in full.events[seen:])
    assert error["error"]["code"] == "input_backpressure"


@pytest.mark.parametrize(
    "command",
    [
        CreateItem(item={"role": "user", "content": [{"type": "input_text", "text": LARGE}]}),
        UpdateSession(session={"instructions": LARGE}),
        CreateResponse(response={"conversation": LARGE}),
        SignalTurn(event="x", payload={"y": LARGE}),
        AppendText(text=LARGE),
    ],
)
def test_large_commands_that_wait_count_as_input(command: RealtimeCommand) -> None:
    lab = SessionLab(
        Scripted({"script": {"turns": "commit", "answers": [None]}}),
        limits=DuplexSessionRuntimeConfig(max_pending_input_bytes_per_session=20 * len(LARGE)),
    )
    lab.send(command)
    assert lab.session.input_bytes == 0
    kept: list[effects.DecodeAudio] = []
    lab.faults[effects.DecodeAudio] = kept.append
    lab.send(AppendAudio(audio=tone(20)))
    seen = len(lab.events)
    lab.send(*[command] * 30)
    codes = [event.to_realtime()["error"]["code"] for event in lab.events[seen:]]
    assert codes == ["input_backpressure"] * 11
    assert lab.session.input_bytes > 19 * len(LARGE)
    assert lab.session.moving_input_bytes == lab.session.input_bytes
    del lab.faults[effects.DecodeAudio]
    lab.carry_out(kept[0])
    lab.run(1000)
    assert lab.session.waiting_commands == 0
    assert lab.session.input_bytes <= len(tone(20)) * 2


@pytest.mark.parametrize("end", [CloseSession(), CancelInput()])
def test_what_large_commands_occupy_is_given_back_when_they_are_not_carried_out(
    end: RealtimeCommand,
) -> None:
    lab = SessionLab(Scripted({"script": {"turns": "commit", "answers": [None]}}))
    lab.faults[effects.DecodeAudio] = lambda effect: None
    lab.send(AppendAudio(audio=tone(20)), Commit(), UpdateSession(session={"instructions": LARGE}))
    lab.send(end)
    waits = lab.session.waiting_commands > 0
    assert (lab.session.input_bytes > len(LARGE)) == waits
    assert waits == isinstance(end, CancelInput)
