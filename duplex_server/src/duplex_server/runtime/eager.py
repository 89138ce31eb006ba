"""Run a coroutine at once, and as a task only from the first real wait on.

Most stage calls finish without waiting; a task for each would cost more than the call. Python 3.12
has eager tasks, 3.11 has not. Up to the first wait the coroutine has no current task, so it must
not use ``asyncio.timeout`` or task groups before that: true of a stage port, unknown of a plugin.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from typing import Any, Generic, TypeVar

__all__ = ["Rest", "run_to_first_wait"]

T = TypeVar("T")


class Rest(Generic[T]):
    """What is left of a coroutine that waits for its first future: awaitable once, in a task."""

    def __init__(self, coroutine: Coroutine[Any, Any, T], pending: Any) -> None:
        self._coroutine = coroutine
        self._pending = pending

    def __await__(self) -> Generator[Any, Any, T]:
        """Go on with it."""
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


def run_to_first_wait(coroutine: Coroutine[Any, Any, T]) -> T | Rest[T]:
    """The result if there was nothing to wait for, else the rest of it.

    Raises:
        Exception: what the coroutine raised before its first wait.
    """
    try:
        pending = coroutine.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    return Rest(coroutine, pending)
