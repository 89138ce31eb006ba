"""The serving process: engine, application, socket, signals, and the end of all of them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from typing import TypeAlias

import uvicorn

from duplex_server.settings import ResolvedSettings, ServerSettings, SettingsError

from .listening_socket import bind_socket, listen_error, served_address
from .logs import configure_logs
from .panel import print_panel
from .process import loop_factory, tune_collector
from .stack import Application, ServingStack, stack_of

__all__ = ["OnListening", "serve_until_signal"]

OnListening: TypeAlias = Callable[[ResolvedSettings, ServingStack, str], None]

_log = logging.getLogger(__name__)
_TRANSPORT_MARGIN_BYTES = 1024 * 1024
_PING_S = 20.0
_GRACE_AFTER_CLOSE_S = 3.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def serve_until_signal(
    resolved: ResolvedSettings,
    *,
    listening: socket.socket | None = None,
    on_listening: OnListening = print_panel,
) -> int:
    """Start the engine, serve, and end cleanly at SIGINT or SIGTERM.

    Args:
        resolved: what to serve.
        listening: a bound socket, which is closed at the end; None: bound as the settings say.
        on_listening: called with settings, stack and address once clients can come.

    Returns:
        0 after a clean end, 1 when it was interrupted before it served.

    Raises:
        DuplexError: the port is taken, or the plugin cannot be started.
    """
    settings = resolved.settings
    configure_logs(settings.log_level)
    # Bound before the model is loaded: a taken port should be known at once. It listens only when
    # the engine is warm, so no client ever waits for that.
    if listening is None:
        listening = bind_socket(settings.serving.host, settings.serving.port)
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(_serve(resolved, listening, on_listening))
    except KeyboardInterrupt:
        _log.info("stopped before the server was ready")
        return 1
    finally:
        listening.close()
    return 0


async def _serve(
    resolved: ResolvedSettings, listening: socket.socket, on_listening: OnListening
) -> None:
    stack = stack_of(resolved)
    _log.info("starting plugin %s", resolved.spec.name)
    try:
        await stack.omni.start()
        await stack.warm_up()
        await _serve_engine(resolved, stack, listening, on_listening)
    finally:
        await stack.omni.stop()


async def _serve_engine(
    resolved: ResolvedSettings,
    stack: ServingStack,
    listening: socket.socket,
    on_listening: OnListening,
) -> None:
    settings = resolved.settings
    try:
        app = stack.application()
        asgi = app.asgi()
    except ValueError as error:
        raise SettingsError(f"serving.allowed_origins: {error}") from error
    address = served_address(listening, secure=settings.serving.ssl_certfile is not None)
    server = _Server(
        _uvicorn_config(asgi, settings),
        app,
        close_timeout_s=resolved.session_limits.close_timeout_s,
        on_listening=lambda: on_listening(resolved, stack, address),
    )
    tune_collector()
    await server.serve(sockets=[listening])


class _Server(uvicorn.Server):
    """Uvicorn that tells every session first when it stops, and then exits with 0."""

    def __init__(
        self,
        config: uvicorn.Config,
        app: Application,
        *,
        close_timeout_s: float,
        on_listening: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._app = app
        self._close_timeout_s = close_timeout_s
        self._on_listening = on_listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        except OSError as error:
            # Bound as we were, somebody else came first to listen.
            raise listen_error(self.config.host, self.config.port, error) from error
        self._on_listening()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        _log.info("stopping; sessions are told")
        for server in self.servers:
            server.close()
        await self._app.close_sessions(self._close_timeout_s + _GRACE_AFTER_CLOSE_S)
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # Uvicorn raises the signal again when it has shut down, so a clean stop would end in a
        # failure; ours is the end of the program anyway.
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)


def _uvicorn_config(app: object, settings: ServerSettings) -> uvicorn.Config:
    serving = settings.serving
    return uvicorn.Config(
        app,  # type: ignore[arg-type]
        host=serving.host,
        port=serving.port,
        ws="websockets-sansio",
        http="httptools",
        lifespan="off",
        # Deflate costs 45 us a delta and saves a quarter of bytes that are audio.
        ws_per_message_deflate=False,
        ws_max_size=serving.max_frame_bytes + _TRANSPORT_MARGIN_BYTES,
        ws_ping_interval=_PING_S,
        ws_ping_timeout=_PING_S,
        ssl_certfile=serving.ssl_certfile,
        ssl_keyfile=serving.ssl_keyfile,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=int(_GRACE_AFTER_CLOSE_S),
    )
