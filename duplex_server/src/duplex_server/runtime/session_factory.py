"""Everything that must be true and be there before a session can start."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from duplex_sdk.errors import DuplexError
from duplex_sdk.session.engine_session import DuplexEngineSession
from duplex_sdk.session.inputs import Fault

from .ear import SessionEar
from .errors import DuplexSessionError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duplex_sdk.plugin import (
        DuplexCapabilities,
        DuplexSessionConfig,
        DuplexSessionRuntimeConfig,
    )
    from duplex_sdk.stage import PipelineConfig

    from .services import EngineServices
    from .vad import VadProvider

__all__ = ["PreparedSession", "SessionFactory", "fault_of"]


@dataclass(frozen=True, slots=True)
class PreparedSession:
    """A session and its ear, not started."""

    session: DuplexEngineSession
    ear: SessionEar


class SessionFactory:
    """Makes sessions of one deployment. All calls come on the engine's loop.

    Attributes:
        capabilities: of the plugin, asked once.
    """

    def __init__(
        self,
        services: EngineServices,
        *,
        capabilities: DuplexCapabilities,
        pipeline: PipelineConfig,
        limits: DuplexSessionRuntimeConfig,
        vad: VadProvider,
    ) -> None:
        self.capabilities = capabilities
        self._services = services
        self._pipeline = pipeline
        self._limits = limits
        self._vad = vad

    async def prepare(self, session_id: str, config: DuplexSessionConfig) -> PreparedSession:
        """Validate the config with the plugin and build the session.

        Raises:
            DuplexError: the plugin refuses, with its code.
            TimeoutError: a hook took longer than a stage call may.
            RuntimeError: a stage has no live replica.
        """
        plugin, port = self._services.plugin, self._services.port
        defaults = port.sampling_defaults()
        plugin.validate_client_extra_body(config.extra_body)
        public = MappingProxyType(config.for_stages(session_id))
        async with asyncio.timeout(self._services.call_timeout_s):
            runtime = await plugin.prepare_runtime_config(public, model_config=plugin.options)
        plugin.configure_sampling_params(runtime_config=runtime, defaults=defaults)
        session = self._session(session_id, config, runtime)
        ear = SessionEar(
            self.capabilities.input_sample_rate_hz,
            vad=self._vad,
            input_processor=plugin.create_input_processor(public),
        )
        return PreparedSession(session, ear)

    def _session(
        self, session_id: str, config: DuplexSessionConfig, runtime: Mapping[str, Any]
    ) -> DuplexEngineSession:
        return DuplexEngineSession(
            session_id,
            config=config,
            capabilities=self.capabilities,
            plugin=self._services.plugin,
            pipeline=self._pipeline,
            limits=self._limits,
            runtime_config=runtime,
            ids=self._services.ids,
            wall_time=time.time(),
            now=self._services.clock(),
        )


def fault_of(error: BaseException) -> tuple[Fault, bool]:
    """The fault a control operation is answered with, and whether trying again may help."""
    if isinstance(error, DuplexSessionError):
        return Fault(error.code, error.message, error.param), error.retryable
    message = str(error) or type(error).__name__
    code = getattr(error, "code", None)
    if isinstance(error, DuplexError) and isinstance(code, str):
        return Fault(code, message, getattr(error, "param", None)), False
    if isinstance(error, TimeoutError):
        return Fault("timeout", "the model's preparation took too long"), True
    if isinstance(error, asyncio.CancelledError):
        return Fault("session_closed", "the open was called off"), False
    if isinstance(error, KeyError):
        return Fault("not_found", message), False
    if isinstance(error, TypeError | ValueError):
        return Fault("invalid_argument", message), False
    return Fault("failed_precondition", message), False
