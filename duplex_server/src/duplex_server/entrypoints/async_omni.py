"""``AsyncOmni``: a pipeline for requests without a session."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from duplex_server.engine.async_omni_engine import AsyncOmniEngine

from .answer_sinks import LoopSink
from .engine_health import EngineHealth, turn_health_of
from .omni_base import AsyncOmniBase
from .question import Question

if TYPE_CHECKING:
    from duplex_server.engine.omni_engine_base import OmniEngineBase
    from duplex_server.engine.turn_requests import AnswerPiece

    from .question import Messages

__all__ = ["AsyncOmni"]


class AsyncOmni(AsyncOmniBase):
    """Runs a pipeline in this process; the arguments are those of ``AsyncOmniEngine``."""

    def _create_engine(self, **engine_arguments: Any) -> OmniEngineBase:
        return AsyncOmniEngine(**engine_arguments)

    async def generate(self, question: Question | Messages) -> AsyncGenerator[AnswerPiece]:
        """Answer a conversation, piece by piece.

        A reader that stops before the end closes the iterator (``contextlib.aclosing``); that, or
        its cancellation, stops the model.

        Raises:
            RequestFailedError: ``resource_exhausted`` (retryable) when too much is under way,
                ``unsupported`` by a model that answers in sessions only, or why the model failed.
            EngineDeadError: the engine is not running, or ended meanwhile.
            EngineBusyError: the engine does not keep up; retryable.
        """
        if not isinstance(question, Question):
            question = Question(question)
        sink = LoopSink()
        request = question.request(sink)
        whole = False
        try:
            self._turn_engine.add_request(request)
            while (piece := await sink.get()) is not None:
                yield piece
            whole = True
        finally:
            self._turn_engine.end_request(request.request_id, abort=not whole)

    @property
    def turn_request_places(self) -> int:
        """How many questions may be answered at once; 0: none, ever, as long as this runs."""
        return self._turn_engine.turn_request_places

    def health(self) -> EngineHealth:
        """A snapshot for people and monitors; cheap, and safe on a dead engine."""
        return turn_health_of(self._turn_engine)

    @property
    def _turn_engine(self) -> AsyncOmniEngine:
        assert isinstance(self._engine_base, AsyncOmniEngine)
        return self._engine_base
