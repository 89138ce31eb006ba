"""The ASGI application: every route of the server, behind one gate."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from duplex_sdk.session.ids import IdSource
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.websockets import WebSocket

from duplex_server.runtime.ids import SecretIds

from .attachments import AttachmentRegistry
from .auth import ApiKeys, selected_subprotocol
from .chat import DuplexChatCompletionsAdapter, answers_chat
from .engine_metrics import register_engine
from .envelope import ConnectionEnvelope
from .gate import Gate
from .health import health_document
from .http import DEMO_FOLDER, HttpRoutes
from .http_errors import error_response
from .metrics import ServingMetrics
from .origin import OriginRule
from .realtime import ConnectionLimits, OmniDuplexSessionHandler
from .websocket import StarletteSocket

if TYPE_CHECKING:
    from duplex_server.entrypoints import DuplexOmni

__all__ = ["DuplexApp", "ServingOptions"]

_STATIC_PREFIX = "/static/"
_ALL_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
_REALTIME_PATHS = ("/v1/realtime", "/v1/duplex")


@dataclass(frozen=True, slots=True)
class ServingOptions:
    """What a deployment settles about its doors.

    Attributes:
        api_keys: none: no key is needed.
        allowed_origins: foreign origins whose pages may use the server.
        max_frame_bytes: largest client frame, in bytes of UTF-8.
        config_timeout_s: longest wait for a first frame.
        session_mode: ``turn`` answers 404 on the realtime routes.
        chat_backend: what answers chat completions; None: sessions, where the model can answer
            without being spoken to.
    """

    api_keys: Sequence[str] = ()
    allowed_origins: Sequence[str] = ()
    max_frame_bytes: int = 15 * 1024 * 1024
    config_timeout_s: float = 10.0
    session_mode: str = "duplex"
    chat_backend: Literal["session"] | None = None


class DuplexApp:
    """The server's application object, which is ASGI, and what an entry point needs of it.

    Args:
        omni: a started engine; starting and stopping it is the caller's.
        options: of this deployment.
        ids: where event ids come from.

    Raises:
        ValueError: an allowed origin is not one.
    """

    def __init__(
        self, omni: DuplexOmni, options: ServingOptions, *, ids: IdSource | None = None
    ) -> None:
        self._omni = omni
        self._options = options
        self._origins = OriginRule(options.allowed_origins)
        self.registry = AttachmentRegistry()
        self.metrics = ServingMetrics()
        register_engine(omni, self.metrics.registry)
        ids = ids or SecretIds()
        self._realtime = OmniDuplexSessionHandler(
            omni,
            self.registry,
            self.metrics,
            ids=ids,
            limits=ConnectionLimits(
                max_frame_bytes=options.max_frame_bytes,
                config_timeout_s=options.config_timeout_s,
                input_stall_timeout_s=omni.runtime_config.input_stall_timeout_s,
            ),
        )
        self._http = HttpRoutes(
            omni.served_models,
            session_mode=options.session_mode,
            health=self.health,
            metrics=self.metrics,
            chat=self._chat(ids),
        )

    def _chat(self, ids: IdSource) -> DuplexChatCompletionsAdapter | None:
        wanted = self._options.chat_backend is not None
        if not wanted and not answers_chat(self._omni.duplex_capabilities):
            return None
        return DuplexChatCompletionsAdapter(
            self._omni,
            self.metrics,
            ids=ids,
            max_body_bytes=self._options.max_frame_bytes,
        )

    def health(self) -> dict[str, Any]:
        """The document of ``/health``."""
        return health_document(
            self._omni.health(),
            plugin=self._omni.spec.name,
            session_mode=self._options.session_mode,
        )

    async def close_sessions(self, timeout_s: float) -> None:
        """Tell every session that the server goes away, and wait until they were told.

        Args:
            timeout_s: longest wait; what is not told by then is not told.
        """
        # Not awaited before the pumps: closing waits for terminal events that the pumps take.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._omni.close_all_sessions("shutdown")
                await self.registry.wait_empty(timeout_s)
        await self.registry.let_go()

    async def realtime(self, websocket: WebSocket) -> None:
        """The realtime routes, in both profiles."""
        socket = StarletteSocket(
            websocket, selected_subprotocol(websocket.scope.get("subprotocols", ()))
        )
        if self._options.session_mode != "duplex":
            await socket.refuse(self._http.unavailable(websocket.url.path))
            return
        envelope = ConnectionEnvelope.from_url(websocket.url.path, websocket.url.query)
        await self._realtime.handle(socket, envelope)

    async def no_such_socket(self, websocket: WebSocket) -> None:
        """Any other WebSocket path."""
        await StarletteSocket(websocket, None).refuse(self._http.unavailable(websocket.url.path))

    def asgi(self) -> Starlette:
        """The application to run."""
        http = self._http
        return Starlette(
            routes=[
                Route("/", http.demo_page),
                Mount(_STATIC_PREFIX, StaticFiles(directory=DEMO_FOLDER)),
                Route("/health", http.report_health),
                Route("/metrics", http.report_metrics),
                Route("/v1/models", http.list_models),
                Route("/v1/models/{model:path}", http.retrieve_model),
                Route("/v1/chat/completions", http.complete_chat, methods=["POST"]),
                *(WebSocketRoute(path, self.realtime) for path in _REALTIME_PATHS),
                WebSocketRoute("/{path:path}", self.no_such_socket),
                Route("/{path:path}", http.not_available, methods=_ALL_METHODS),
            ],
            exception_handlers={HTTPException: _refused, Exception: _failed},
            middleware=[
                Middleware(
                    Gate,
                    keys=ApiKeys(self._options.api_keys),
                    origins=self._origins,
                    open_paths=frozenset({"/", "/health"}),
                    open_prefix=_STATIC_PREFIX,
                )
            ],
        )


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return error_response(error.status_code, "not_found", error.detail)


async def _failed(request: Request, error: Exception) -> Response:
    return error_response(500, "internal_error", "the server failed to answer")
