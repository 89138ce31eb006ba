"""An engine without a model: it records what it is given and says what a test tells it to."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

import pytest
import uvicorn
from duplex_sdk.plugin import DuplexCapabilities, DuplexSessionRuntimeConfig, PluginSpec
from duplex_sdk.protocol.duplex import (
    DuplexEvent,
    RealtimeCommand,
    SessionClosed,
    SessionCreated,
    SessionUpdated,
    error_event,
)
from duplex_sdk.stage import PipelineConfig, StageConfig
from duplex_sdk.testing.seeded_ids import SeededIds
from duplex_server.engine.figures import EngineFigures
from duplex_server.entrypoints import EngineHealth, StageHealth
from duplex_server.runtime.errors import DuplexSessionError
from duplex_server.runtime.session_link import LinkLimits, SessionLink
from duplex_server.serving import DuplexApp, ServingOptions
from duplex_server.stages import ReplicaStatus


class EngineStub:
    """The calls of an engine that the serving layer makes."""

    served_models = ("stub",)
    spec = PluginSpec(name="stub", api="1.0", factory="no.module:Stub")
    pipeline = PipelineConfig(stages=(StageConfig(id="only", model="no.module:Model"),))

    def __init__(self, **limits: Any) -> None:
        self.runtime_config = DuplexSessionRuntimeConfig(**{"max_sessions": 2} | limits)
        self.duplex_capabilities = DuplexCapabilities()
        self.sessions: dict[str, SessionStub] = {}
        self.opened: list[SessionStub] = []
        self.idle_timeout_s = 300.0
        self.figures = EngineFigures()
        self.dead: str | None = None
        self.replicas = (ReplicaStatus(0, "ready", 0, "", 0, None),)

    def health(self) -> EngineHealth:
        if self.dead is not None:
            return EngineHealth(False, self.dead)
        return EngineHealth(
            True,
            "",
            open_sessions=len(self.sessions),
            slots_used=len(self.sessions),
            slots_max=self.runtime_config.max_sessions or 0,
            stages=(StageHealth("only", self.replicas),),
        )

    async def open_session(
        self,
        config: Mapping[str, Any] | None,
        *,
        by_update: bool = False,
        profile_defaults: Mapping[str, Any] | None = None,
        lenient: bool = False,
    ) -> SessionStub:
        if len(self.sessions) >= self.runtime_config.max_sessions:
            raise DuplexSessionError("resource_exhausted", "no free session slot", True)
        if config is not None and "bad" in config:
            raise DuplexSessionError("invalid_session_config", "bad", param="session.bad")
        session = SessionStub(self, config, dict(profile_defaults or {}), lenient)
        self.sessions[session.session_id] = session
        self.opened.append(session)
        session.say(SessionCreated(session=session.public()))
        if by_update:
            session.say(SessionUpdated(session=session.public()))
        return session

    async def close_all_sessions(self, reason: str) -> None:
        for session in list(self.sessions.values()):
            await session.close(reason)


class SessionStub:
    """A session that answers nothing by itself but its end."""

    def __init__(
        self,
        engine: EngineStub,
        config: Mapping[str, Any] | None,
        defaults: dict[str, Any],
        lenient: bool,
    ) -> None:
        self.session_id = f"duplex-{len(engine.opened)}"
        self.config = config
        self.profile_defaults = defaults
        self.lenient = lenient
        self.commands: list[RealtimeCommand] = []
        self.on_command: Callable[[RealtimeCommand], None] | None = None
        self.epoch = 0
        self.close_reason: str | None = None
        self.capabilities = engine.duplex_capabilities
        self.link = SessionLink(LinkLimits.of(engine.runtime_config))
        self.lease_generation = 0
        self._engine = engine
        self._count = 0

    def public(self) -> dict[str, Any]:
        return {
            "id": self.session_id,
            "type": "realtime",
            "object": "realtime.session",
            "idle_timeout_s": self._engine.idle_timeout_s,
        }

    @property
    def public_session(self) -> dict[str, Any]:
        return self.public()

    @property
    def closed(self) -> bool:
        return self.close_reason is not None

    def say(self, event: DuplexEvent) -> None:
        """Emit an event, identified as the session would."""
        import msgspec

        self._count += 1
        self.link.output.put(
            msgspec.structs.replace(
                event,
                event_id=f"event_{self._count}",
                session_id=self.session_id,
                epoch=self.epoch,
            )
        )
        self.flush()

    def flush(self) -> None:
        flush = getattr(self.link.output, "flush", None)
        if flush is not None:
            flush()

    def refuse(self, command: RealtimeCommand, code: str) -> None:
        self.say(
            error_event(code, code, new_id="", event_id=command.event_id, command=command.type)
        )

    def submit(self, command: RealtimeCommand, *, lenient: bool = False) -> None:
        if self.closed:
            raise DuplexSessionError("session_closed", "the session is closed")
        self.commands.append(command)
        if self.on_command is not None:
            self.on_command(command)

    async def wait_for_room(self, count: int = 0, *, turn: bool = False) -> bool:
        return await self.link.room.wait(count, lambda: None, turn=turn)

    async def events(self) -> AsyncIterator[DuplexEvent]:
        while (event := await self.link.output.get()) is not None:
            if self.link.output.is_valid(event):
                yield event

    def output_guard(self, event: DuplexEvent) -> contextlib.AbstractContextManager[bool]:
        return self.link.output.guard(event)

    async def close(self, reason: str = "client_close") -> None:
        self.end(reason)

    def end(self, reason: str) -> None:
        """The session ends with its terminal event."""
        if self.closed:
            return
        self.close_reason = reason
        self._engine.sessions.pop(self.session_id, None)
        self.say(SessionClosed(reason=reason, event={"type": "session.closed", "reason": reason}))


class LocalServer:
    """A real server on a free port, with the stub behind it."""

    def __init__(self, engine: EngineStub, options: ServingOptions) -> None:
        self.app = DuplexApp(engine, options, ids=SeededIds(1))  # type: ignore[arg-type]
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        config = uvicorn.Config(
            self.app.asgi(),
            ws="websockets-sansio",
            lifespan="off",
            log_config=None,
            ws_per_message_deflate=False,
            ws_max_size=options.max_frame_bytes + 2**20,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign]
        self._task: asyncio.Task[None] | None = None

    def url(self, path: str, scheme: str = "ws") -> str:
        return f"{scheme}://127.0.0.1:{self.port}{path}"

    async def __aenter__(self) -> LocalServer:
        self._task = asyncio.create_task(self._server.serve(sockets=[self._listening]))
        while not self._server.started:  # noqa: ASYNC110 - uvicorn offers no event
            await asyncio.sleep(0.005)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.should_exit = True
        assert self._task is not None
        await self._task


@pytest.fixture
def start_server() -> Iterator[Callable[..., LocalServer]]:
    def start(engine: EngineStub | None = None, **options: Any) -> LocalServer:
        return LocalServer(engine or EngineStub(), ServingOptions(**options))

    return start


@pytest.fixture
def engine() -> EngineStub:
    return EngineStub()


@pytest.fixture
def full_engine() -> EngineStub:
    stub = EngineStub(max_sessions=1)
    stub.sessions["duplex-somebody"] = SessionStub(stub, None, {}, False)
    return stub


@pytest.fixture
def make_engine() -> Callable[..., EngineStub]:
    return EngineStub
