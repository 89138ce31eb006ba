from __future__ import annotations

import asyncio

import pytest
from duplex_sdk.testing.cancel_points import CancelPoint, Moment, cancelled_at


async def steps(done: list[str]) -> int:
    done.append("begun")
    for name in ("a", "b"):
        await asyncio.sleep(0)
        done.append(name)
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(arrive, future)
    return await future


def arrive(future: asyncio.Future[int]) -> None:
    if not future.done():
        future.set_result(7)


@pytest.mark.parametrize("moment", Moment)
async def test_each_wait_is_a_place_and_the_last_run_is_whole(moment: Moment) -> None:
    seen: list[list[str]] = []
    for place in range(1, 5):
        done: list[str] = []
        swept = await cancelled_at(steps(done), place, moment)
        seen.append(done)
        assert swept.reached == (place < 4)
    assert seen == [["begun"], ["begun", "a"], ["begun", "a", "b"], ["begun", "a", "b"]]
    assert (swept.result, swept.error) == (7, None)


@pytest.mark.parametrize(("moment", "there"), [(Moment.WAITING, False), (Moment.ARRIVED, True)])
async def test_what_was_waited_for_is_there_or_called_off(moment: Moment, there: bool) -> None:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[int] = loop.create_future()
    loop.call_later(0.001, arrive, future)

    async def work() -> int:
        return await future

    swept = await cancelled_at(work(), 1, moment)
    assert isinstance(swept.error, asyncio.CancelledError)
    assert (future.done() and not future.cancelled()) == there


async def test_a_coroutine_that_swallows_the_cancel_goes_on_to_its_end() -> None:
    async def stubborn() -> str:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        return "went on"

    swept = await cancelled_at(stubborn(), 1, Moment.WAITING)
    assert (swept.reached, swept.result) == (True, "went on")


async def test_an_error_is_handed_back() -> None:
    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("no")

    swept = await cancelled_at(fails(), 2, Moment.WAITING)
    assert not swept.reached
    assert isinstance(swept.error, ValueError)


async def test_waits_of_several_tasks_are_counted_together() -> None:
    point = CancelPoint(3, Moment.WAITING)
    done: list[list[str]] = [[], []]
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(point.watching(steps(each))) for each in done]
    await asyncio.wait(tasks)
    assert [task.cancelled() for task in tasks] == [True, False]
