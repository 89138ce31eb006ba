"""One step of a session as a law sees it: ledgers before and after, what was asked, its past."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from duplex_sdk.protocol.duplex import (
    Commit,
    CreateItem,
    ErrorEvent,
    ItemDeleted,
    ResponseDone,
)
from duplex_sdk.session import effects, inputs

from .hearing import Hearing
from .moved import moved
from .response_trace import ResponseTraces
from .signs import OUTCOMES, WORK, signs_of_effect, signs_of_item
from .tool_life import ToolLife

if TYPE_CHECKING:
    from duplex_sdk.plugin import AppendRequest, DuplexSessionConfig, DuplexStageSubmission
    from duplex_sdk.protocol.duplex import DuplexEvent, RealtimeCommand
    from duplex_sdk.session import DuplexEngineSession
    from duplex_sdk.session.append_sequence import AppendReservation
    from duplex_sdk.session.state import SessionState

    from .snapshot import Snapshot

__all__ = ["Life", "Rest", "Step", "Unit", "ends_turn", "written"]


class Step:
    """One call of ``handle``, and what came before it.

    Attributes:
        item: the input.
        asked: the effects.
        before: the ledgers before it.
        after: the ledgers after it; the same object when nothing in them changed.
        still: nothing waited and nothing was under way before it.
        session: the session after it.
        state: its ledgers after the step.
        life: what has been seen since the session began; of this step its events only.
        events: what it told, in order.
        command: the client's command, if it was one.
        cancels: an epoch ended.
        kinds: the types of all that occurs in it, and of what changed.
    """

    __slots__ = (
        "after",
        "asked",
        "before",
        "cancels",
        "command",
        "events",
        "item",
        "kinds",
        "life",
        "session",
        "state",
        "still",
    )

    def __init__(
        self,
        item: inputs.Input,
        asked: tuple[effects.Effect, ...],
        before: Snapshot,
        after: Snapshot,
        still: bool,
        session: DuplexEngineSession,
        life: Life,
    ) -> None:
        self.item = item
        self.asked = asked
        self.before = before
        self.after = after
        self.still = still
        self.session = session
        self.state: SessionState = session.state
        self.life = life
        self.events: list[DuplexEvent] = []
        self.command: RealtimeCommand | None = None
        self.cancels = after.epoch > before.epoch
        kinds: list[type[Any]] = [type(item)]
        if type(item) is inputs.CommandReceived:
            self.command = item.command
            kinds.append(type(item.command))
        signs_of_item(item, before, kinds)
        if after is not before or before.phase != "open":
            moved(before, after, kinds)
        for effect in asked:
            kinds.append(type(effect))
            if type(effect) is effects.Emit:
                self.events.append(effect.event)
                kinds.append(type(effect.event))
            elif type(effect) is effects.PlanAppend:
                signs_of_effect(effect, kinds)
        self.kinds = tuple(kinds)

    @property
    def refusals(self) -> dict[str, str]:
        """The commands that were refused in it, by their id, and the code."""
        return {
            event.error.event_id: event.error.code or ""
            for event in self.tells(ErrorEvent)
            if event.error.event_id is not None
        }

    def asks(self, kind: type[Any]) -> list[Any]:
        """The effects of one type, in order."""
        return [each for each in self.asked if type(each) is kind] if kind in self.kinds else []

    def tells(self, *kinds: type[Any]) -> list[Any]:
        """The events of some types, in order."""
        return [each for each in self.events if type(each) in kinds] if self.events else []


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit that was handed to the stage."""

    epoch: int
    submission: DuplexStageSubmission

    @property
    def request_id(self) -> str:
        """What it was submitted under."""
        return self.submission.context.request_id


_REMEMBERED = frozenset({ErrorEvent, ItemDeleted, *ToolLife.TAKES})


def ends_turn(step: Step) -> bool:
    """Whether the detector heard the end of a turn in this step, and is to commit it."""
    item = step.item
    if type(item) is not inputs.AudioDecoded or step.state.auto_responds:
        return False
    verdict = item.verdict
    return not verdict.active and any(mark.kind == "stopped" for mark in verdict.marks)


def written(config: DuplexSessionConfig) -> tuple[DuplexSessionConfig, bytes]:
    """A config, and all that it says now."""
    return config, msgspec.json.encode(config)


@dataclass(slots=True)
class Life:
    """What has been seen of a session.

    Attributes:
        session_id: its id.
        config: what is in force, and how it was written when that began.
        traces: its responses.
        told: events that found room, in order.
        commands: what its client asked for, by the command's id.
        counts: how many commands of each type it sent.
        news: how many events of each type it was told.
        refused: the error that answered a command, by the command's id.
        working: effects that take time and have not come back, by their op.
        planned: what the plugin was asked for last.
        last_taken: what it was asked for the unit that was taken last.
        units: units handed to the stage and not answered, by their op.
        accepted: units taken, per epoch.
        taken: units taken, of all epochs.
        bound: request ids with accepted units, and their epoch.
        stopped: request ids that were asked to be aborted or released.
        terminals: terminal events of the session.
        closing_at: when its end began.
        request_epochs: the epoch of each request id that was registered.
        published: what the stages were told, by generation.
        created: commands whose response has begun.
        prepared: the numbers of a unit that was never submitted.
        promoted: items that were answered after the response they waited for.
        stops: turns whose end the detector heard, in turn mode.
        silences: silent units that each response was given.
        silent_at: when the stage was given silent units.
        order: items in the order of commits and openings.
        ordered: no client put an item somewhere else.
        hearing: what of the user's sound the model heard.
        tools: its function calls.
        endings_refused: how often the ending of a response found no room.
        retold: some events found no room, and may have been told again.
        deleted: items that a client deleted.
    """

    session_id: str
    config: tuple[DuplexSessionConfig, bytes]
    traces: ResponseTraces = field(default_factory=ResponseTraces)
    told: list[DuplexEvent] = field(default_factory=list)
    commands: dict[str, RealtimeCommand] = field(default_factory=dict)
    counts: Counter[type[Any]] = field(default_factory=Counter)
    news: Counter[type[Any]] = field(default_factory=Counter)
    refused: dict[str, str] = field(default_factory=dict)
    working: dict[int, effects.Effect] = field(default_factory=dict)
    planned: AppendRequest | None = None
    last_taken: AppendRequest | None = None
    units: dict[int, Unit] = field(default_factory=dict)
    accepted: Counter[int] = field(default_factory=Counter)
    taken: int = 0
    bound: dict[str, int] = field(default_factory=dict)
    stopped: set[str] = field(default_factory=set)
    terminals: int = 0
    closing_at: float | None = None
    request_epochs: dict[str, int] = field(default_factory=dict)
    published: dict[int, tuple[object, object]] = field(default_factory=dict)
    created: set[str] = field(default_factory=set)
    prepared: AppendReservation | None = None
    promoted: set[str] = field(default_factory=set)
    stops: int = 0
    silences: Counter[str] = field(default_factory=Counter)
    silent_at: list[float] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    ordered: bool = True
    hearing: Hearing = field(default_factory=Hearing)
    tools: ToolLife = field(default_factory=ToolLife)
    endings_refused: Counter[str] = field(default_factory=Counter)
    retold: bool = False
    deleted: set[str] = field(default_factory=set)

    @property
    def commits_asked_for(self) -> int:
        """By the client, by its items of sound, and by the detector."""
        asked = self.counts[Commit] + self.counts[CreateItem]
        return asked + self.stops

    def submitted_in(self, item: inputs.Input) -> int | None:
        """The epoch of the unit that this input tells to be taken; None for any other."""
        if type(item) is not inputs.UnitSubmitted or item.fault is not None:
            return None
        unit = self.units.get(item.op)
        return None if unit is None else unit.epoch

    def take(self, step: Step) -> None:
        """A step agrees with all laws: it belongs to the past now."""
        self.hearing.take(step)
        item: Any = step.item
        if type(item) in OUTCOMES:
            self.working.pop(item.op, None)
            self._take_unit(step, item.op)
            self.stops += ends_turn(step)
        if step.command is not None:
            self._take_command(step.command)
        for event in step.events:
            self.news[type(event)] += 1
            if type(event) in _REMEMBERED:
                self._take_event(event)
        for effect in step.asked:
            if type(effect) in WORK:
                self._take_effect(effect)
            elif type(effect) is effects.MarkClosing:
                self.closing_at = step.state.now
        if step.after.config is not self.config[0]:
            self.config = written(step.after.config)

    def _take_unit(self, step: Step, op: int) -> None:
        unit = self.units.pop(op, None)
        item = step.item
        if unit is None or type(item) is not inputs.UnitSubmitted or item.fault is not None:
            return
        if unit.epoch == step.before.epoch and step.before.phase == "open":
            self.accepted[unit.epoch] += 1
            self.taken += 1
            self.last_taken = self.planned
            self.bound[unit.request_id] = unit.epoch

    def _take_command(self, command: RealtimeCommand) -> None:
        self.counts[type(command)] += 1
        if isinstance(command, CreateItem) and command.previous_item_id is not None:
            self.ordered = False
        if command.event_id is not None:
            self.commands[command.event_id] = command

    def _take_event(self, event: DuplexEvent) -> None:
        if type(event) is ErrorEvent:
            if event.error.event_id is not None:
                self.refused.setdefault(event.error.event_id, event.event_id)
            return
        self.tools.take(event)
        if type(event) is ItemDeleted:
            self.deleted.add(event.item_id)

    def _take_effect(self, effect: Any) -> None:
        self.working[effect.op] = effect
        kind = type(effect)
        if kind is effects.PlanAppend:
            self.planned = effect.request
        elif kind is effects.SubmitUnit:
            fence = effect.submission.context.fence
            self.units[effect.op] = Unit(fence.epoch, effect.submission)
        elif kind is effects.AbortRequests or kind is effects.ReleaseRequests:
            self.stopped.update(effect.request_ids)
        elif kind is effects.ReleaseStages:
            self.stopped.update((*effect.submitted, *effect.reserved))

    def take_back(self, refused: tuple[DuplexEvent, ...]) -> None:
        """The last events found no room: they were never told."""
        self.retold = True
        count = len(refused)
        assert not count or tuple(self.told[-count:]) == refused, "others were refused than told"
        self.told = self.told[: len(self.told) - count]
        for event in refused:
            self.news[type(event)] -= 1
            if isinstance(event, ResponseDone):
                self.endings_refused[event.response_id] += 1
        self.traces = ResponseTraces()
        for event in self.told:
            told = self.traces.told(event)
            if told is not None:
                told.trace.overflowed = True
                self.traces.take(told)


@dataclass(frozen=True, slots=True)
class Rest:
    """A session whose client fell silent and which came to rest.

    Attributes:
        session: it.
        life: all that was seen of it.
        reading: its client reads.
        queued_bytes: what waits in its output queue.
    """

    session: DuplexEngineSession
    life: Life
    reading: bool
    queued_bytes: int

    @property
    def state(self) -> SessionState:
        """Its ledgers."""
        return self.session.state
