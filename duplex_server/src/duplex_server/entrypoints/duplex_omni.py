"""``DuplexOmni``: one plugin, its engine, and the sessions on it, in this process."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from duplex_sdk.discovery import find, load_plugin
from duplex_sdk.plugin import DuplexSessionConfig, DuplexSessionRuntimeConfig, plugin_pipeline
from duplex_sdk.protocol.duplex import SessionClosed

from duplex_server.engine.duplex_omni_engine import DuplexOmniEngine
from duplex_server.runtime.control import (
    CloseSessionMessage,
    OpenSessionMessage,
    ResumeSessionMessage,
    TouchSessionMessage,
)
from duplex_server.runtime.errors import DuplexSessionError
from duplex_server.runtime.ids import SecretIds
from duplex_server.runtime.session_link import LinkLimits, SessionLink
from duplex_server.stages import Deployment

from .async_omni import AsyncOmni
from .engine_health import EngineHealth, health_of
from .session_handle import DuplexSessionHandle

if TYPE_CHECKING:
    from duplex_sdk.plugin import DuplexCapabilities, DuplexModelPlugin, PluginSpec
    from duplex_sdk.session.ids import IdSource
    from duplex_sdk.stage import Json

    from duplex_server.engine.omni_engine_base import OmniEngineBase
    from duplex_server.runtime.vad import VadProvider
    from duplex_server.stages import Progress

__all__ = ["DuplexOmni"]

logger = logging.getLogger(__name__)

CONTROL_TIMEOUT_S = 10.0


class DuplexOmni(AsyncOmni):
    """The in-process API. Call it from one event loop; the engine has a thread of its own.

    Attributes:
        duplex_capabilities: what the model can do.
        runtime_config: limits of the deployment; ``max_sessions`` is filled in.
        served_models: names under which the model is served.
    """

    def __init__(
        self,
        plugin: PluginSpec | str,
        options: Mapping[str, Json] | None = None,
        *,
        runtime_config: DuplexSessionRuntimeConfig | None = None,
        ids: IdSource | None = None,
        clock: Callable[[], float] = time.monotonic,
        vad: VadProvider | None = None,
        progress: Progress | None = None,
        deployment: Deployment | None = None,
        new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
    ) -> None:
        """Load the plugin's light half; no model is loaded before ``start``.

        Args:
            plugin: a descriptor, or the name of an installed plugin.
            options: values for the plugin's options.
            runtime_config: the deployment's limits; None: the defaults.
            ids: where ids come from; None: secret ones.
            clock: seconds, monotonic.
            vad: where speech detection comes from; None: what ``runtime_config`` says.
            progress: called on the engine's thread with 0..1 and what is being loaded.
            deployment: what it changes about the plugin's stages; None: nothing.
            new_loop: makes the engine's loop; None: uvloop where it is installed.

        Raises:
            DuplexError: the plugin cannot be found or loaded, or an option is wrong.
            StageSettingError: the deployment asks of a stage what cannot be.
        """
        spec = find(plugin) if isinstance(plugin, str) else plugin
        loaded = load_plugin(spec, options)
        limits = runtime_config or DuplexSessionRuntimeConfig()
        if limits.max_sessions is None:
            limits = msgspec.structs.replace(limits, max_sessions=spec.max_sessions)
        deployment = deployment or Deployment()
        self.spec = spec
        self._ids = ids or SecretIds()
        self._link_limits = LinkLimits.of(limits)
        self._handles: dict[str, DuplexSessionHandle] = {}
        self._settling: set[asyncio.Task[None]] = set()
        super().__init__(
            plugin=loaded,
            pipeline=deployment.apply(plugin_pipeline(spec, loaded)),
            limits=limits,
            ids=self._ids,
            clock=clock,
            vad=vad,
            progress=progress,
            deployment=deployment,
            new_loop=new_loop,
        )

    def _create_engine(self, **engine_arguments: Any) -> OmniEngineBase:
        self.engine = DuplexOmniEngine(**engine_arguments)
        self.engine.on_death(self._engine_died)
        return self.engine

    async def stop(self) -> None:
        """End every session, then the engine; safe to call twice and after a failed start."""
        await super().stop()
        for handle in tuple(self._handles.values()):
            self._end_handle(handle, "shutdown")

    # What is served

    @property
    def duplex_capabilities(self) -> DuplexCapabilities:
        """What the model can do; constant."""
        return self.engine.capabilities

    @property
    def runtime_config(self) -> DuplexSessionRuntimeConfig:
        """The limits in force."""
        return self.engine.limits

    @property
    def plugin(self) -> DuplexModelPlugin:
        """The plugin's light half."""
        return self.engine.plugin

    @property
    def served_models(self) -> tuple[str, ...]:
        """The names clients may give as ``model``."""
        return (self.spec.name,)

    def health(self) -> EngineHealth:
        """A snapshot for people and monitors; cheap, and safe on a dead engine."""
        return health_of(self.engine)

    def new_event_id(self) -> str:
        """A fresh id for an event that no session makes."""
        return self._ids.event()

    # Sessions

    @property
    def sessions(self) -> Mapping[str, DuplexSessionHandle]:
        """The handles of all sessions that have not ended, by id; a copy."""
        return dict(self._handles)

    @property
    def active_session_count(self) -> int:
        """How many sessions have not ended."""
        return len(self._handles)

    def duplex_session_config(
        self,
        session: Mapping[str, Any] | None = None,
        *,
        profile_defaults: Mapping[str, Any] | None = None,
        lenient: bool = False,
    ) -> DuplexSessionConfig:
        """The config that a session object of the wire means here.

        Raises:
            DuplexConfigError: it is malformed, or asks for what the model does not have.
        """
        return DuplexSessionConfig.from_realtime(
            session or {},
            capabilities=self.duplex_capabilities,
            profile_defaults=profile_defaults or {},
            lenient=lenient,
        )

    async def open_session(
        self,
        config: DuplexSessionConfig | Mapping[str, Any] | None = None,
        *,
        by_update: bool = False,
        profile_defaults: Mapping[str, Any] | None = None,
        lenient: bool = False,
        timeout: float = CONTROL_TIMEOUT_S,  # noqa: ASYNC109 - part of the API, replays need it
    ) -> DuplexSessionHandle:
        """Open a session; its first event is ``session.created``.

        Args:
            config: a config, or a session object of the wire.
            by_update: a client's ``session.update`` opens it: ``session.updated`` follows.
            profile_defaults: session fields that stand where the client says nothing.
            lenient: unknown names are mapped to what the model has instead of refused.
            timeout: seconds the engine may take.

        Raises:
            DuplexSessionError: ``resource_exhausted`` (retryable), ``engine_dead``, ``timeout``
                (retryable), ``failed_precondition`` or the code the plugin refuses with.
            DuplexConfigError: the config is malformed.
        """
        if not isinstance(config, DuplexSessionConfig):
            config = self.duplex_session_config(
                config, profile_defaults=profile_defaults, lenient=lenient
            )
        config = config.for_model(self.spec.name)
        handle = self._new_handle()
        message = OpenSessionMessage(
            self._ids.hex32(), handle.session_id, config, handle.link, by_update
        )
        try:
            result = await self.engine.control(message, timeout_s=timeout)
        except BaseException:
            self._abandon(handle)
            raise
        handle.public_session = result.public_session or {}
        handle.lease_generation = result.lease_generation or 0
        return handle

    def get_session(self, session_id: str) -> DuplexSessionHandle | None:
        """The handle of a session that has not ended."""
        return self._handles.get(session_id)

    async def resume_session(
        self,
        session_id: str,
        expected_lease_generation: int,
        *,
        timeout: float = CONTROL_TIMEOUT_S,  # noqa: ASYNC109
        on_abandoned: Callable[[DuplexSessionHandle, int], None] | None = None,
    ) -> DuplexSessionHandle:
        """Take a session over; of several that expect one generation exactly one succeeds.

        A caller that is cancelled while the engine decides, or gets no answer in time, may have
        succeeded all the same: then ``on_abandoned`` is called with the handle and the generation,
        so that it finds an owner; without it the lease is detached again.

        Raises:
            DuplexSessionError: ``unknown_session``, ``session_closed``,
                ``session_resume_conflict``, ``timeout`` or ``engine_dead``.
        """
        handle = self._known(session_id)
        message = ResumeSessionMessage(self._ids.hex32(), session_id, expected_lease_generation)
        try:
            result = await self.engine.control(message, timeout_s=timeout)
        except asyncio.CancelledError:
            self._spawn(self._settle_resume(handle, message, on_abandoned))
            raise
        except DuplexSessionError as error:
            if error.code == "timeout":
                self._spawn(self._settle_resume(handle, message, on_abandoned))
            raise
        handle.lease_generation = result.lease_generation or 0
        handle.public_session = result.public_session or handle.public_session
        return handle

    async def touch_session(
        self, session_id: str, activity: str, expected_lease_generation: int | None = None
    ) -> None:
        """Show interest in a session: refreshes its lease.

        Raises:
            DuplexSessionError: as ``resume_session``.
        """
        await self._touch(session_id, activity, expected_lease_generation)

    async def detach_session(self, session_id: str, expected_lease_generation: int) -> None:
        """The connection is gone; the session lives on for its grace.

        Raises:
            DuplexSessionError: as ``resume_session``; a lease that moved on is a conflict.
        """
        await self._touch(session_id, "detach", expected_lease_generation)

    async def close_session(
        self,
        session_id: str,
        reason: str = "client_close",
        *,
        timeout: float = CONTROL_TIMEOUT_S,  # noqa: ASYNC109
    ) -> None:
        """End a session and wait for its terminal event; nothing happens when it has ended.

        Raises:
            DuplexSessionError: the engine did not answer; the handle is closed all the same.
        """
        handle = self._handles.get(session_id)
        if handle is None:
            return
        message = CloseSessionMessage(self._ids.hex32(), session_id, reason)
        try:
            await self.engine.control(message, timeout_s=timeout)
        except BaseException:
            self._end_handle(handle, reason)
            raise

    async def close_all_sessions(self, reason: str = "shutdown") -> None:
        """End every session; one that fails to is logged and stops no other."""
        ids = tuple(self._handles)
        results = await asyncio.gather(
            *(self.close_session(each, reason) for each in ids), return_exceptions=True
        )
        for session_id, result in zip(ids, results, strict=True):
            if isinstance(result, Exception):
                logger.warning("closing session %s failed: %s", session_id, result)

    def forget_session(self, session_id: str) -> None:
        """Its handle has nothing more to come; on whatever thread."""
        self._handles.pop(session_id, None)

    # Parts

    def _new_handle(self) -> DuplexSessionHandle:
        handle = DuplexSessionHandle(
            self._ids.session(),
            omni=self,
            capabilities=self.duplex_capabilities,
            link=SessionLink(self._link_limits),
        )
        self._handles[handle.session_id] = handle
        return handle

    def _known(self, session_id: str) -> DuplexSessionHandle:
        handle = self._handles.get(session_id)
        if handle is None:
            raise DuplexSessionError("unknown_session", "no such session")
        return handle

    async def _touch(self, session_id: str, activity: str, generation: int | None) -> None:
        self._known(session_id)
        message = TouchSessionMessage(self._ids.hex32(), session_id, activity, generation)
        await self.engine.control(message, timeout_s=CONTROL_TIMEOUT_S)

    def _abandon(self, handle: DuplexSessionHandle) -> None:
        """The open failed or nobody waits for it any more: whatever came of it must go."""
        handle.mark_closed("open_abandoned")
        try:
            self.engine.submit(CloseSessionMessage("", handle.session_id, "open_abandoned"))
        except DuplexSessionError as error:
            logger.debug("an abandoned session was not closed: %s", error)

    async def _settle_resume(
        self,
        handle: DuplexSessionHandle,
        message: ResumeSessionMessage,
        on_abandoned: Callable[[DuplexSessionHandle, int], None] | None,
    ) -> None:
        """Ask again with the same control id, which changes nothing, until the outcome is known."""
        pause = 0.5
        while not handle.closed:
            try:
                result = await self.engine.control(message, timeout_s=CONTROL_TIMEOUT_S)
            except DuplexSessionError as error:
                if error.code != "timeout":
                    return
                await asyncio.sleep(pause)
                pause = min(5.0, 2 * pause)
                continue
            generation = result.lease_generation or 0
            handle.lease_generation = max(handle.lease_generation, generation)
            if on_abandoned is not None:
                on_abandoned(handle, generation)
            else:
                await self._touch(handle.session_id, "detach", generation)
            return

    def _spawn(self, coroutine: Any) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)

    def _engine_died(self, reason: str) -> None:
        logger.error("the engine died: %s", reason)
        for handle in tuple(self._handles.values()):
            self._end_handle(handle, "engine_dead")

    def _end_handle(self, handle: DuplexSessionHandle, reason: str) -> None:
        """Give the terminal event that the session itself can no longer give."""
        handle.link.output.close(
            SessionClosed(event_id=self._ids.event(), session_id=handle.session_id, reason=reason)
        )
        handle.mark_closed(reason)
