"""``Omni``: a pipeline for callers without an event loop."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Self

from duplex_server.engine.async_omni_engine import AsyncOmniEngine

from .answer_sinks import ThreadSink
from .omni_base import OmniBase
from .question import Question

if TYPE_CHECKING:
    from types import TracebackType

    from duplex_server.engine.omni_engine_base import OmniEngineBase
    from duplex_server.engine.turn_requests import AnswerPiece

    from .question import Messages

__all__ = ["Omni"]


class Omni(OmniBase):
    """Runs a pipeline in this process, inside a ``with`` block; from any thread.

    The arguments are those of ``AsyncOmniEngine``.
    """

    def _create_engine(self, **engine_arguments: Any) -> OmniEngineBase:
        self._engine = AsyncOmniEngine(**engine_arguments)
        return self._engine

    def start(self) -> None:
        """Load the stages and start to work.

        Raises:
            DuplexError: the deployment can't run or a stage can't be loaded; with a hint.
        """
        self._engine.start().result()

    def stop(self) -> None:
        """End everything, in order; safe to call twice and after a failed start."""
        self._engine.stop().result()

    def generate(self, question: Question | Messages) -> Generator[AnswerPiece]:
        """Answer a conversation, piece by piece; ``close`` the iterator to stop the model.

        Raises:
            DuplexError: as ``AsyncOmni.generate``.
        """
        if not isinstance(question, Question):
            question = Question(question)
        sink = ThreadSink()
        request = question.request(sink)
        whole = False
        try:
            self._engine.add_request(request)
            while (piece := sink.get()) is not None:
                yield piece
            whole = True
        finally:
            self._engine.end_request(request.request_id, abort=not whole)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
