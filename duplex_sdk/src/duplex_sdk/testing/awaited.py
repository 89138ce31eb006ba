"""Hooks that are coroutines, asked where no loop runs."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from duplex_sdk.plugin import AppendPlanner, AppendRequest, DuplexAppendPlan

__all__ = ["awaited", "made_plan"]

T = TypeVar("T")


def awaited(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """What a coroutine returns. Most hooks wait for nothing and are done at once.

    One that waits is made once more and run on a loop of its own, in a thread, so that it may also
    be asked for inside another loop.

    Args:
        make: makes the coroutine; called again when it waits for something.

    Raises:
        TypeError: it makes no coroutine.
        Exception: whatever the coroutine raises.
    """
    coroutine = make()
    if not inspect.iscoroutine(coroutine):
        raise TypeError(f"it returned a {type(coroutine).__name__}: write it as `async def`")
    try:
        coroutine.send(None)
    except StopIteration as done:
        value: T = done.value
        return value
    except RuntimeError:
        pass  # what asks for the running loop finds none here
    else:
        coroutine.close()
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(lambda: asyncio.run(make())).result()


def made_plan(planner: AppendPlanner, request: AppendRequest) -> DuplexAppendPlan:
    """The plan that a running engine would make, waited for where the planner waits.

    Raises:
        Exception: whatever the plugin raises.
    """
    if type(planner).prepare_append_plan is AppendPlanner.prepare_append_plan:
        return planner.plan_append(request)
    return awaited(lambda: planner.prepare_append_plan(request))
