"""Silent units for a model that speaks from unit to unit while its client is quiet."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from duplex_sdk.audio.chunk import PcmChunk
from duplex_sdk.plugin import AppendPiece

from .append_queue import Append
from .continuation import Continuation, ContinuationScheduler

if TYPE_CHECKING:
    from .append_queue import AppendQueue
    from .input_buffer import InputBuffer
    from .state import SessionState

__all__ = ["ContinuationFlow"]


class ContinuationFlow:
    """Keeps one session's model supplied with input.

    What made a unit wanted must still hold when its time comes; it is looked at after every step.

    Args:
        state: the session.
        buffer: real input in it goes before any silence.
        appends: carries the units.
        limit_reached: ends the response that has had all its units.

    Attributes:
        enabled: whether this model goes on only with input.
        scheduler: when the next silent unit is due.
    """

    __slots__ = (
        "_appends",
        "_buffer",
        "_epoch",
        "_limit_reached",
        "_samples",
        "_state",
        "enabled",
        "scheduler",
    )

    def __init__(
        self,
        state: SessionState,
        buffer: InputBuffer,
        appends: AppendQueue,
        *,
        limit_reached: Callable[[], None],
    ) -> None:
        self._state = state
        self._buffer = buffer
        self._appends = appends
        self._limit_reached = limit_reached
        self._samples = _samples(state)
        self.enabled = self._samples > 0
        self._epoch = 0
        period_s = (state.capabilities.chunk_period_ms or 1000) / 1000
        self.scheduler = ContinuationScheduler(period_s, auto_responds=state.auto_responds)

    @property
    def deadline(self) -> float | None:
        """When a silent unit is due; None without one, and once only the stage is waited for."""
        due = self.scheduler.deadline
        return due if due is not None and due > self._state.now and self._state.open else None

    def accepted(self, append: Append) -> None:
        """Stage 0 took a unit; a real one takes the place of a silent one."""
        if self.enabled:
            self.scheduler.accepted(self._state.now, continuation=append.continuation)

    def wanted(self) -> None:
        """The model is to go on, and nothing else may make it."""
        if not self.enabled:
            return
        self._epoch = self._state.epoch
        owner = self._owner()
        if owner != self.scheduler.owner:
            self._adopt()
        self.scheduler.auto_responds = self._state.auto_responds
        if not self.scheduler.schedule(owner, self._state.now):
            self._state.later(self._exhausted)
        self._state.deadline_moved = True

    @property
    def awaited(self) -> bool:
        """Whether an answer is awaited that no response was opened for yet."""
        if self.scheduler.owner is None or self._state.response is not None:
            return False
        return self._is_current()

    def look(self) -> None:
        """A unit is due: see whether it is still wanted."""
        state, scheduler = self._state, self.scheduler
        deadline = scheduler.deadline
        if deadline is None or state.now < deadline or not self._appends.idle or not state.open:
            return
        self._adopt()
        due = scheduler.take_due(state.now) if self._is_current() else None
        if due is None:
            scheduler.clear()
        elif not self._try_again():
            self._appends.push(self._unit(due))

    def _is_current(self) -> bool:
        """Whether neither the response, the turn nor the epoch has changed since."""
        return self._epoch == self._state.epoch and self.scheduler.owner == self._owner()

    def _owner(self) -> str:
        response = self._state.response
        if response is None:
            return f"model-turn:{self._state.turn_id}"
        return f"response:{response.id}"

    def _adopt(self) -> None:
        """A response that opened during the wait takes the pending unit over."""
        response, owner = self._state.response, self.scheduler.owner
        if response is not None and owner == f"model-turn:{response.turn_id}":
            self.scheduler.rebind(f"response:{response.id}")

    def _try_again(self) -> bool:
        """Whole units that came back from a failure go before any silence; whether there were."""
        units = self._buffer.drain() if self._state.auto_responds else []
        for unit in units:
            self._appends.push(
                Append(
                    unit.piece,
                    self._state.epoch,
                    taken=unit,
                    held=unit.held,
                    # The last stands for the silence that was due: if it fails once more, so does
                    # the response that waits for it.
                    continuation=unit is units[-1],
                )
            )
        return bool(units)

    def _unit(self, due: Continuation) -> Append:
        state = self._state
        held = None
        rate = state.capabilities.input_sample_rate_hz
        piece = AppendPiece(audio=PcmChunk.silence(self._samples, rate), is_speech=False)
        if state.auto_responds and self._buffer.pending_bytes:
            # A client that fell silent within a unit: that unit is filled up instead.
            rest = self._buffer.seal()
            piece, held = (piece, None) if rest is None else (rest.piece, rest.held)
        return Append(
            AppendPiece(
                audio=piece.audio,
                is_speech=piece.is_speech,
                images=piece.images,
                padding=piece.padding,
                force_listen=piece.force_listen or due.force_listen,
            ),
            state.epoch,
            held=held,
            continuation=True,
        )

    def _exhausted(self) -> None:
        self.scheduler.clear()
        if self._state.response is not None:
            self._limit_reached()


def _samples(state: SessionState) -> int:
    """How much silence one such unit has; 0: this model goes on by itself."""
    capabilities = state.capabilities
    if not capabilities.supports_core_resumable_request:
        return 0
    stated = state.plugin.silence_continuation_samples
    if stated is not None:
        return stated
    if not capabilities.supports_model_native_turn_policy:
        return 0
    return capabilities.input_sample_rate_hz * (capabilities.chunk_period_ms or 1000) // 1000
