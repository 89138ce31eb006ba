"""Run a coroutine at once, and as a task only from the first real wait on.

Most stage calls finish without waiting; a task for each would cost more than the call. Python 3.12
has eager tasks, 3.11 has not. Up to the first wait the coroutine has no current task, so it must
not use ``asyncio.timeout`` or task groups before that: true of a stage port, unknown of a plugin.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any, Generic, TypeVar

__all__ = ["run_eagerly"]

T = TypeVar("T")


class _Rest(Generic[T]):
    """Goes on with a coroutine that has yielded its first future already."""

    def __init__(self, coroutine: Coroutine[Any, Any, T], pending: Any) -> None:
        self._coroutine = coroutine
        self._pending = pending

    def __await__(self) -> Generator[Any, Any, T]:
        pending = self._pending
        while True:
            failure: BaseException | None = None
            try:
                sent = yield pending
            except BaseException as error:
                failure = error
            try:
                if failure is None:
                    pending = self._coroutine.send(sent)
                else:
                    pending = self._coroutine.throw(failure)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]


async def _finish(rest: _Rest[T]) -> T:
    return await rest


def run_eagerly(
    coroutine: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop
) -> T | asyncio.Task[T]:
    """The result if there was nothing to wait for, else a task that will have it.

    Raises:
        Exception: what the coroutine raised before its first wait.
    """
    try:
        pending = coroutine.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    return loop.create_task(_finish(_Rest(coroutine, pending)))
