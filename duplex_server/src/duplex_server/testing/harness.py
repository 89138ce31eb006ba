"""The harness: engines and servers that live as long as a test, with no address to agree on."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import uvicorn
from duplex_sdk.clients import DuplexClient, DuplexClientBase

from duplex_server.entrypoints import AsyncOmni, DuplexOmni, InlineDuplexClient, TurnModel
from duplex_server.serving import DuplexApp, ServingOptions, TurnApp

if TYPE_CHECKING:
    from duplex_sdk.plugin import DuplexSessionRuntimeConfig, PluginSpec
    from duplex_sdk.session.ids import IdSource
    from duplex_sdk.stage import Json

    from duplex_server.runtime.vad import VadProvider
    from duplex_server.stages import Deployment

__all__ = ["Harness", "RunningServer", "RunningTurnServer"]

START_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server on a free port of this machine's loopback.

    Attributes:
        omni: its engine.
        url: where its realtime route is, ``ws://127.0.0.1:PORT``.
    """

    omni: DuplexOmni
    url: str

    def client(self, session: Mapping[str, Any] | None = None, **options: Any) -> DuplexClient:
        """A client of it, not connected; the options are those of ``DuplexClient``."""
        return DuplexClient(self.url, session, **options)


@dataclass(frozen=True, slots=True)
class RunningTurnServer:
    """A server in turn mode, on a free port of this machine's loopback.

    Attributes:
        omni: its engine.
        url: where its routes are, ``http://127.0.0.1:PORT``.
    """

    omni: AsyncOmni
    url: str


class Harness:
    """Lends running engines and servers. Everything it starts ends with its ``async with``."""

    @asynccontextmanager
    async def engine(
        self,
        plugin: PluginSpec | str,
        options: Mapping[str, Json] | None = None,
        *,
        limits: DuplexSessionRuntimeConfig | None = None,
        ids: IdSource | None = None,
        vad: VadProvider | None = None,
        deployment: Deployment | None = None,
        new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
    ) -> AsyncIterator[DuplexOmni]:
        """A started engine in this process; the arguments are those of ``DuplexOmni``."""
        omni = DuplexOmni(
            plugin,
            options,
            runtime_config=limits,
            ids=ids,
            vad=vad,
            deployment=deployment,
            new_loop=new_loop,
        )
        async with omni:
            yield omni

    @asynccontextmanager
    async def server(
        self,
        plugin: PluginSpec | str,
        options: Mapping[str, Json] | None = None,
        *,
        serving: ServingOptions | None = None,
        **engine_options: Any,
    ) -> AsyncIterator[RunningServer]:
        """A served engine; ``engine_options`` are those of ``engine``."""
        async with self.engine(plugin, options, **engine_options) as omni:
            app = DuplexApp(omni, serving or ServingOptions())
            async with _listening(app) as address:
                yield RunningServer(omni, f"ws://{address}")

    @asynccontextmanager
    async def turn_server(
        self,
        plugin: PluginSpec | str,
        options: Mapping[str, Json] | None = None,
        *,
        serving: ServingOptions | None = None,
        deployment: Deployment | None = None,
    ) -> AsyncIterator[RunningTurnServer]:
        """A served engine without sessions."""
        model = TurnModel.load(plugin, options, deployment=deployment)
        async with model.async_omni() as omni:
            app = TurnApp(model, omni, serving or ServingOptions())
            async with _listening(app) as address:
                yield RunningTurnServer(omni, f"http://{address}")

    def inline_client(
        self, omni: DuplexOmni, session: Mapping[str, Any] | None = None, **options: Any
    ) -> DuplexClientBase:
        """A client without a socket, not opened."""
        return InlineDuplexClient(omni, session, **options)


@asynccontextmanager
async def _listening(app: DuplexApp | TurnApp) -> AsyncIterator[str]:
    listening = socket.create_server(("127.0.0.1", 0))
    # As ``duplex serve`` has it.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    server = uvicorn.Server(
        uvicorn.Config(
            app.asgi(),
            ws="websockets-sansio",
            ws_per_message_deflate=False,
            lifespan="off",
            log_config=None,
        )
    )
    serving_task = asyncio.create_task(_serve(server, listening))
    try:
        await _wait_started(server, serving_task)
        yield f"127.0.0.1:{listening.getsockname()[1]}"
    finally:
        await app.close_sessions(5.0)
        server.should_exit = True
        await serving_task


async def _serve(server: uvicorn.Server, listening: socket.socket) -> None:
    # ``Server.serve`` would take the process's signal handlers, which belong to the test runner.
    server.config.load()
    server.lifespan = server.config.lifespan_class(server.config)
    try:
        await server.startup(sockets=[listening])
        await server.main_loop()
        await server.shutdown(sockets=[listening])
    finally:
        listening.close()


async def _wait_started(server: uvicorn.Server, task: asyncio.Task[None]) -> None:
    async with asyncio.timeout(START_TIMEOUT_S):
        while not server.started:
            if task.done():
                task.result()
                raise RuntimeError("the server ended before it had started")
            await asyncio.sleep(0.01)
