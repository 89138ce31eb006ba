from __future__ import annotations

import asyncio
from typing import Any

import pytest
from duplex_sdk.testing.awaited import awaited


async def at_once() -> str:
    return "at once"


async def yields() -> str:
    await asyncio.sleep(0)
    return "after others"


async def asks_for_the_loop() -> str:
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(None, lambda: "from a thread")


async def fails() -> str:
    await asyncio.sleep(0)
    raise RuntimeError("no such voice")


@pytest.mark.parametrize(
    ("hook", "said"),
    [(at_once, "at once"), (yields, "after others"), (asks_for_the_loop, "from a thread")],
)
def test_a_hook_is_waited_for_where_it_waits(hook: Any, said: str) -> None:
    assert awaited(hook) == said


async def test_inside_a_loop_too() -> None:
    assert awaited(asks_for_the_loop) == "from a thread"


def test_what_a_hook_raises_is_raised() -> None:
    with pytest.raises(RuntimeError, match="no such voice"):
        awaited(fails)


def test_a_plain_function_is_no_such_hook() -> None:
    with pytest.raises(TypeError, match="write it as `async def`"):
        awaited(lambda: {})  # type: ignore[arg-type, return-value]
