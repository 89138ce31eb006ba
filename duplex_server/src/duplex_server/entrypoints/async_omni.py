"""``AsyncOmni``: a pipeline for requests without a session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable
from typing import TYPE_CHECKING, Any

from duplex_sdk.stage import StagePrompt

from duplex_server.engine.async_omni_engine import AsyncOmniEngine

from .answer_sinks import LoopSink
from .engine_health import EngineHealth, turn_health_of
from .omni_base import AsyncOmniBase
from .question import Question

if TYPE_CHECKING:
    from duplex_sdk.audio import PcmChunk

    from duplex_server.engine.omni_engine_base import OmniEngineBase
    from duplex_server.engine.turn_requests import AnswerPiece

    from .question import Messages

__all__ = ["AsyncOmni"]


class AsyncOmni(AsyncOmniBase):
    """Runs a pipeline in this process; the arguments are those of ``AsyncOmniEngine``."""

    def _create_engine(self, **engine_arguments: Any) -> OmniEngineBase:
        return AsyncOmniEngine(**engine_arguments)

    async def generate(
        self, question: Question | Messages, rest: AsyncIterable[PcmChunk] | None = None
    ) -> AsyncGenerator[AnswerPiece]:
        """Answer a conversation, piece by piece.

        Args:
            question: what is asked.
            rest: of a spoken turn that ``goes_on``, as it is spoken. It goes to a model that takes
                turns in pieces, as it does with ``early_input``.

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
        if question.goes_on and rest is None:
            raise ValueError("a turn that goes on needs its rest")
        sink = LoopSink()
        request = question.request(sink)
        whole, speaking = False, None
        try:
            self._turn_engine.add_request(request)
            if question.goes_on and rest is not None:
                speaking = asyncio.create_task(self._speak(request.request_id, rest, sink))
            while (piece := await sink.get()) is not None:
                yield piece
            whole = True
        finally:
            if speaking is not None:
                speaking.cancel()
                await asyncio.gather(speaking, return_exceptions=True)
            self._turn_engine.end_request(request.request_id, abort=not whole)

    async def _speak(self, request_id: str, rest: AsyncIterable[PcmChunk], sink: LoopSink) -> None:
        """Hand on the rest of a turn; who waits for the answer hears of what goes wrong."""
        try:
            async for chunk in rest:
                self._turn_engine.update_request(request_id, StagePrompt(audio=chunk))
            self._turn_engine.update_request(request_id, StagePrompt(final=True))
        except Exception as error:
            sink.end(error)

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
