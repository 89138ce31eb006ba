"""One step of a session as a law sees it: ledgers before and after, what was asked, its past."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from duplex_sdk.protocol.duplex import DuplexEvent, RealtimeCommand
from duplex_sdk.session import effects, inputs

from .response_trace import ResponseTraces

if TYPE_CHECKING:
    from duplex_sdk.session.state import SessionState

__all__ = ["Life", "Snapshot", "Step"]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A session's ledgers at one moment."""

    epoch: int
    turn_id: int
    fence: tuple[int, int]
    generation: int
    phase: str
    input_bytes: int
    buffered_bytes: int
    retained: int
    pending_turns: int
    history: int
    items: int
    commit_seq: int
    config_generation: int
    operations: int
    cursors: dict[str, tuple[float, float, float]]

    @classmethod
    def of(cls, state: SessionState) -> Snapshot:
        """Take one."""
        turn = state.turn_input
        return cls(
            epoch=state.epoch,
            turn_id=state.turn_id,
            fence=state.sequence.accepted_fence.position,
            generation=state.lease.generation,
            phase=state.phase.value,
            input_bytes=state.input_bytes.total,
            buffered_bytes=state.model_state.audio_buffer.pending_byte_count,
            retained=len(turn.retained) + len(turn.early),
            pending_turns=state.pending_turns.total,
            history=state.history.version,
            items=len(state.items),
            commit_seq=state.commit_seq,
            config_generation=state.config_generation,
            operations=len(state.lease.active_operations),
            cursors={
                name: (cursor.played_ms, cursor.committed_ms, cursor.audio_ms)
                for name, cursor in state.playback.cursors()
            },
        )


@dataclass(slots=True)
class Step:
    """One call of ``handle``, and what came before it.

    Attributes:
        item: the input.
        asked: the effects.
        before: the ledgers before it.
        after: the ledgers after it.
        still: nothing waited and nothing was under way before it.
        state: the session's state after it.
        life: what has been seen since the session began.
        events: what it told, in order.
        command: the client's command, if it was one.
    """

    item: inputs.Input
    asked: tuple[effects.Effect, ...]
    before: Snapshot
    after: Snapshot
    still: bool
    state: SessionState
    life: Life

    events: list[DuplexEvent] = field(init=False)
    command: RealtimeCommand | None = field(init=False)

    def __post_init__(self) -> None:
        self.events = [each.event for each in self.asked if type(each) is effects.Emit]
        item = self.item
        self.command = item.command if type(item) is inputs.CommandReceived else None


@dataclass(slots=True)
class Life:
    """What has been seen of a session.

    Attributes:
        traces: its responses.
        told: events that found room, in order.
        errors: the error that answered a command, by the command's id.
        submits: units handed to the stage and not answered, op to (epoch, number).
        late: the same, op to epoch, until any answer.
        accepted: units taken, per epoch.
        bound: request ids with accepted units, and their epoch.
        stopped: request ids that were asked to be aborted or released.
        terminals: terminal events of the session.
    """

    traces: ResponseTraces = field(default_factory=ResponseTraces)
    told: list[DuplexEvent] = field(default_factory=list)
    errors: dict[str, str] = field(default_factory=dict)
    submits: dict[int, tuple[int, int]] = field(default_factory=dict)
    requests: dict[int, str] = field(default_factory=dict)
    late: dict[int, int] = field(default_factory=dict)
    accepted: dict[int, int] = field(default_factory=dict)
    bound: dict[str, int] = field(default_factory=dict)
    stopped: set[str] = field(default_factory=set)
    terminals: int = 0

    def take_back(self, refused: tuple[DuplexEvent, ...]) -> None:
        """The last events found no room: they were never told."""
        count = len(refused)
        assert not count or tuple(self.told[-count:]) == refused, "others were refused than told"
        self.told = self.told[: len(self.told) - count]
        self.traces = ResponseTraces()
        for event in self.told:
            self.traces.tell(event, overflowed=True)
