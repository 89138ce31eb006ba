"""A model that is too slow for its caller: lag stays bounded, and everybody hears of it."""

from __future__ import annotations

from typing import Any

import pytest
from duplex_sdk.plugin import DuplexSessionRuntimeConfig
from duplex_sdk.protocol.duplex import AppendAudio
from duplex_sdk.session import effects
from duplex_sdk.testing.scripted.model import Scripted
from duplex_sdk.testing.session_lab import SessionLab, tone

UNIT_MS = 80


class SlowStage:
    """A stage that takes a unit only every so often; the lab's own stage does the work."""

    def __init__(self, policy: Any, unit_takes_ms: float, turns: str = "native") -> None:
        script = {"turns": turns, "unit_ms": UNIT_MS}
        self.lab = SessionLab(
            Scripted({"script": script}),
            {"auto_response": True},
            limits=DuplexSessionRuntimeConfig(late_unit_policy=policy),
        )
        self._takes_ms = unit_takes_ms
        self._free_at_ms = 0.0
        self._waiting: list[effects.SubmitUnit] = []
        self.longest_ms = 0.0
        self.lab.faults[effects.SubmitUnit] = self._waiting.append

    def listen(self, ms: int, *, level: float, is_speech: bool) -> None:
        """A microphone in real time."""
        for _ in range(0, ms, 20):
            audio = tone(20, level=level)
            self.lab.send(AppendAudio(audio=audio, is_speech=is_speech))
            self.lab.run(20)
            self._take()

    def _take(self) -> None:
        now_ms = self.lab.now * 1000
        while self._waiting and self._free_at_ms <= now_ms:
            self._free_at_ms = max(self._free_at_ms, now_ms - 20) + self._takes_ms
            self.lab.carry_out(self._waiting.pop(0))
        queue = self.lab.session._flows.appends.under_way
        oldest = min((each.queued_at for each in queue if not each.given_up), default=self.lab.now)
        self.longest_ms = max(self.longest_ms, now_ms - oldest * 1000)

    @property
    def news(self) -> list[dict[str, Any]]:
        """What the client was told of lateness."""
        return [
            event.to_realtime()["event"]
            for event in self.lab.events
            if event.to_realtime()["type"] == "duplex.units_late"
        ]


def test_b19_a_model_at_a_tenth_over_its_period_drops_silence_and_never_lags_more() -> None:
    stage = SlowStage("skip_silence", 1.1 * UNIT_MS)
    stage.listen(60_000, level=0.0, is_speech=False)
    assert sum(each["dropped"] for each in stage.news) >= 50
    assert stage.longest_ms < 500 + 2 * UNIT_MS
    assert stage.news[-1]["policy"] == "skip_silence"


def test_speech_is_kept_until_the_lag_is_twice_the_limit() -> None:
    stage = SlowStage("skip_silence", 1.1 * UNIT_MS)
    stage.listen(60_000, level=0.3, is_speech=True)
    dropped = sum(each["dropped"] for each in stage.news)
    assert 0 < dropped < 80
    assert 500 < stage.longest_ms < 1000 + 2 * UNIT_MS


def test_drop_oldest_drops_speech_at_once() -> None:
    stage = SlowStage("drop_oldest", 2 * UNIT_MS)
    stage.listen(10_000, level=0.3, is_speech=True)
    assert sum(each["dropped"] for each in stage.news) > 40
    assert stage.longest_ms < 500 + 3 * UNIT_MS


def test_fail_closes_the_session_for_overload() -> None:
    stage = SlowStage("fail", 3 * UNIT_MS)
    stage.listen(10_000, level=0.3, is_speech=True)
    assert stage.lab.session.closed
    assert stage.lab.events[-1].to_realtime()["reason"] == "overload"


def test_clients_are_told_at_most_once_a_second() -> None:
    stage = SlowStage("drop_oldest", 2 * UNIT_MS)
    stage.listen(10_000, level=0.3, is_speech=True)
    assert 5 <= len(stage.news) <= 10


def test_a_model_that_keeps_up_is_never_late() -> None:
    stage = SlowStage("fail", 0.5 * UNIT_MS)
    stage.listen(10_000, level=0.3, is_speech=True)
    assert not stage.news
    assert not stage.lab.lags


def test_units_given_up_take_no_number_and_hold_no_bytes() -> None:
    stage = SlowStage("drop_oldest", 2 * UNIT_MS)
    stage.listen(10_000, level=0.3, is_speech=True)
    for _ in range(20):
        stage._take()
        stage.lab.run(200)
    numbers = [submission.seq for submission in stage.lab.submitted]
    assert numbers == list(range(1, len(numbers) + 1))
    buffered = stage.lab.session.state.model_state.audio_buffer.pending_byte_count
    assert stage.lab.session.input_bytes == buffered


def test_whoever_watches_hears_when_the_model_caught_up() -> None:
    stage = SlowStage("drop_oldest", 2 * UNIT_MS)
    stage.listen(5_000, level=0.3, is_speech=True)
    for _ in range(20):
        stage._take()
        stage.lab.run(200)
    assert stage.lab.lags[0].lag_ms > 0
    assert stage.lab.lags[-1] == effects.TellLag(0, 0.0)


@pytest.mark.parametrize("policy", ["skip_silence", "drop_oldest", "fail"])
def test_a_model_of_whole_turns_is_never_late(policy: str) -> None:
    stage = SlowStage(policy, 10 * UNIT_MS, turns="commit")
    stage.listen(5_000, level=0.3, is_speech=True)
    assert not stage.news
    assert not stage.lab.session.closed
