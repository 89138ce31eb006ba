"""What must hold of the table of sessions: each law has a name."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from duplex_sdk.session.session_table import SessionTable, SlotState
from duplex_sdk.session.table_messages import (
    AnswerCaller,
    CleanupTried,
    CloseAsked,
    ControlAsked,
    ForgetSession,
    OpenAsked,
    ResumeAsked,
    SessionEnded,
    StartSession,
)

if TYPE_CHECKING:
    from duplex_sdk.session.table_messages import TableEffect, TableInput

__all__ = ["TableWatch"]

_QUEUED = frozenset({SlotState.OPEN, SlotState.OPEN_DETACHED})


class TableWatch:
    """Holds the laws against every step of a table."""

    def __init__(self, table: SessionTable) -> None:
        self._table = table
        self._asked: Counter[str] = Counter()
        self._queues: dict[str, list[str]] = {}
        self._started: set[str] = set()
        self._cleaned: set[str] = set()
        self._expected: dict[str, int] = {}
        self._resumed: dict[tuple[str, int], str] = {}
        self._generations: dict[str, int] = {}

    def before(self, item: TableInput) -> None:
        """The table is about to take an input."""
        if isinstance(item, ControlAsked):
            self._asked[item.control_id] += 1
            if isinstance(item, ResumeAsked):
                self._expected[item.control_id] = item.expected_generation
            state = self._table.state(item.session_id)
            waits = state is SlotState.ADMITTING and not isinstance(item, CloseAsked | OpenAsked)
            if state in _QUEUED or waits:
                self._queues.setdefault(item.session_id, []).append(item.control_id)
        elif (isinstance(item, SessionEnded) and item.released) or (
            isinstance(item, CleanupTried) and item.ok
        ):
            self._cleaned.add(item.session_id)

    def after(self, effects: tuple[TableEffect, ...]) -> None:
        """The table took it.

        Raises:
            AssertionError: a law is broken; the message names it.
        """
        self.slots_stay_within_their_number()
        for effect in effects:
            if isinstance(effect, AnswerCaller):
                self.operations_are_answered_once_and_in_order(effect)
                self.closing_is_never_refused(effect)
                self.one_resume_of_a_generation_wins(effect)
                self.generations_never_go_back(effect)
                self.a_refused_open_leaves_nothing(effect)
            elif isinstance(effect, StartSession):
                self._started.add(effect.session_id)
            elif isinstance(effect, ForgetSession):
                self.a_slot_is_freed_after_its_cleanup(effect)

    def slots_stay_within_their_number(self) -> None:
        """83: admitted, living and ending sessions together."""
        slots = self._table.counts().slots
        assert slots <= self._table.max_sessions, f"slots_stay_within_their_number: {slots}"

    def a_slot_is_freed_after_its_cleanup(self, effect: ForgetSession) -> None:
        """84: and never while the stages may still hold something."""
        started = effect.session_id in self._started
        assert not started or effect.session_id in self._cleaned, (
            f"a_slot_is_freed_after_its_cleanup: {effect.session_id} was not cleaned up"
        )

    def a_refused_open_leaves_nothing(self, effect: AnswerCaller) -> None:
        """85: neither a session nor a slot."""
        if effect.operation == "open" and effect.fault is not None:
            known = self._table.state(effect.session_id)
            assert effect.fault.code == "session_exists" or known is SlotState.ABSENT, (
                f"a_refused_open_leaves_nothing: {effect.session_id} is {known}"
            )

    def operations_are_answered_once_and_in_order(self, effect: AnswerCaller) -> None:
        """89: those of one session."""
        name = "operations_are_answered_once_and_in_order"
        assert self._asked[effect.control_id], f"{name}: {effect.control_id} was not asked"
        self._asked[effect.control_id] -= 1
        queue = self._queues.get(effect.session_id, [])
        if effect.control_id in queue:
            assert queue[0] == effect.control_id, f"{name}: {queue[0]} was overtaken"
            queue.pop(0)

    def closing_is_never_refused(self, effect: AnswerCaller) -> None:
        """82: however often it is asked for, and of whatever session."""
        if effect.operation == "close":
            assert effect.fault is None, f"closing_is_never_refused: {effect.fault}"

    def one_resume_of_a_generation_wins(self, effect: AnswerCaller) -> None:
        """75, 76: a resume asked again with its own id is the same one."""
        if effect.operation != "resume":
            return
        if effect.fault is not None:
            known = effect.control_id in self._resumed.values()
            assert not known or effect.fault.code != "session_resume_conflict", (
                "a_resume_asked_again_is_the_same: it was refused"
            )
            return
        assert effect.generation is not None
        expected = self._expected[effect.control_id]
        assert effect.generation == expected + 1, (
            f"a_resume_needs_the_newest_generation: {expected} made it {effect.generation}"
        )
        winner = self._resumed.setdefault((effect.session_id, effect.generation), effect.control_id)
        assert winner == effect.control_id, "one_resume_of_a_generation_wins: two did"

    def generations_never_go_back(self, effect: AnswerCaller) -> None:
        """74: as callers see them."""
        if effect.generation is None or effect.fault is not None or effect.operation == "close":
            return
        known = self._generations.get(effect.session_id, 0)
        assert effect.generation >= known, f"generations_never_go_back: {effect.generation}"
        self._generations[effect.session_id] = effect.generation

    def at_the_end(self) -> None:
        """87: no session, no operation, no waiting caller is left.

        Raises:
            AssertionError: something is.
        """
        assert self._table.empty, "nothing_is_left: a session holds its slot"
        waiting = sorted(self._asked.elements())
        assert not waiting, f"nothing_is_left: {waiting} were never answered"
