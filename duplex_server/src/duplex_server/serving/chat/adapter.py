"""``DuplexChatCompletionsAdapter``: chat completions for a model that answers in sessions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from duplex_sdk.plugin import DuplexConfigError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from duplex_server.runtime.errors import DuplexSessionError
from duplex_server.serving.http_errors import error_response
from duplex_server.serving.metrics import ServingMetrics

from .documents import STREAM_END, ChatDocuments, error_chunk
from .refusal import ChatRefusedError
from .request import ChatRequest, parse_chat_request
from .turn import ChatPiece, ChatTurn

if TYPE_CHECKING:
    from duplex_sdk.plugin import DuplexCapabilities
    from duplex_sdk.session.ids import IdSource

    from duplex_server.entrypoints import DuplexOmni, DuplexSessionHandle

__all__ = ["DuplexChatCompletionsAdapter", "answers_chat"]

T = TypeVar("T")
_CLIENT_LEFT = 499
"""What proxies log for it; nobody reads this answer."""


def answers_chat(capabilities: DuplexCapabilities) -> bool:
    """Whether a model can answer text without being spoken to."""
    return capabilities.supports_text_only_turn or capabilities.text_turn_priming_units > 0


class DuplexChatCompletionsAdapter:
    """Answers each request in a session of its own, which ends with the request.

    Args:
        omni: the engine.
        metrics: counts what is refused.
        ids: where ids come from.
        max_body_bytes: longest request.
    """

    def __init__(
        self, omni: DuplexOmni, metrics: ServingMetrics, *, ids: IdSource, max_body_bytes: int
    ) -> None:
        self._omni = omni
        self._metrics = metrics
        self._ids = ids
        self._max_body_bytes = max_body_bytes

    async def complete(self, request: Request) -> Response:
        """The answer, whole or as a stream of events, or the refusal."""
        try:
            asked = parse_chat_request(await self._body(request))
            self._check_model(asked)
            turn = ChatTurn(await self._open(asked), asked.commands)
        except ChatRefusedError as error:
            return _refused(error)
        documents = ChatDocuments(self._ids.hex32(), self._omni.spec.name, asked.audio)
        streams = False
        try:
            if asked.stream:
                await _unless_gone(request, turn.begin())
                streams = True
                return _ChatStream(turn, documents, include_usage=asked.include_usage)
            pieces = await _unless_gone(request, _all(turn))
            return JSONResponse(documents.completion(pieces))
        except ChatRefusedError as error:
            return _refused(error)
        except ClientDisconnect:
            return Response(status_code=_CLIENT_LEFT)
        finally:
            # A stream ends its session itself.
            if not streams:
                await turn.close()

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
        if asked.model is not None and asked.model not in self._omni.served_models:
            raise ChatRefusedError(
                "not_found", "no such model is served here", param="model", status=404
            )

    async def _open(self, asked: ChatRequest) -> DuplexSessionHandle:
        try:
            return await self._omni.open_session(asked.session, lenient=True)
        except (DuplexSessionError, DuplexConfigError) as error:
            self._metrics.rejections.labels(error.code).inc()
            raise ChatRefusedError(error.code, error.message, param=error.param) from error


class _ChatStream(StreamingResponse):
    """Sends an answer piece by piece; its session ends with it, also when the client leaves."""

    def __init__(self, turn: ChatTurn, documents: ChatDocuments, *, include_usage: bool) -> None:
        self._turn = turn
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
            await self._turn.close()

    async def _chunks(self) -> AsyncIterator[bytes]:
        documents = self._documents
        yield documents.first_chunk()
        piece = ChatPiece()
        try:
            while piece.done is None:
                piece = await self._turn.next()
                yield documents.chunk(piece)
            if self._include_usage:
                yield documents.usage_chunk(piece.done)
        except ChatRefusedError as error:
            yield error_chunk(error)
        # Before the end is told: the next request must find the slot free.
        await self._turn.close()
        yield STREAM_END


async def _all(turn: ChatTurn) -> list[ChatPiece]:
    pieces = [await turn.next()]
    while pieces[-1].done is None:
        pieces.append(await turn.next())
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


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _refused(error: ChatRefusedError) -> Response:
    return error_response(error.status, error.code, error.message, param=error.param)
