from __future__ import annotations

import asyncio
import logging

import pytest
from duplex_server.runtime.timers import Timers
from patience import PATIENCE_S


class ManualLoop(asyncio.SelectorEventLoop):
    """Counts the timers it is asked for; none of them ever fires by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.timers = 0

    def call_later(self, delay, callback, *args, context=None):  # type: ignore[no-untyped-def]
        self.timers += 1
        return super().call_later(1e6, callback, *args, context=context)


@pytest.fixture
def loop():  # type: ignore[no-untyped-def]
    loop = ManualLoop()
    yield loop
    loop.close()


def timers(loop: ManualLoop) -> Timers:
    return Timers(loop, clock=lambda: 0.0)


def test_deadlines_fire_in_order_and_once(loop: ManualLoop) -> None:
    fired: list[str] = []
    subject = timers(loop)
    late, early = (subject.deadline(lambda name=name: fired.append(name)) for name in ("b", "a"))
    late.set(2.0)
    early.set(1.0)
    subject.run_due(0.9)
    assert fired == []
    subject.run_due(5.0)
    subject.run_due(9.0)
    assert fired == ["a", "b"]


def test_deadline_that_moved_on_does_not_fire_early(loop: ManualLoop) -> None:
    fired: list[float] = []
    subject = timers(loop)
    deadline = subject.deadline(lambda: fired.append(1))
    deadline.set(1.0)
    deadline.set(3.0)
    subject.run_due(2.0)
    assert fired == []
    subject.run_due(3.0)
    assert fired == [1]


def test_deadline_that_moved_up_fires_at_the_new_time_only(loop: ManualLoop) -> None:
    fired: list[int] = []
    subject = timers(loop)
    deadline = subject.deadline(lambda: fired.append(1))
    deadline.set(5.0)
    deadline.set(1.0)
    subject.run_due(1.0)
    subject.run_due(6.0)
    assert fired == [1]


def test_cleared_deadline_does_not_fire(loop: ManualLoop) -> None:
    fired: list[int] = []
    subject = timers(loop)
    deadline = subject.deadline(lambda: fired.append(1))
    deadline.set(1.0)
    deadline.set(None)
    subject.run_due(2.0)
    assert fired == []


def test_deadline_may_be_set_again_from_its_own_callback(loop: ManualLoop) -> None:
    fired: list[float] = []
    subject = timers(loop)
    deadline = subject.deadline(lambda: (fired.append(1), deadline.set(2.0)))
    deadline.set(1.0)
    subject.run_due(1.0)
    subject.run_due(2.0)
    assert fired == [1, 1]


def test_moving_a_deadline_on_arms_no_further_timer(loop: ManualLoop) -> None:
    subject = timers(loop)
    deadline = subject.deadline(lambda: None)
    for step in range(1000):
        deadline.set(1.0 + step)
    assert loop.timers == 1


def test_closed_deadline_lets_go_of_its_callback(loop: ManualLoop) -> None:
    fired: list[int] = []
    subject = timers(loop)
    deadline = subject.deadline(lambda: fired.append(1))
    deadline.set(1.0)
    deadline.close()
    deadline.set(1.0)
    subject.run_due(2.0)
    assert fired == []


def test_failing_callback_stops_no_other(
    loop: ManualLoop, caplog: pytest.LogCaptureFixture
) -> None:
    fired: list[int] = []
    subject = timers(loop)
    broken, sound = subject.deadline(lambda: 1 // 0), subject.deadline(lambda: fired.append(1))
    broken.set(1.0)
    sound.set(1.0)
    with caplog.at_level(logging.CRITICAL):
        subject.run_due(1.0)
    assert fired == [1]


async def test_a_real_loop_wakes_at_the_head() -> None:
    loop = asyncio.get_running_loop()
    subject = Timers(loop, clock=loop.time)
    fired = loop.create_future()
    subject.deadline(lambda: fired.set_result(loop.time())).set(loop.time() + 0.02)
    subject.deadline(lambda: None).set(loop.time() + 100)
    start = loop.time()
    assert await asyncio.wait_for(fired, PATIENCE_S) >= start + 0.019
    subject.close()
