"""One session's or request's way through the stages of a pipeline."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from duplex_sdk.stage import StageOutput, StagePrompt, StageSession, UnitRequest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["RequestState", "SegmentMeter", "Stream", "prompt_size"]


@dataclass(slots=True)
class SegmentMeter:
    """What one stage did for a request since its last segment ended."""

    started_at: float
    units: int = 0
    outputs: int = 0
    first_output_ms: float | None = None
    audio_ms: float = 0.0
    text_chars: int = 0

    def count(self, output: StageOutput, now: float) -> None:
        """Add one output."""
        self.outputs += 1
        if self.first_output_ms is None and (output.audio is not None or output.text):
            self.first_output_ms = (now - self.started_at) * 1000
        if output.audio is not None:
            self.audio_ms += output.audio.duration_ms
        if output.text:
            self.text_chars += len(output.text)

    def snapshot(self, stage_id: int, now: float) -> dict[str, Any]:
        """The figures, as plain data."""
        return {
            "stage_id": stage_id,
            "units": self.units,
            "outputs": self.outputs,
            "first_output_ms": self.first_output_ms,
            "generation_ms": (now - self.started_at) * 1000,
            "audio_ms": self.audio_ms,
            "text_chars": self.text_chars,
        }


@dataclass(slots=True)
class RequestState:
    """A request under way.

    Attributes:
        request_id: its id.
        stream_id: whose state in the stages it uses.
        session_owned: its outputs go to the session's owner and never to a client of requests;
            it is never finished or cleaned up by the orchestrator itself.
        resumable: further units may follow the first.
        submitted: stage 0 has taken a unit.
        memo: what ``stage_input`` remembers, by stage.
        meters: figures of the segment under way, by stage.
    """

    request_id: str
    stream_id: str
    session_owned: bool = False
    resumable: bool = False
    submitted: bool = False
    memo: dict[int, dict[str, Any]] = field(default_factory=dict)
    meters: dict[int, SegmentMeter] = field(default_factory=dict)

    def meter(self, stage_id: int, now: float) -> SegmentMeter:
        """The figures of the segment under way, which may begin now."""
        meter = self.meters.get(stage_id)
        if meter is None:
            meter = self.meters[stage_id] = SegmentMeter(now)
        return meter

    def metered(self, stage_id: int, output: StageOutput, now: float) -> dict[str, Any] | None:
        """Count an output; the figures when it ends a segment, else None."""
        meter = self.meter(stage_id, now)
        meter.count(output, now)
        if not (output.end_of_turn or output.segment_end):
            return None
        del self.meters[stage_id]
        return meter.snapshot(stage_id, now)


class Stream:
    """State in the stages that belongs together: of a session, or of one request.

    Attributes:
        stream_id: the ``session_id`` that stages see.
        sessions: what each stage is told, by stage.
        messages: the conversation before this turn, for ``stage_input``.
        version: of what ``sessions`` were made, to see whether they changed.
        epoch: work of older epochs is dropped.
        busy: a unit was submitted since all stages were last idle.
        queued: units that wait for credit, by stage; of stage 0 none, their submitters wait.
        queued_bytes: size of all of them; 0 when there is none.
    """

    __slots__ = (
        "_seq",
        "busy",
        "epoch",
        "messages",
        "opened",
        "queued",
        "queued_bytes",
        "sessions",
        "stream_id",
        "version",
        "waiters",
    )

    def __init__(self, sessions: Sequence[StageSession]) -> None:
        self.stream_id = sessions[0].session_id
        self.sessions = tuple(sessions)
        self.messages: Sequence[Mapping[str, Any]] = ()
        self.version: object = None
        self.epoch = 0
        self.busy = False
        self.opened = False
        self.queued: dict[int, deque[UnitRequest]] = {}
        self.queued_bytes = 0
        self.waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._seq = [0] * len(sessions)

    def unit(
        self, stage_id: int, request_id: str, turn_id: int, prompt: StagePrompt
    ) -> UnitRequest:
        """The next unit of a stage."""
        self._seq[stage_id] += 1
        return UnitRequest(
            self.stream_id, request_id, self.epoch, turn_id, self._seq[stage_id], prompt
        )

    def push(self, stage_id: int, unit: UnitRequest) -> None:
        """Keep a unit until its stage has credit."""
        self.queued.setdefault(stage_id, deque()).append(unit)
        self.queued_bytes += prompt_size(unit.prompt)

    def pop(self, stage_id: int) -> UnitRequest:
        """The next unit that waits for this stage."""
        unit = self.queued[stage_id].popleft()
        self.queued_bytes -= prompt_size(unit.prompt)
        return unit

    def begin_epoch(self, epoch: int) -> None:
        """Drop what waits; whoever waits to submit to an older epoch is called off."""
        self.epoch = max(self.epoch, epoch)
        self.busy = False
        self.queued_bytes = 0
        self.queued.clear()
        waiting = [pair for pair in self.waiters if pair[0] < self.epoch]
        self.waiters = [pair for pair in self.waiters if pair[0] >= self.epoch]
        for _, waiter in waiting:
            waiter.cancel()

    def wake_one(self) -> None:
        """Stage 0 has credit again: let the first submitter try."""
        while self.waiters:
            _, waiter = self.waiters.pop(0)
            if not waiter.done():
                waiter.set_result(None)
                return


def prompt_size(prompt: StagePrompt) -> int:
    """Bytes a prompt holds, near enough for a budget."""
    size = 64 + len(prompt.text or "") + 8 * len(prompt.token_ids)
    if prompt.audio is not None:
        size += len(prompt.audio.data)
    size += sum(len(array.data) for array in prompt.arrays.values())
    return size + sum(len(image.data) for image in prompt.images)
