"""``OmniEngineBase``: the engine's thread, its loop and the way to it."""

from __future__ import annotations

import asyncio
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from duplex_server.runtime.crossing import Crossing
from duplex_server.stages import Deployment, build_pools, start_pools, stop_pools

from .errors import EngineBusyError, EngineDeadError
from .figures import EngineFigures
from .rpc import RpcRouter
from .unheard import Unheard

if TYPE_CHECKING:
    from duplex_sdk.stage import PipelineConfig

    from duplex_server.stages import Progress, StagePool

    from .orchestrator_base import OrchestratorBase

__all__ = ["EngineOptions", "OmniEngineBase"]

logger = logging.getLogger(__name__)

QUEUE_LIMIT = 65_536
"""Messages on their way to the engine; beyond it the engine is far behind."""


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How an engine runs its stages.

    Attributes:
        output_rate: Hz of all audio stages give; None: not checked.
        native_period_ms: unit period of a model that decides its own turns.
        stage_call_timeout_s: a call of a model that lasts longer counts as stuck.
        max_waiting_bytes: how much of one session may wait between stages.
        max_turn_requests: how many requests without a session may be under way.
        plugin: its name, for the logs of its workers.
        deployment: how workers are run, already applied to the pipeline.
        stop_grace_s: how long stages get to end.
        new_loop: makes the engine's loop; None: uvloop where it is installed.
    """

    output_rate: int | None = None
    native_period_ms: float | None = None
    stage_call_timeout_s: float = 10.0
    max_waiting_bytes: int = 8 * 1024 * 1024
    max_turn_requests: int = 256
    plugin: str = ""
    deployment: Deployment = field(default_factory=Deployment)
    stop_grace_s: float = 2.0
    new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None


class OmniEngineBase(ABC):
    """Runs an orchestrator and its stages on a thread of their own.

    ``start``, ``stop`` and ``send`` may be called from any thread.

    Args:
        pipeline: the stages.
        options: how they are run.
        progress: called on the engine's thread with 0..1 and what is being loaded.
    """

    def __init__(
        self,
        pipeline: PipelineConfig,
        options: EngineOptions,
        *,
        progress: Progress | None = None,
    ) -> None:
        self.pipeline = pipeline
        self.options = options
        self.figures = EngineFigures()
        self._progress = progress or (lambda fraction, text: None)
        self._rpc = RpcRouter()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._crossing: Crossing[Any] | None = None
        self._stop: asyncio.Event | None = None
        self._main: asyncio.Task[None] | None = None
        self._ready: Future[None] = Future()
        self._ended: Future[None] = Future()
        self._pools: tuple[StagePool, ...] = ()
        self._death: str | None = None
        self._on_death: list[Callable[[str], None]] = []

    # Life

    def start(self) -> Future[None]:
        """Start the thread; the future is done when every stage is loaded.

        It fails with ``StageLoadError`` or whatever else stopped the start; the engine is then
        of no further use.
        """
        self._validate_deployment()
        self._thread = threading.Thread(target=self._run_thread, name="duplex-engine", daemon=True)
        self._thread.start()
        return self._ready

    def stop(self) -> Future[None]:
        """Ask the engine to end; the future is done when its thread has nothing left to do."""
        loop = self._loop
        if loop is None or loop.is_closed():
            if self._thread is None and not self._ended.done():
                self._ended.set_result(None)
            return self._ended
        try:
            loop.call_soon_threadsafe(self._ask_to_stop)
        except RuntimeError:
            logger.debug("the engine had stopped already")
        return self._ended

    @property
    def alive(self) -> bool:
        """Started, and neither stopped nor dead."""
        return self._crossing is not None and self._death is None and not self._crossing.closed

    @property
    def death(self) -> str | None:
        """Why the engine ended without having been asked; None: it did not."""
        return self._death

    @property
    def pools(self) -> tuple[StagePool, ...]:
        """The stages, for their states; empty before the start."""
        return self._pools

    def on_death(self, callback: Callable[[str], None]) -> None:
        """Have a callback called with the reason, on the engine's thread, should it die."""
        self._on_death.append(callback)

    # Messages

    def send(self, message: Any) -> None:
        """Hand the engine a message, without waiting; messages of one thread stay in order.

        Raises:
            EngineDeadError: nobody takes it.
            EngineBusyError: the engine is too far behind.
        """
        crossing = self._crossing
        if crossing is not None and crossing.put(message):
            return
        if crossing is not None and not crossing.closed:
            raise EngineBusyError("the engine does not keep up")
        raise EngineDeadError(self._death or "the engine is not running")

    # Seams

    def _validate_deployment(self) -> None:
        """Refuse what can't run, before anything is loaded."""
        return None

    @abstractmethod
    def _create_orchestrator(self, pools: Sequence[StagePool]) -> OrchestratorBase:
        """The orchestrator, on the engine's loop, once the stages are loaded."""

    # The thread

    def _run_thread(self) -> None:
        loop = (self.options.new_loop or _new_loop)()
        asyncio.set_event_loop(loop)
        self._loop = loop
        reason: str | None = None
        failure: BaseException | None = None
        try:
            self._main = loop.create_task(self._run())
            loop.run_until_complete(self._main)
        except asyncio.CancelledError:
            logger.debug("the engine was stopped while it started")
        except BaseException as error:
            failure = error
        if failure is not None and self._ready.done():
            logger.critical("the engine died", exc_info=failure)
            reason = f"{type(failure).__name__}: {failure}"
        self._finish(loop, reason, failure)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._pools = build_pools(
            self.pipeline,
            Unheard(),
            output_rate=self.options.output_rate,
            native_period_ms=self.options.native_period_ms,
            stage_call_timeout_s=self.options.stage_call_timeout_s,
            plugin=self.options.plugin,
            deployment=self.options.deployment,
        )
        await start_pools(self._pools, self._progress)
        try:
            orchestrator = self._create_orchestrator(self._pools)
            for pool in self._pools:
                pool.listener = orchestrator
            self._crossing = Crossing(loop, orchestrator.dispatch, limit=QUEUE_LIMIT)
            self._ready.set_result(None)
            await orchestrator.run(self._stop)
        finally:
            await stop_pools(self._pools, grace_s=self.options.stop_grace_s)

    def _ask_to_stop(self) -> None:
        if self._ready.done() and self._stop is not None:
            self._stop.set()
        elif self._main is not None:
            self._main.cancel()

    def _finish(
        self,
        loop: asyncio.AbstractEventLoop,
        reason: str | None,
        failure: BaseException | None,
    ) -> None:
        self._death = reason
        if self._crossing is not None:
            self._crossing.close()
        error = EngineDeadError(reason or "the engine has stopped")
        self._rpc.fail_all(error)
        if not self._ready.done():
            self._ready.set_exception(failure or error)
        if reason is not None:
            for callback in self._on_death:
                callback(reason)
            _wind_up(loop, self.options.stop_grace_s)
        asyncio.set_event_loop(None)
        loop.close()
        self._ended.set_result(None)


def _wind_up(loop: asyncio.AbstractEventLoop, timeout_s: float) -> None:
    """Let what still runs on a dead engine's loop end, at most so long."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.wait(tasks, timeout=timeout_s))


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
