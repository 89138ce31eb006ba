"""One session of a vllm stage: its units in order, its context, its open request."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from duplex_sdk.stage.token_usage import TokenUsage
from duplex_sdk.stage.types import Json, StageOutput, StageSession, StageUnit, UnitRequest

from .context import TokenContext
from .engine import Delta, EngineLostError, EngineRequest, LanguageEngine, Segment
from .settings import BackendSettings
from .unit_input import (
    ContextFullError,
    UnitInput,
    UnitInputError,
    UnitReader,
    stage_unit_of,
)

__all__ = ["LanguageSession", "SessionSink"]

logger = logging.getLogger(__name__)


class SessionSink(ABC):
    """Where a session tells what becomes of its units; no method calls back into the session."""

    @abstractmethod
    def on_output(self, output: StageOutput) -> None:
        """It said something."""

    @abstractmethod
    def on_taken(self, unit: UnitRequest) -> None:
        """A unit is no longer with it."""

    @abstractmethod
    def on_answered(self, took_s: float, waited_s: float) -> None:
        """A unit's answer is complete: seconds in the engine, and since it arrived."""

    @abstractmethod
    def on_changed(self, session: LanguageSession) -> None:
        """It may have become idle."""

    @abstractmethod
    def on_failed(self, session: LanguageSession, message: str) -> None:
        """It cannot go on."""

    @abstractmethod
    def on_engine_lost(self, error: EngineLostError) -> None:
        """Nobody can go on."""


@dataclass(slots=True)
class _Running:
    """The unit being answered."""

    unit: StageUnit[None]
    request: UnitRequest
    arrived: float
    began: float
    read: UnitInput


class LanguageSession:
    """Feeds one unit after the other to the session's request and tells what is answered.

    An answer cannot be given more input while it is under way: a unit waits until the one before
    was answered, and an interruption ends the request. The next unit then opens another with the
    whole context.
    """

    def __init__(
        self,
        session: StageSession,
        engine: LanguageEngine,
        settings: BackendSettings,
        sink: SessionSink,
        clock: Callable[[], float],
    ) -> None:
        """Make a session with an empty context; its request opens with its first unit."""
        self.session = session
        self.epoch = 0
        self.failed = False
        self.active = False
        self.context = TokenContext()
        self._engine = engine
        self._settings = settings
        self._sink = sink
        self._clock = clock
        self._reader = UnitReader(engine, settings)
        self._queue: deque[tuple[UnitRequest, float]] = deque()
        self._running: _Running | None = None
        self._request: EngineRequest | None = None
        self._requests = 0
        self._untold = TokenUsage()

    @property
    def is_idle(self) -> bool:
        """Nothing is queued or being answered."""
        return self._running is None and not self._queue

    @property
    def answering_since(self) -> float | None:
        """When the unit being answered was fed; None: none is."""
        return None if self._running is None else self._running.began

    def take(self, unit: UnitRequest) -> None:
        """Queue a unit of the current epoch."""
        self.active = True
        self._queue.append((unit, self._clock()))
        self._begin_next()

    def cancel(self, epoch: int) -> None:
        """Stop at once and forget what is queued; what was said so far stays in the context."""
        self.epoch = epoch
        interrupted = self._running is not None
        self._give_everything_back()
        if interrupted:
            self._lose_request()
        if self._settings.early_input and self.context.discard_turn():
            self._lose_request()

    def close(self) -> None:
        """End it and free what its request holds."""
        self._give_everything_back()
        self._lose_request()
        self.context.clear()

    # What to do next

    def _begin_next(self) -> None:
        while self._running is None and self._queue and not self.failed:
            unit, arrived = self._queue.popleft()
            try:
                self._begin(unit, arrived)
            except ContextFullError as error:
                self._sink.on_taken(unit)
                self._fail(str(error))
            except (UnitInputError, ValueError, TypeError) as error:
                self._refuse(unit, str(error))
        self._sink.on_changed(self)

    def _begin(self, unit: UnitRequest, arrived: float) -> None:
        """Put a unit into the context and feed it.

        Raises:
            UnitInputError: the unit cannot be read, or is longer than any context.
            ContextFullError: the context is full and the session is to end then.
            ValueError: vLLM refuses the sampling parameters.
        """
        if unit.prompt.kind == "discard":
            if self.context.discard_turn():
                self._lose_request()
            self._sink.on_taken(unit)
            return
        read = self._reader.read(unit.prompt, self.session, self.context)
        if read.replaces_context:
            self._lose_request()
            self.context.clear()
        self.context.begin_span(read.pieces)
        try:
            dropped = read.dropped + self._make_room(read)
            self._feed(read)
        except Exception:
            self.context.undo_span()
            raise
        stage_unit = stage_unit_of(unit)
        self._running = _Running(stage_unit, unit, arrived, self._clock(), read)
        if dropped:
            logger.info("%s rolled over: %d positions dropped", unit.session_id, dropped)
            self._sink.on_output(stage_unit.output(data={"rolled_over": dropped}))

    def _make_room(self, read: UnitInput) -> int:
        dropped = self._reader.make_room(self.context, read)
        if dropped:
            self._lose_request()
        return dropped

    def _feed(self, read: UnitInput) -> None:
        length = self._reader.answer_length(self.context, read)
        segment = Segment(self.context.unfed(), length, read.sampling, self.session.seed)
        if self._request is None:
            self._requests += 1
            name = f"{self.session.session_id}/{self._requests}"
            self._request = self._engine.request(
                name, on_delta=self._on_delta, on_lost=self._on_lost
            )
        self._request.feed(segment)
        self._untold += TokenUsage(self.context.length - self.context.fed)
        self.context.all_fed()

    # What the engine says

    def _on_delta(self, delta: Delta) -> None:
        running = self._running
        if running is None:
            return
        if delta.token_ids:
            self.context.sampled(delta.token_ids)
            self._untold += TokenUsage(0, len(delta.token_ids))
        ended = delta.finish is not None
        if not running.read.silent and (ended or delta.text or delta.token_ids):
            ends_turn = ended and running.read.ends_turn
            self._sink.on_output(
                running.unit.output(
                    text=delta.text or None,
                    token_ids=delta.token_ids,
                    segment_end=ended,
                    end_of_turn=ends_turn,
                    data=self._tell_usage() if ends_turn else {},
                )
            )
        if ended:
            self._end_segment(running)
            self._begin_next()

    def _tell_usage(self) -> Mapping[str, Json]:
        """What the turn cost, with what was heard and not answered before it."""
        told, self._untold = self._untold, TokenUsage()
        return told.data

    def _end_segment(self, running: _Running) -> None:
        self._running = None
        self.context.segment_ended()
        if running.read.silent or not self._settings.keep_last_token:
            self.context.forget_last_token()
        if running.read.ends_turn:
            self.context.end_turn()
        now = self._clock()
        self._sink.on_answered(now - running.began, now - running.arrived)
        self._sink.on_taken(running.request)

    def _on_lost(self, error: Exception) -> None:
        self._request = None
        self.context.request_lost()
        if isinstance(error, EngineLostError):
            self._sink.on_engine_lost(error)
            return
        running, self._running = self._running, None
        if running is not None:
            self.context.undo_span()
            self._refuse(running.request, f"vLLM refused it: {error}")
        self._begin_next()

    # Endings

    def _refuse(self, unit: UnitRequest, message: str) -> None:
        self._sink.on_output(stage_unit_of(unit).failed("runtime_append_failed", message))
        self._sink.on_taken(unit)

    def _fail(self, message: str) -> None:
        self.failed = True
        self._give_everything_back()
        self._lose_request()
        self._sink.on_failed(self, message)

    def _give_everything_back(self) -> None:
        running, self._running = self._running, None
        units: Sequence[UnitRequest] = [unit for unit, _ in self._queue]
        self._queue.clear()
        if running is not None:
            self._sink.on_taken(running.request)
        for unit in units:
            self._sink.on_taken(unit)

    def _lose_request(self) -> None:
        if self._request is not None:
            self._request.abort()
            self._request = None
        self.context.request_lost()
