"""The ASGI application: every route of the server, behind one gate."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from duplex_sdk.session.ids import IdSource
from starlette.applications import Starlette
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.websockets import WebSocket

from duplex_server.runtime.ids import SecretIds

from .asgi import ServingOptions, gated
from .attachments import AttachmentRegistry
from .auth import selected_subprotocol
from .chat import (
    ChatCompletionsAdapter,
    DuplexChatCompletionsAdapter,
    EngineChatCompletionsAdapter,
    answers_chat,
    serves_requests,
)
from .engine_metrics import register_engine
from .envelope import ConnectionEnvelope
from .health import health_document
from .http import DEMO_FOLDER, HttpRoutes
from .metrics import ServingMetrics
from .metrics_sinks import MetricsSinkThreads, figures_of
from .observers import ObserverThreads
from .origin import OriginRule
from .realtime import ConnectionLimits, OmniDuplexSessionHandler
from .websocket import StarletteSocket

if TYPE_CHECKING:
    from duplex_server.entrypoints import DuplexOmni

__all__ = ["DuplexApp"]

_MODE = "duplex"
_STATIC_PREFIX = "/static/"
_REALTIME_PATHS = ("/v1/realtime", "/v1/duplex")
_OBSERVERS_S = 3.0
_SINKS_S = 3.0


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
        self._observers = ObserverThreads(options.extensions.observers)
        register_engine(omni, self.metrics.registry)
        self._sinks = MetricsSinkThreads(
            options.extensions.metrics_sinks, lambda: figures_of(self.metrics.registry)
        )
        ids = ids or SecretIds()
        self._realtime = OmniDuplexSessionHandler(
            omni,
            self.registry,
            self.metrics,
            observers=self._observers,
            ids=ids,
            limits=ConnectionLimits(
                max_frame_bytes=options.max_frame_bytes,
                config_timeout_s=options.config_timeout_s,
                input_stall_timeout_s=omni.runtime_config.input_stall_timeout_s,
            ),
        )
        self._http = HttpRoutes(
            omni.served_models,
            session_mode=_MODE,
            health=self.health,
            metrics=self.metrics,
            chat=self._chat(ids),
        )

    def _chat(self, ids: IdSource) -> ChatCompletionsAdapter | None:
        omni, options = self._omni, self._options
        serves = serves_requests(omni, omni.duplex_capabilities)
        if options.chat_backend == "engine" or (options.chat_backend is None and serves):
            return EngineChatCompletionsAdapter(
                omni,
                omni.plugin,
                omni.duplex_capabilities,
                self.metrics,
                ids=ids,
                max_body_bytes=options.max_frame_bytes,
            )
        if options.chat_backend is None and not answers_chat(omni.duplex_capabilities):
            return None
        return DuplexChatCompletionsAdapter(
            omni, self.metrics, ids=ids, max_body_bytes=options.max_frame_bytes
        )

    def health(self) -> dict[str, Any]:
        """The document of ``/health``."""
        return health_document(
            self._omni.health(),
            plugin=self._omni.spec.name,
            session_mode=_MODE,
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
        await asyncio.to_thread(self._observers.close, _OBSERVERS_S)
        await asyncio.to_thread(self._sinks.close, _SINKS_S)

    async def realtime(self, websocket: WebSocket) -> None:
        """The realtime routes, in both profiles."""
        socket = StarletteSocket(
            websocket, selected_subprotocol(websocket.scope.get("subprotocols", ()))
        )
        envelope = ConnectionEnvelope.from_url(websocket.url.path, websocket.url.query)
        await self._realtime.handle(socket, envelope)

    def asgi(self) -> Starlette:
        """The application to run."""
        http = self._http
        routes = [
            Route("/", http.demo_page),
            Mount(_STATIC_PREFIX, StaticFiles(directory=DEMO_FOLDER)),
            *http.routes(),
            *(WebSocketRoute(path, self.realtime) for path in _REALTIME_PATHS),
            *self._options.extensions.routes,
            *http.other_routes(),
        ]
        return gated(
            routes,
            self._options,
            origins=self._origins,
            open_paths=frozenset({"/", "/health"}),
            open_prefix=_STATIC_PREFIX,
        )
