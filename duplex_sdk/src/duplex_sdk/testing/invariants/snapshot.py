"""A session's ledgers at one moment, and the reader that takes them after every step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duplex_sdk.plugin import AppendPiece, DuplexSessionConfig
    from duplex_sdk.protocol.duplex import Item
    from duplex_sdk.session import DuplexEngineSession

__all__ = ["Ledgers", "Snapshot"]

_NONE: dict[str, tuple[float, float, float]] = {}


class Snapshot(NamedTuple):
    """A session's ledgers at one moment."""

    epoch: int
    turn_id: int
    fence: tuple[int, int]
    seq: int
    turn_seq: int
    generation: int
    detached_at: float | None
    phase: str
    input_bytes: int
    buffered_bytes: int
    retained: int
    retained_items: tuple[str, ...]
    answer_deferred: bool
    pending_turns: int
    messages: tuple[Mapping[str, Any], ...]
    items: tuple[Item, ...]
    commit_seq: int
    config_generation: int
    config: DuplexSessionConfig
    runtime: Mapping[str, Any]
    operations: int
    response: str | None
    commits: int
    undecoded_bytes: int
    units: tuple[AppendPiece, ...]
    cursors: dict[str, tuple[float, float, float]]


class Ledgers:
    """Takes the snapshots of one session.

    Args:
        session: whose ledgers are read; nothing in it changes.

    Attributes:
        now: the newest snapshot.
    """

    __slots__ = ("_session", "_state", "now")

    def __init__(self, session: DuplexEngineSession) -> None:
        self._session = session
        self._state = session.state
        self.now = self._taken()

    def take(self) -> Snapshot:
        """Take the next one; the same object again when nothing has changed since."""
        before, after = self.now, self._taken()
        if (
            after == before
            and after.messages is before.messages
            and after.config is before.config
            and after.runtime is before.runtime
        ):
            return before
        self.now = after
        return after

    def _taken(self) -> Snapshot:
        # By place and in one go: this runs after every step, and names take half as long again.
        state = self._state
        commits, undecoded_bytes, units = self._session.lanes()
        turn, sequence, lease = state.turn_input, state.sequence, state.lease
        items, cursors, response = state.items, state.playback.cursors(), state.response
        return Snapshot(
            state.epoch,
            state.turn_id,
            sequence.accepted_fence.position,
            sequence.seq,
            sequence.turn_seq,
            lease.generation,
            lease.detached_at,
            state.phase._value_,
            state.input_bytes.total,
            state.model_state.audio_buffer.pending_byte_count,
            len(turn.retained) + len(turn.early),
            tuple(turn.retained_items),
            turn.answer_deferred,
            state.pending_turns.total,
            state.history.messages(),
            tuple(items) if len(items) else (),
            state.commit_seq,
            state.config_generation,
            state.config,
            state.runtime_config,
            len(lease.active_operations),
            None if response is None else response.id,
            commits,
            undecoded_bytes,
            units,
            {name: (each.played_ms, each.committed_ms, each.audio_ms) for name, each in cursors}
            if cursors
            else _NONE,
        )
