"""The HTTP companions of the realtime endpoint."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from .chat import ChatCompletionsAdapter
from .http_errors import error_response
from .metrics import ServingMetrics
from .websocket import StarletteSocket

_ALL_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]

_PAGE_HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": "default-src 'self'; connect-src 'self' ws: wss:",
    "X-Content-Type-Options": "nosniff",
}

__all__ = ["DEMO_FOLDER", "HttpRoutes"]

DEMO_FOLDER = Path(__file__).parent.parent / "web" / "static"


class HttpRoutes:
    """Handlers of the plain routes.

    Args:
        models: names a client may ask for.
        session_mode: ``duplex`` or ``turn``.
        health: makes the document of ``/health``.
        metrics: of this server.
        chat: answers chat requests; None: nothing here can.
    """

    def __init__(
        self,
        models: Sequence[str],
        *,
        session_mode: str,
        health: Callable[[], dict[str, Any]],
        metrics: ServingMetrics,
        chat: ChatCompletionsAdapter | None = None,
    ) -> None:
        self._models = tuple(models)
        self._session_mode = session_mode
        self._health = health
        self._metrics = metrics
        self._chat = chat
        self._started_at = int(time.time())

    def routes(self) -> list[BaseRoute]:
        """What every server has."""
        return [
            Route("/health", self.report_health),
            Route("/metrics", self.report_metrics),
            Route("/v1/models", self.list_models),
            Route("/v1/models/{model:path}", self.retrieve_model),
            Route("/v1/chat/completions", self.complete_chat, methods=["POST"]),
        ]

    def other_routes(self) -> list[BaseRoute]:
        """Everything that is nowhere else: refused."""
        return [
            WebSocketRoute("/{path:path}", self.no_such_socket),
            Route("/{path:path}", self.not_available, methods=_ALL_METHODS),
        ]

    async def list_models(self, request: Request) -> Response:
        """``GET /v1/models``."""
        return JSONResponse(
            {"object": "list", "data": [self._model(name) for name in self._models]}
        )

    async def retrieve_model(self, request: Request) -> Response:
        """``GET /v1/models/NAME``."""
        name = request.path_params["model"]
        if name not in self._models:
            return error_response(404, "not_found", "no such model is served here", param="model")
        return JSONResponse(self._model(name))

    async def report_health(self, request: Request) -> Response:
        """``GET /health``: 503 when the server cannot serve."""
        document = self._health()
        return JSONResponse(document, status_code=503 if document["status"] == "failed" else 200)

    async def report_metrics(self, request: Request) -> Response:
        """``GET /metrics``."""
        return Response(self._metrics.render(), media_type=self._metrics.content_type)

    async def complete_chat(self, request: Request) -> Response:
        """``POST /v1/chat/completions``."""
        if self._chat is not None:
            return await self._chat.complete(request)
        return error_response(
            400, "unsupported", "the served model answers in realtime sessions only"
        )

    async def demo_page(self, request: Request) -> Response:
        """``GET /``."""
        return FileResponse(DEMO_FOLDER / "index.html", headers=_PAGE_HEADERS)

    async def not_available(self, request: Request) -> Response:
        """Everything else says why it is not there."""
        return self.unavailable(request.url.path)

    async def no_such_socket(self, websocket: WebSocket) -> None:
        """Any other WebSocket path."""
        await StarletteSocket(websocket, None).refuse(self.unavailable(websocket.url.path))

    def unavailable(self, path: str) -> Response:
        """The refusal of a route this server does not have in its mode."""
        return error_response(
            404,
            "unsupported",
            f"{path} is not available: this server runs in {self._session_mode} mode",
        )

    def _model(self, name: str) -> dict[str, object]:
        return {
            "id": name,
            "object": "model",
            "created": self._started_at,
            "owned_by": "duplex",
        }
