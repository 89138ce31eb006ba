"""How much of each response was made, sent and heard."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

__all__ = ["RETAINED_RESPONSES", "PlaybackCommitPolicy", "PlaybackCursor", "PlaybackLedger"]

PlaybackCommitPolicy = Literal["commit_all_on_done", "ack_only"]

RETAINED_RESPONSES = 64
"""How many finished responses keep a cursor; memory stays bounded for a client that never acks."""

_CODEC_ROUNDING_MS = 1.0
"""A resampler may give a sample more or less than it took; that is no missing audio."""


@dataclass(slots=True)
class PlaybackCursor:
    """Positions in the audio of one response, all in ms; the wire shows them as whole ms.

    Attributes:
        generated_ms: audio that the model made.
        sent_ms: audio that went into the output path and was not taken back.
        played_ms: what the client said it played; never goes back, never past ``sent_ms``.
        committed_ms: what counts as heard by the client's word.
        acked: the client has acknowledged or truncated this response.
        first_audio_at: when its first audio was sent, seconds; None before.
        text_requires_complete_audio: its text has no alignment worth cutting at.
        audio_complete: the model said that no audio is missing.
        cap_ms: smallest position of a client's truncation, None without one.
        beside: of a response outside the conversation: who acknowledges it names it.
    """

    generated_ms: float = 0.0
    sent_ms: float = 0.0
    played_ms: float = 0.0
    committed_ms: float = 0.0
    acked: bool = False
    first_audio_at: float | None = None
    text_requires_complete_audio: bool = False
    audio_complete: bool = False
    cap_ms: float | None = None
    beside: bool = False

    @property
    def audio_ms(self) -> float:
        """Length of the whole audio: what was sent, or what was made where that is more."""
        missing = self.generated_ms - self.sent_ms
        return self.sent_ms if missing < _CODEC_ROUNDING_MS else self.generated_ms

    @property
    def complete(self) -> bool:
        """Whether all of the audio counts as heard, to the whole ms that a client can name."""
        return self.committed_ms > 0 and self.committed_ms >= math.floor(self.audio_ms)

    def acknowledge(self, played_ms: float, committed_ms: float | None = None) -> None:
        """Take the client's word for what it played; backward and excessive claims change nothing.

        Args:
            played_ms: position it played to; clamped to what was sent.
            committed_ms: position that counts as heard; the new ``played_ms`` unless given.
        """
        self.acked = True
        self.played_ms = max(self.played_ms, self._sendable(played_ms))
        committed = self.played_ms if committed_ms is None else self._sendable(committed_ms)
        if self.cap_ms is not None:
            committed = min(committed, self.cap_ms)
        self.committed_ms = max(self.committed_ms, committed)

    def truncate_committed(self, position_ms: float) -> None:
        """Lower what counts as heard; of several truncations the smallest holds.

        A position beyond what was made so far means just that: what is made later is cut too.
        """
        self.acked = True
        cap = min(max(0.0, position_ms), max(self.sent_ms, self.generated_ms))
        self.cap_ms = cap if self.cap_ms is None else min(self.cap_ms, cap)
        self.committed_ms = self.cap_ms

    def heard_ms(self, policy: PlaybackCommitPolicy) -> float:
        """What was heard as far as the server can know."""
        if self.acked or policy == "ack_only":
            return self.committed_ms
        return self.sent_ms

    def plays_until(self, *, server_vad: bool) -> float | None:
        """When a client that never acks has played everything, in seconds; None if unknowable."""
        if self.acked or not server_vad or self.first_audio_at is None:
            return None
        return self.first_audio_at + self.sent_ms / 1000

    def still_playing(self, now: float, *, server_vad: bool) -> bool:
        """Whether the client has not heard all of it yet, by its acks or by the clock."""
        if self.acked:
            return self.cap_ms is None and self.sent_ms > 0 and not self._heard_all_sent()
        until = self.plays_until(server_vad=server_vad)
        return until is not None and now < until

    def snapshot(self) -> dict[str, int]:
        """The positions as the wire shows them, a fresh dict of whole ms."""
        return {
            "generated_ms": int(self.generated_ms),
            "sent_ms": int(self.sent_ms),
            "played_ms": int(self.played_ms),
            "committed_ms": int(self.committed_ms),
        }

    def _heard_all_sent(self) -> bool:
        return self.committed_ms >= math.floor(self.sent_ms)

    def _sendable(self, position_ms: float) -> float:
        return min(max(0.0, position_ms), self.sent_ms)


class PlaybackLedger:
    """The cursors of a session's responses.

    ``current`` is that of the latest response that speaks; "still playing" asks about it alone.
    A finished response keeps its cursor until it was heard to its end, released, or is the oldest
    of more than ``retained``.
    """

    __slots__ = ("_current", "_current_id", "_cursors", "_finished", "_released", "_retained")

    def __init__(self, retained: int = RETAINED_RESPONSES) -> None:
        self._cursors: dict[str, PlaybackCursor] = {}
        self._finished: dict[str, None] = {}
        self._released: dict[str, int] = {}
        self._current = PlaybackCursor()
        self._current_id: str | None = None
        self._retained = retained

    @property
    def current(self) -> PlaybackCursor:
        """The latest response's cursor, or an empty one."""
        return self._current

    @property
    def current_id(self) -> str | None:
        """The latest response, None when there is none or its playback was cut."""
        return self._current_id

    def __len__(self) -> int:
        return len(self._cursors)

    def open(self, response_id: str, *, current: bool = True) -> PlaybackCursor:
        """Begin a response; ``current`` false for one outside the conversation."""
        cursor = PlaybackCursor(beside=not current)
        self._cursors[response_id] = cursor
        if current:
            self._current = cursor
            self._current_id = response_id
        return cursor

    def cursors(self) -> tuple[tuple[str, PlaybackCursor], ...]:
        """All cursors by response, oldest first."""
        return tuple(self._cursors.items())

    def cursor(self, response_id: str) -> PlaybackCursor | None:
        """The cursor of a response, None when it was released or never known."""
        return self._cursors.get(response_id)

    def add_generated(self, response_id: str, duration_ms: float) -> None:
        """The model made so much more audio; nothing for a response without a cursor."""
        cursor = self._cursors.get(response_id)
        if cursor is not None:
            cursor.generated_ms += duration_ms

    def add_sent(self, response_id: str, duration_ms: float, now: float) -> None:
        """So much more audio went out; nothing for a response without a cursor."""
        cursor = self._cursors.get(response_id)
        if cursor is None:
            return
        if cursor.first_audio_at is None:
            cursor.first_audio_at = now
        cursor.sent_ms += duration_ms

    def take_back(self, response_id: str, duration_ms: float) -> PlaybackCursor | None:
        """So much audio left the queue unsent after a cancel.

        Returns:
            The cursor, for the history to be cut once more; None when it is gone.
        """
        cursor = self._cursors.get(response_id)
        if cursor is not None:
            cursor.sent_ms = max(0.0, cursor.sent_ms - duration_ms)
        return cursor

    def finish(self, response_id: str) -> tuple[str, ...]:
        """The response ended; it is kept for later acks.

        Returns:
            Responses that had to go because too many are kept.
        """
        if response_id not in self._cursors:
            return ()
        self._finished[response_id] = None
        evicted = []
        while len(self._finished) > self._retained:
            oldest = next(iter(self._finished))
            self.release(oldest, commit_seq=0)
            evicted.append(oldest)
        return tuple(evicted)

    def cut(self) -> None:
        """What plays now was stopped: a fresh current cursor, the response keeps its own."""
        self._current = PlaybackCursor()
        self._current_id = None

    def release(self, response_id: str, *, commit_seq: int) -> bool:
        """Forget a finished response; one that is still open is left alone.

        Args:
            response_id: which.
            commit_seq: user inputs committed so far, to tell a late ack from an unknown response.
        """
        if response_id not in self._finished:
            return False
        del self._finished[response_id]
        del self._cursors[response_id]
        self._released[response_id] = commit_seq
        if len(self._released) > self._retained:
            del self._released[next(iter(self._released))]
        return True

    def released_before(self, response_id: str, commit_seq: int) -> bool:
        """Whether it was released and a later user turn was committed since."""
        released_at = self._released.get(response_id)
        return released_at is not None and released_at < commit_seq

    def waiting(self) -> tuple[str, ...]:
        """Finished responses that were not heard to their end yet, oldest first."""
        return tuple(
            response_id
            for response_id in self._finished
            if (cursor := self._cursors[response_id]).sent_ms > 0
            and not cursor.beside
            and cursor.cap_ms is None
            and not cursor.complete
        )

    def still_playing(self, now: float, *, server_vad: bool) -> bool:
        """Whether audio of the latest response has not been heard to its end."""
        return self._current.still_playing(now, server_vad=server_vad)

    def may_be_unheard(self, now: float, *, server_vad: bool) -> bool:
        """Whether nothing shows yet that the latest response was heard to its end."""
        current = self._current
        if not current.acked and current.plays_until(server_vad=server_vad) is None:
            return current.sent_ms > 0
        return current.still_playing(now, server_vad=server_vad)

    def plays_until(self, *, server_vad: bool) -> float | None:
        """When that ends by the clock, in seconds; None when acks or nothing decide it."""
        return self._current.plays_until(server_vad=server_vad)
