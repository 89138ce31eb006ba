from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest
from duplex_server.runtime.crossing import Crossing
from duplex_server.runtime.eager import Rest, run_to_first_wait
from duplex_server.runtime.offload import Offload, Outcome
from patience import PATIENCE_S


class OtherLoop:
    """A loop on a thread of its own."""

    def __enter__(self) -> asyncio.AbstractEventLoop:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        return self.loop

    def __exit__(self, *error: object) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


async def test_items_of_many_threads_all_arrive_in_the_order_of_each() -> None:
    seen: list[tuple[int, int]] = []
    done = threading.Event()

    def deliver(item: tuple[int, int]) -> None:
        seen.append(item)
        if len(seen) == 4000:
            done.set()

    with OtherLoop() as loop:
        crossing: Crossing[tuple[int, int]] = Crossing(loop, deliver)

        def put(sender: int) -> None:
            for number in range(1000):
                crossing.put((sender, number))

        threads = [threading.Thread(target=put, args=(sender,)) for sender in range(4)]
        for thread in threads:
            thread.start()
        assert await asyncio.to_thread(done.wait, 10)
        for thread in threads:
            thread.join()
    for sender in range(4):
        assert [number for who, number in seen if who == sender] == list(range(1000))


async def test_items_put_in_one_turn_share_one_drain() -> None:
    drains: list[int] = []
    seen: list[int] = []
    loop = asyncio.get_running_loop()
    crossing: Crossing[int] = Crossing(loop, seen.append, lambda: drains.append(len(seen)))
    for number in range(5):
        crossing.put(number)
    assert seen == []
    await asyncio.sleep(0)
    assert drains == [5]


async def test_failing_delivery_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[int] = []

    def deliver(number: int) -> None:
        seen.append(1 // number)

    crossing: Crossing[int] = Crossing(asyncio.get_running_loop(), deliver)
    with caplog.at_level(logging.CRITICAL):
        for number in (1, 0, 1):
            crossing.put(number)
        await asyncio.sleep(0)
    assert seen == [1, 1]


async def test_closed_crossing_says_that_it_takes_nothing() -> None:
    seen: list[int] = []
    crossing: Crossing[int] = Crossing(asyncio.get_running_loop(), seen.append)
    crossing.put(1)
    crossing.close()
    assert not crossing.put(2)
    await asyncio.sleep(0)
    assert seen == []


async def test_crossing_takes_no_more_than_its_limit_until_some_arrived() -> None:
    seen: list[int] = []
    crossing: Crossing[int] = Crossing(asyncio.get_running_loop(), seen.append, limit=2)
    assert [crossing.put(number) for number in range(3)] == [True, True, False]
    assert not crossing.closed
    await asyncio.sleep(0)
    assert crossing.put(3)
    await asyncio.sleep(0)
    assert seen == [0, 1, 3]


def test_crossing_to_a_loop_that_is_gone_takes_nothing() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    crossing: Crossing[int] = Crossing(loop, lambda item: None)
    crossing.put(1)
    assert not crossing.put(2)


async def test_coroutine_that_never_waits_needs_no_task() -> None:
    async def work() -> int:
        return 7

    assert run_to_first_wait(work()) == 7


def as_task(rest: Any) -> asyncio.Task[Any]:
    assert isinstance(rest, Rest)

    async def go_on() -> Any:
        return await rest

    return asyncio.create_task(go_on())


async def test_coroutine_that_waits_goes_on_as_a_task() -> None:
    loop = asyncio.get_running_loop()
    first, second = loop.create_future(), loop.create_future()

    async def work() -> int:
        return await first + await second

    task = as_task(run_to_first_wait(work()))
    first.set_result(1)
    await asyncio.sleep(0)
    second.set_result(2)
    assert await task == 3


async def test_eager_coroutine_can_be_cancelled_and_sees_it() -> None:
    loop = asyncio.get_running_loop()
    seen: list[str] = []

    async def work() -> None:
        try:
            await loop.create_future()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    task = as_task(run_to_first_wait(work()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cancelled"]


async def test_eager_coroutine_survives_a_failure_that_it_handles() -> None:
    loop = asyncio.get_running_loop()
    failing, sound = loop.create_future(), loop.create_future()

    async def work() -> str:
        try:
            await failing
        except ValueError:
            return await sound
        return "not reached"

    task = as_task(run_to_first_wait(work()))
    failing.set_exception(ValueError("no"))
    sound.set_result("handled")
    assert await task == "handled"


async def test_offloaded_work_is_reported_on_the_loop() -> None:
    loop = asyncio.get_running_loop()
    offload = Offload(loop)
    outcomes: list[Outcome[int]] = []
    threads: list[str] = []
    done = loop.create_future()

    def report(outcome: Outcome[int]) -> None:
        outcomes.append(outcome)
        threads.append(threading.current_thread().name)
        if len(outcomes) == 2:
            done.set_result(None)

    def fail() -> int:
        raise SystemExit(3)

    offload.run(lambda: 5, report)
    offload.run(fail, report)
    await asyncio.wait_for(done, PATIENCE_S)
    offload.close()
    assert {outcome.value for outcome in outcomes} == {5, None}
    assert any(isinstance(outcome.error, SystemExit) for outcome in outcomes)
    assert set(threads) == {threading.current_thread().name}


async def test_hung_work_leaves_the_other_threads_free() -> None:
    loop = asyncio.get_running_loop()
    offload = Offload(loop, threads=2)
    gate = threading.Event()
    done = loop.create_future()
    offload.run(gate.wait, lambda outcome: None)
    offload.run(lambda: 1, lambda outcome: done.set_result(outcome.value))
    assert await asyncio.wait_for(done, PATIENCE_S) == 1
    gate.set()
    offload.close()
