"""``DuplexOmniEngine``: an engine that hosts sessions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec
from duplex_sdk.plugin import DuplexModelPlugin, DuplexSessionRuntimeConfig

from duplex_server.runtime.control import (
    ControlMessage,
    ControlResult,
    RoomAskedMessage,
    RoomMadeMessage,
)
from duplex_server.runtime.detection import Detection
from duplex_server.runtime.errors import DuplexSessionError
from duplex_server.runtime.lateness import Lateness
from duplex_server.runtime.offload import Offload
from duplex_server.runtime.output_wakes import OutputWakes
from duplex_server.runtime.services import EngineServices
from duplex_server.runtime.session_factory import SessionFactory
from duplex_server.runtime.session_manager import DuplexSessionManager
from duplex_server.runtime.timers import Timers
from duplex_server.runtime.vad import VadProvider, VadUnavailableError
from duplex_server.stages import Deployment

from .async_omni_engine import AsyncOmniEngine
from .duplex_orchestrator import DuplexOrchestrator
from .errors import EngineBusyError, EngineDeadError, EngineStartError
from .omni_engine_base import EngineOptions

if TYPE_CHECKING:
    from duplex_sdk.plugin import DuplexCapabilities, DuplexStagePort
    from duplex_sdk.session.ids import IdSource
    from duplex_sdk.stage import PipelineConfig

    from duplex_server.runtime.control import SessionMessage
    from duplex_server.stages import Progress, StagePool

    from .orchestrator_base import OrchestratorBase

__all__ = ["DuplexOmniEngine"]

logger = logging.getLogger(__name__)


class DuplexOmniEngine(AsyncOmniEngine):
    """Runs one plugin's pipeline and its sessions.

    Args:
        plugin: the model's light half, loaded.
        pipeline: its stages, with the deployment's changes.
        limits: of the deployment; ``max_sessions`` is set.
        ids: where ids come from.
        clock: seconds; the only clock of the session layer.
        vad: where speech detection comes from.
        progress: called on the engine's thread with 0..1 and what is being loaded.
        deployment: how workers are run, already applied to the pipeline; None: the usual way.
        new_loop: makes the engine's loop; None: uvloop where it is installed.
    """

    def __init__(
        self,
        plugin: DuplexModelPlugin,
        pipeline: PipelineConfig,
        limits: DuplexSessionRuntimeConfig,
        *,
        ids: IdSource,
        clock: Callable[[], float],
        vad: VadProvider | None = None,
        progress: Progress | None = None,
        deployment: Deployment | None = None,
        new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
    ) -> None:
        self.plugin = plugin
        self.limits = limits
        self.capabilities: DuplexCapabilities = plugin.capabilities(
            max_sessions=limits.max_sessions or 1
        )
        native = self.capabilities.supports_model_native_turn_policy
        super().__init__(
            pipeline,
            EngineOptions(
                output_rate=self.capabilities.output_sample_rate_hz,
                native_period_ms=self.capabilities.chunk_period_ms if native else None,
                stage_call_timeout_s=limits.stage_call_timeout_s,
                max_waiting_bytes=limits.max_pending_stage_output_bytes_per_session,
                plugin=plugin.plugin_id,
                deployment=deployment or Deployment(),
                new_loop=new_loop,
            ),
            progress=progress,
        )
        self.lateness = Lateness()
        self._ids = ids
        self._clock = clock
        self._vad = vad or VadProvider(limits.server_vad_model_path)

    @property
    def manager(self) -> DuplexSessionManager | None:
        """The sessions, for counting from outside; None before the start."""
        hosting = self._orchestrator
        return hosting.manager if isinstance(hosting, DuplexOrchestrator) else None

    async def control(self, message: ControlMessage, *, timeout_s: float) -> ControlResult:
        """Carry out a control operation and return how it went.

        Raises:
            DuplexSessionError: ``timeout`` (retryable), ``engine_dead`` or
                ``engine_backpressure``, or what the operation itself failed with.
        """
        waiter = self._rpc.register(message.control_id)
        try:
            self.submit(message)
            async with asyncio.timeout(timeout_s):
                result: ControlResult = await asyncio.wrap_future(waiter)
        except TimeoutError:
            raise DuplexSessionError("timeout", "the engine did not answer", True) from None
        except EngineDeadError as error:
            raise DuplexSessionError("engine_dead", str(error)) from error
        finally:
            self._rpc.forget(message.control_id)
        if result.fault is not None:
            raise DuplexSessionError.of(result.fault, retryable=result.retryable)
        return result

    def submit(self, message: SessionMessage) -> None:
        """Send a message one way.

        Raises:
            DuplexSessionError: ``engine_dead``, or ``engine_backpressure`` (retryable).
        """
        try:
            self.send(message)
        except EngineDeadError as error:
            raise DuplexSessionError("engine_dead", str(error)) from error
        except EngineBusyError as error:
            raise DuplexSessionError("engine_backpressure", str(error), True) from error

    def _validate_deployment(self) -> None:
        if self.pipeline.duplex_plugin is None:
            raise EngineStartError("this pipeline has no plugin for sessions")

    def _create_orchestrator(self, pools: Sequence[StagePool]) -> OrchestratorBase:
        self._warm_up_detector()
        loop = asyncio.get_running_loop()
        self.limits = msgspec.structs.replace(
            self.limits, max_sessions=_slots(self.limits.max_sessions or 1, pools)
        )
        timers = Timers(loop, self._clock)
        offload = Offload(loop)
        wakes = OutputWakes(loop)

        def make_manager(port: DuplexStagePort) -> DuplexSessionManager:
            services = EngineServices(
                loop=loop,
                clock=self._clock,
                timers=timers,
                offload=offload,
                detection=Detection(loop),
                port=port,
                plugin=self.plugin,
                lateness=self.lateness,
                ids=self._ids,
                call_timeout_s=self.limits.stage_call_timeout_s,
            )
            factory = SessionFactory(
                services,
                capabilities=self.capabilities,
                pipeline=self.pipeline,
                limits=self.limits,
                vad=self._vad,
            )
            return DuplexSessionManager(
                services,
                factory,
                self.limits,
                wakes=wakes,
                answer=self._answer,
                room_made=self._room_made,
            )

        def close_helpers() -> None:
            timers.close()
            offload.close()
            wakes.flush()

        self._orchestrator = DuplexOrchestrator(
            self.pipeline,
            pools,
            figures=self.figures,
            max_waiting_bytes=self.options.max_waiting_bytes,
            max_turn_requests=self.options.max_turn_requests,
            reserved_places=self.limits.max_sessions or 0,
            plugin=self.plugin,
            make_manager=make_manager,
            close_helpers=close_helpers,
            shutdown_s=self.limits.close_timeout_s + 1.0,
        )
        return self._orchestrator

    def _warm_up_detector(self) -> None:
        """Load the detector before anybody can speak: a session's first words must be heard."""
        if not self.capabilities.supports_barge_in:
            return
        try:
            self._vad.backend()
        except VadUnavailableError as error:
            logger.warning("server VAD is not available: %s", error)

    def _answer(self, control_id: str, result: ControlResult) -> None:
        if result.fault is not None and result.operation == "open":
            self.figures.rejections[result.fault.code] += 1
        self._rpc.resolve(control_id, result)

    def ask_for_room(self, session_id: str) -> None:
        """Have a session publish how much input it takes; from any thread."""
        self._notify(RoomAskedMessage(session_id))

    def _room_made(self, session_id: str) -> None:
        self._notify(RoomMadeMessage(session_id))

    def _notify(self, message: RoomAskedMessage | RoomMadeMessage) -> None:
        try:
            self.send(message)
        except (EngineDeadError, EngineBusyError) as error:
            logger.debug("a %s was not sent: %s", type(message).__name__, error)


def _slots(wanted: int, pools: Sequence[StagePool]) -> int:
    """Sessions that fit: no more than wanted, nor than any stage can hold."""
    return min([wanted, *(pool.capacity for pool in pools if pool.capacity is not None)])
