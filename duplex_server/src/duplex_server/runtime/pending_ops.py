"""Effects that take time: each gets exactly one outcome, whatever becomes of the work."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from duplex_sdk.errors import DuplexError
from duplex_sdk.session.inputs import Fault, Input

from duplex_server.stages import RequestCancelledError

from .eager import Rest, run_to_first_wait

if TYPE_CHECKING:
    from .offload import Outcome
    from .services import EngineServices

__all__ = ["OpKind", "PendingOps"]

logger = logging.getLogger(__name__)

E = TypeVar("E")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OpKind:
    """How the outcome of one kind of effect is said.

    Attributes:
        name: for logs.
        code: of the fault when the work fails.
        failed: makes the outcome of an op and a fault.
    """

    name: str
    code: str
    failed: Callable[[int, Fault], Input]


@dataclass(slots=True)
class _Pending:
    kind: OpKind
    due: float
    task: asyncio.Task[Any] | None = None


class PendingOps:
    """The ops of one session that are under way.

    All of them have the same time limit, so the oldest is always the next one due and one deadline
    serves them all.

    Args:
        services: the engine's.
        settle: takes the outcome.
    """

    __slots__ = ("_deadline", "_pending", "_services", "_settle")

    def __init__(self, services: EngineServices, settle: Callable[[Input], None]) -> None:
        self._services = services
        self._settle = settle
        self._pending: dict[int, _Pending] = {}
        self._deadline = services.timers.deadline(self._overdue)

    def __len__(self) -> int:
        return len(self._pending)

    def run_now(self, op: int, kind: OpKind, work: Callable[[E], Input | None], effect: E) -> None:
        """Work that does not wait: its outcome, or that it failed; None: it handed the op on."""
        try:
            outcome = work(effect)
        except Exception as error:
            outcome = self._failure(op, kind, error)
        if outcome is not None:
            self._settle(outcome)

    def run_eagerly(
        self, op: int, kind: OpKind, work: Coroutine[Any, Any, T], done: Callable[[T], Input]
    ) -> None:
        """A coroutine that mostly has nothing to wait for.

        Its outcome is told before anything that the work set off can come in.
        """
        try:
            result = run_to_first_wait(work)
        except Exception as error:
            self._settle(self._failure(op, kind, error))
            return
        if isinstance(result, Rest):
            task = self._services.loop.create_task(self._telling(op, result, done))
            self._watch(op, kind, task, done)
        else:
            self._settle(done(result))

    async def _telling(self, op: int, work: Awaitable[T], done: Callable[[T], Input]) -> T:
        """The work that had to wait, and its outcome in the same turn of the loop.

        A task's end is told one turn later: too late for a unit whose stage is quick, since what
        the stage says, and that it is idle again, would be there before the unit was accepted.
        """
        result = await work
        if self._finish(op):
            self._settle(done(result))
        return result

    def run_task(
        self, op: int, kind: OpKind, work: Coroutine[Any, Any, T], done: Callable[[T], Input]
    ) -> None:
        """A coroutine of somebody else's, as a task."""
        self._watch(op, kind, self._services.loop.create_task(work), done)

    def run_thread(self, op: int, kind: OpKind, work: Callable[[], Input]) -> None:
        """Slow synchronous work, on a thread."""
        self.run_elsewhere(op, kind, lambda report: self._services.offload.run(work, report))

    def run_elsewhere(
        self, op: int, kind: OpKind, start: Callable[[Callable[[Outcome[Any]], None]], None]
    ) -> None:
        """Work that ``start`` hands on with where to report what became of it, on the loop."""
        self._begin(op, kind)
        start(lambda outcome: self._reported(op, kind, outcome))

    def close(self) -> None:
        """Call everything off; no outcome is reported any more."""
        self._deadline.close()
        self._settle = _ignore
        pending, self._pending = self._pending, {}
        for each in pending.values():
            if each.task is not None:
                each.task.cancel()

    def _begin(self, op: int, kind: OpKind) -> _Pending:
        pending = _Pending(kind, self._services.clock() + self._services.call_timeout_s)
        self._pending[op] = pending
        if self._deadline.at is None:
            self._deadline.set(pending.due)
        return pending

    def _watch(
        self, op: int, kind: OpKind, task: asyncio.Task[T], done: Callable[[T], Input]
    ) -> None:
        self._begin(op, kind).task = task
        task.add_done_callback(lambda finished: self._task_done(op, kind, finished, done))

    def _task_done(
        self, op: int, kind: OpKind, task: asyncio.Task[T], done: Callable[[T], Input]
    ) -> None:
        error = None if task.cancelled() else task.exception()
        if not self._finish(op):
            return
        if task.cancelled():
            fault = Fault(kind.code, f"{kind.name} was called off")
            self._settle(kind.failed(op, fault))
        elif error is not None:
            self._settle(self._failure(op, kind, error))
        else:
            self._settle(done(task.result()))

    def _reported(self, op: int, kind: OpKind, outcome: Outcome[Input]) -> None:
        if not self._finish(op):
            return
        if outcome.value is None:
            error = outcome.error or RuntimeError(f"{kind.name} gave nothing")
            self._settle(self._failure(op, kind, error))
        else:
            self._settle(outcome.value)

    def _finish(self, op: int) -> bool:
        return self._pending.pop(op, None) is not None

    def _overdue(self) -> None:
        now = self._services.clock()
        late = [(op, each) for op, each in self._pending.items() if each.due <= now]
        for op, each in late:
            if not self._finish(op):
                continue
            if each.task is not None:
                each.task.cancel()
            fault = Fault("timeout", f"{each.kind.name} took too long")
            logger.warning("%s of a session took too long and was given up", each.kind.name)
            self._settle(each.kind.failed(op, fault))
        oldest = next(iter(self._pending.values()), None)
        self._deadline.set(None if oldest is None else oldest.due)

    def _failure(self, op: int, kind: OpKind, error: BaseException) -> Input:
        if isinstance(error, RequestCancelledError):
            # The session's own doing: a cancel overtook the work, and nobody waits for its outcome.
            logger.debug("%s of a session was called off: %s", kind.name, error)
        elif isinstance(error, DuplexError):
            logger.warning("%s of a session failed: %s", kind.name, error)
        else:
            logger.warning("%s of a session failed", kind.name, exc_info=error)
        return kind.failed(op, Fault(getattr(error, "code", kind.code), str(error) or kind.name))


def _ignore(item: Input) -> None:
    """What a closed session's ops report to: a reference to the session would be a cycle."""
