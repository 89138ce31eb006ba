"""What a unit and an idle session cost the core: counted, not timed."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, TypeGuard

import pytest
from duplex_sdk.plugin import DuplexSessionConfig, DuplexSessionRuntimeConfig
from duplex_sdk.protocol.duplex import (
    AckPlayback,
    AppendAudio,
    AudioDelta,
    DuplexEvent,
    DuplexRawEvent,
)
from duplex_sdk.session import DuplexEngineSession, effects, inputs
from duplex_sdk.testing.scripted.model import Scripted
from duplex_sdk.testing.seeded_ids import SeededIds
from duplex_sdk.testing.session_lab import SessionLab

from duplex_sdk import session as session_package

CORE = str(Path(session_package.__file__).parent)
UNIT_MS = 80
TALK = {
    "turns": "native",
    "unit_ms": UNIT_MS,
    "yield_after_ms": None,
    "at": [{"ms": 0, "say": {"ms": 3_600_000, "text": "x", "delay_ms": 0, "words": False}}],
}


@contextmanager
def counted() -> Iterator[list[str]]:
    """The names of the core's own functions as they are called."""
    called: list[str] = []

    def note(frame: FrameType, event: str, arg: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(CORE):
            called.append(frame.f_code.co_qualname)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield called
    finally:
        sys.setprofile(before)


@pytest.fixture
def talking() -> SessionLab:
    """A session whose model answers each unit by as much speech."""
    lab = SessionLab(Scripted({"script": TALK}), {"auto_response": True})
    lab.pause(40 * UNIT_MS)
    assert sum(isinstance(event, AudioDelta) for event in lab.events) > 30
    return lab


def is_late_news(event: DuplexEvent) -> TypeGuard[DuplexRawEvent]:
    return isinstance(event, DuplexRawEvent) and event.name == "units_late"


def unit(lab: SessionLab) -> list[str]:
    """Send a unit, let its answer come, and say what was called meanwhile."""
    silence = AppendAudio(audio=bytes(lab.capabilities.input_sample_rate_hz * 2 * UNIT_MS // 1000))
    before = sum(isinstance(event, AudioDelta) for event in lab.events)
    with counted() as called:
        lab.send(silence)
        lab.run(UNIT_MS)
    assert sum(isinstance(event, AudioDelta) for event in lab.events) == before + 1
    return called


def test_a_unit_and_its_answer_take_so_many_calls_of_the_core(talking: SessionLab) -> None:
    # 352 once. Whoever adds to it decides that every unit of every session pays for it.
    counts = [len(unit(talking)) for _ in range(20)]
    assert sorted(counts)[10] <= 185


def test_nobody_looks_at_what_no_time_and_no_speech_has_moved(talking: SessionLab) -> None:
    called = unit(talking)
    looks = {name for name in called if name.rsplit(".", 1)[-1] in ("look", "settle_speech")}
    assert looks == set()
    assert called.count("LifeFlow.arm") <= 2


def test_a_burst_of_late_units_is_looked_at_once(talking: SessionLab) -> None:
    held: list[effects.SubmitUnit] = []
    talking.faults[effects.SubmitUnit] = held.append
    talking.pause(5 * UNIT_MS)
    del talking.faults[effects.SubmitUnit]
    talking.run(UNIT_MS)
    with counted() as called:
        talking.carry_out(held[0])
    assert called.count("LateFlow.accepted") == 5
    assert called.count("LateFlow.look") <= 2
    assert [lag.lag_ms > UNIT_MS for lag in talking.lags] == [True, False]
    # What was late and is not told yet is told a second later.
    talking.run(1500)
    told = [event.event["late"] for event in talking.events if is_late_news(event)]
    assert told == [1, 4]


def test_the_session_object_is_one_object_while_nothing_of_it_changes(talking: SessionLab) -> None:
    session = talking.session
    shown = session.public_session
    assert session.public_session is shown
    with pytest.raises(TypeError, match="cannot be changed"):
        shown["state"] = "closed"
    assert shown["playback"]["sent_ms"] > 0
    unit(talking)
    later = session.public_session
    assert later is not shown
    assert later["playback"]["sent_ms"] == shown["playback"]["sent_ms"] + UNIT_MS
    response_id = later["active_response_id"]
    talking.send(AckPlayback(played_ms=40, response_id=response_id))
    assert session.public_session["playback"]["played_ms"] == 40


def test_an_idle_session_takes_so_much_memory_with_its_first_event_unread() -> None:
    plugin = Scripted({"script": TALK})
    capabilities, pipeline = plugin.capabilities(max_sessions=1), plugin.pipeline()
    limits, ids = DuplexSessionRuntimeConfig(), SeededIds(1)

    def opened() -> tuple[DuplexEngineSession, object]:
        config = DuplexSessionConfig.from_realtime({}, capabilities=capabilities)
        session = DuplexEngineSession(
            ids.session(),
            config=config,
            capabilities=capabilities,
            plugin=plugin,
            pipeline=pipeline,
            limits=limits,
            runtime_config={},
            ids=ids,
            wall_time=0.0,
            now=0.0,
        )
        return session, session.handle(inputs.Started(), 0.0)

    kept = [opened() for _ in range(10)]
    gc.collect()
    tracemalloc.start()
    try:
        kept += [opened() for _ in range(100)]
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0] / 100
    finally:
        tracemalloc.stop()
    assert taken < 15 * 1024, f"{taken / 1024:.1f} KiB"
