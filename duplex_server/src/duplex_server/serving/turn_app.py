"""The ASGI application of a server in turn mode."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from duplex_sdk.session.ids import IdSource
from starlette.applications import Starlette

from duplex_server.runtime.ids import SecretIds

from .asgi import ServingOptions, gated
from .chat import EngineChatCompletionsAdapter
from .engine_metrics import register_turn_engine
from .health import health_document
from .http import HttpRoutes
from .metrics import ServingMetrics
from .metrics_sinks import MetricsSinkThreads, figures_of
from .origin import OriginRule

if TYPE_CHECKING:
    from duplex_server.entrypoints import AsyncOmni, TurnModel

__all__ = ["TurnApp"]

_MODE = "turn"
_SINKS_S = 3.0


class TurnApp:
    """Chat completions, and what every server has; realtime routes say which mode this is.

    Args:
        model: what is served.
        omni: its engine, started; starting and stopping it is the caller's.
        options: of this deployment.
        ids: where ids come from.

    Raises:
        ValueError: an allowed origin is not one.
    """

    def __init__(
        self,
        model: TurnModel,
        omni: AsyncOmni,
        options: ServingOptions,
        *,
        ids: IdSource | None = None,
    ) -> None:
        self._model = model
        self._omni = omni
        self._options = options
        self._origins = OriginRule(options.allowed_origins)
        self.metrics = ServingMetrics()
        register_turn_engine(omni, self.metrics.registry)
        self._sinks = MetricsSinkThreads(
            options.extensions.metrics_sinks, lambda: figures_of(self.metrics.registry)
        )
        self._http = HttpRoutes(
            (model.spec.name,),
            session_mode=_MODE,
            health=self.health,
            metrics=self.metrics,
            chat=EngineChatCompletionsAdapter(
                omni,
                model.plugin,
                model.capabilities,
                self.metrics,
                ids=ids or SecretIds(),
                max_body_bytes=options.max_frame_bytes,
            ),
        )

    def health(self) -> dict[str, Any]:
        """The document of ``/health``."""
        return health_document(
            self._omni.health(), plugin=self._model.spec.name, session_mode=_MODE
        )

    async def close_sessions(self, timeout_s: float) -> None:
        """There are none: answers under way end with the engine.

        Args:
            timeout_s: longest wait for what installed packages still take.
        """
        await asyncio.to_thread(self._sinks.close, min(timeout_s, _SINKS_S))

    def asgi(self) -> Starlette:
        """The application to run."""
        routes = [
            *self._http.routes(),
            *self._options.extensions.routes,
            *self._http.other_routes(),
        ]
        return gated(
            routes,
            self._options,
            origins=self._origins,
            open_paths=frozenset({"/health"}),
        )
