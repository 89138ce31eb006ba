"""``ChatCompletionsAdapter``: a chat request in, an answer out, whole or streamed."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from duplex_server.serving.http_errors import error_response
from duplex_server.serving.metrics import ServingMetrics

from .answer import ChatAnswer, ChatPiece
from .documents import STREAM_END, ChatDocuments, error_chunk
from .refusal import ChatRefusedError
from .request import ChatRequest, parse_chat_request

if TYPE_CHECKING:
    from duplex_sdk.session.ids import IdSource

__all__ = ["ChatCompletionsAdapter"]

T = TypeVar("T")
_CLIENT_LEFT = 499
"""What proxies log for it; nobody reads this answer."""


class ChatCompletionsAdapter(ABC):
    """Everything about a chat request but who answers it.

    Args:
        models: names under which the model is served; the first is its own.
        metrics: counts what is refused.
        ids: where ids come from.
        max_body_bytes: longest request.
    """

    def __init__(
        self,
        models: Sequence[str],
        metrics: ServingMetrics,
        *,
        ids: IdSource,
        max_body_bytes: int,
    ) -> None:
        self._models = tuple(models)
        self._metrics = metrics
        self._ids = ids
        self._max_body_bytes = max_body_bytes

    @abstractmethod
    async def _ask(self, asked: ChatRequest) -> ChatAnswer:
        """Put the question.

        Raises:
            ChatRefusedError: it can't be answered.
        """

    async def complete(self, request: Request) -> Response:
        """The answer, whole or as a stream of events, or the refusal."""
        try:
            asked = parse_chat_request(await self._body(request))
            self._check_model(asked)
            answer = await self._ask(asked)
        except ChatRefusedError as error:
            return _refused(error)
        documents = ChatDocuments(self._ids.hex32(), self._models[0], asked.audio)
        streams = False
        try:
            if asked.stream:
                await _unless_gone(request, answer.begin())
                streams = True
                return _ChatStream(answer, documents, include_usage=asked.include_usage)
            pieces = await _unless_gone(request, _all(answer))
            return JSONResponse(documents.completion(pieces))
        except ChatRefusedError as error:
            return _refused(error)
        except ClientDisconnect:
            return Response(status_code=_CLIENT_LEFT)
        finally:
            # A stream closes its answer itself.
            if not streams:
                await answer.close()

    async def _body(self, request: Request) -> bytes:
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > self._max_body_bytes:
                raise ChatRefusedError(
                    "event_too_large",
                    f"a request may have {self._max_body_bytes} bytes",
                    status=413,
                )
        return bytes(body)

    def _check_model(self, asked: ChatRequest) -> None:
        if asked.model is not None and asked.model not in self._models:
            raise ChatRefusedError(
                "not_found", "no such model is served here", param="model", status=404
            )

    def _count_refusal(self, code: str) -> None:
        self._metrics.rejections.labels(code).inc()


class _ChatStream(StreamingResponse):
    """Sends an answer piece by piece; it is closed at the end, also when the client leaves."""

    def __init__(
        self, answer: ChatAnswer, documents: ChatDocuments, *, include_usage: bool
    ) -> None:
        self._answer = answer
        self._documents = documents
        self._include_usage = include_usage
        super().__init__(
            self._chunks(),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"},
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._answer.close()

    async def _chunks(self) -> AsyncIterator[bytes]:
        documents = self._documents
        yield documents.first_chunk()
        piece = ChatPiece()
        try:
            while piece.done is None:
                piece = await self._answer.next()
                yield documents.chunk(piece)
            if self._include_usage:
                yield documents.usage_chunk(piece.done)
        except ChatRefusedError as error:
            yield error_chunk(error)
        # Before the end is told: the next request must find a free place.
        await self._answer.close()
        yield STREAM_END


async def _all(answer: ChatAnswer) -> list[ChatPiece]:
    pieces = [await answer.next()]
    while pieces[-1].done is None:
        pieces.append(await answer.next())
    return pieces


async def _unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Do the work, unless the client leaves first.

    Raises:
        ClientDisconnect: it did.
    """
    working = asyncio.create_task(work)
    leaving = asyncio.create_task(_gone(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()
        # What works for the answer must be over before the answer is closed.
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _refused(error: ChatRefusedError) -> Response:
    return error_response(error.status, error.code, error.message, param=error.param)
