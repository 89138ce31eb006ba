from __future__ import annotations

from typing import Literal

import pytest
from duplex_sdk.session.late_units import LateUnits, QueuedUnit, decide_late_units
from hypothesis import given
from hypothesis import strategies as st

Policy = Literal["skip_silence", "drop_oldest", "fail"]


def unit(key: int, at: float, *, speech: bool = True, droppable: bool = True) -> QueuedUnit:
    return QueuedUnit(key, at, speech, droppable)


def dropped(waiting: list[QueuedUnit], now: float, policy: Policy) -> tuple[int, ...]:
    return decide_late_units(waiting, now, policy=policy, max_lag_ms=500).drop


def test_within_the_limit_nothing_is_dropped() -> None:
    waiting = [unit(1, 0.0, speech=False), unit(2, 0.08, speech=False)]
    for policy in ("skip_silence", "drop_oldest", "fail"):
        verdict = decide_late_units(waiting, 0.5, policy=policy, max_lag_ms=500)
        assert (verdict.drop, verdict.overload, verdict.lag_ms) == ((), False, 500.0)


def test_silence_goes_first() -> None:
    waiting = [unit(1, 0.0), unit(2, 0.1, speech=False), unit(3, 0.2), unit(4, 0.9, speech=False)]
    assert dropped(waiting, 1.0, "skip_silence") == (2,)


def test_beyond_twice_the_limit_speech_goes_too() -> None:
    waiting = [unit(1, 0.0), unit(2, 0.2), unit(3, 0.9)]
    assert dropped(waiting, 1.1, "skip_silence") == (1,)


def test_the_oldest_go_until_the_lag_is_within_the_limit() -> None:
    waiting = [unit(1, 0.0), unit(2, 0.4), unit(3, 0.6)]
    assert dropped(waiting, 1.0, "drop_oldest") == (1, 2)


def test_a_unit_that_ends_a_turn_is_never_dropped() -> None:
    waiting = [unit(1, 0.0, droppable=False), unit(2, 0.1)]
    assert dropped(waiting, 9.0, "drop_oldest") == (2,)


def test_a_policy_can_give_the_session_up() -> None:
    verdict = decide_late_units([unit(1, 0.0)], 0.6, policy="fail", max_lag_ms=500)
    assert verdict.overload
    assert verdict.drop == ()


def test_nothing_waiting_is_no_lag() -> None:
    assert decide_late_units([], 9.0, policy="fail", max_lag_ms=1).lag_ms == 0.0


@given(
    waits=st.lists(st.tuples(st.floats(0, 3), st.booleans()), max_size=30),
    policy=st.sampled_from(["skip_silence", "drop_oldest"]),
)
def test_lag_stays_bounded_by_any_dropping_policy(
    waits: list[tuple[float, bool]], policy: Policy
) -> None:
    ordered = sorted(waits, key=lambda wait: wait[0])
    waiting = [unit(n, at, speech=speech) for n, (at, speech) in enumerate(ordered)]
    drop = dropped(waiting, 3.0, policy)
    assert list(drop) == sorted(drop)
    bound = 1.0 if policy == "skip_silence" else 0.5
    for kept in (u for u in waiting if u.key not in drop):
        assert 3.0 - kept.queued_at <= bound + 1e-9


@pytest.mark.parametrize(("took", "late"), [(0.08, False), (0.081, True)])
def test_a_unit_is_late_when_it_took_longer_than_a_period(took: float, late: bool) -> None:
    counts = LateUnits(0.08)
    assert counts.answered(0.0, took) is late
    assert counts.counts.late == late


def test_news_is_told_once() -> None:
    counts = LateUnits(0.08)
    assert counts.take_news() is None
    counts.answered(0.0, 1.0)
    verdict = decide_late_units([unit(1, 0.0)], 1.0, policy="drop_oldest", max_lag_ms=500)
    counts.observe(verdict)
    news = counts.take_news()
    assert news is not None
    assert (news.late, news.dropped, news.worst_lag_ms) == (1, 1, 1000.0)
    assert counts.take_news() is None
