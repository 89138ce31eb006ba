"""The shortest script that still breaks the same law."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from .schedule import Failure, Schedule, run

if TYPE_CHECKING:
    from .action import Action
    from .kinds import Kind

__all__ = ["shrink"]


def shrink(
    schedule: Schedule, failure: Failure, kinds: Mapping[str, Kind], *, tries: int = 2000
) -> tuple[Schedule, Failure]:
    """Leave actions out, first many and then few, as long as the law named stays broken.

    Args:
        schedule: one that fails.
        failure: how.
        kinds: of its clients.
        tries: runs at most.
    """
    best = schedule, failure

    def still_fails(shorter: Schedule) -> bool:
        nonlocal best, tries
        tries -= 1
        found = run(shorter, kinds)
        if found is None or found.law != failure.law:
            return False
        best = shorter, found
        return True

    size = max(1, len(schedule.actions) // 2)
    while tries > 0:
        if not _one_round(best[0], size, still_fails, lambda: tries > 0):
            if size == 1:
                break
            size = max(1, size // 2)
    return best


def _one_round(
    schedule: Schedule,
    size: int,
    still_fails: Callable[[Schedule], bool],
    may_try: Callable[[], bool],
) -> bool:
    """Whether one of the shorter schedules fails as well."""
    for actions in _without(schedule.actions, size):
        if not may_try():
            return False
        if still_fails(replace(schedule, actions=actions)):
            return True
    return False


def _without(actions: tuple[Action, ...], size: int) -> Iterator[tuple[Action, ...]]:
    # The last ones first: what follows a failure had no part in it.
    for start in reversed(range(0, len(actions), size)):
        yield actions[:start] + actions[start + size :]
