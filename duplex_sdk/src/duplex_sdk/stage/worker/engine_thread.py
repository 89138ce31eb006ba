"""The thread of a worker whose model is served by vLLM: one event loop for all its sessions."""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING

from duplex_sdk.stage.device import free_memory_or_raise, resolve_device
from duplex_sdk.stage.host.result import HostResult
from duplex_sdk.stage.host.unit_host import UnitHost
from duplex_sdk.stage.model import StageInfo, StageLoadError
from duplex_sdk.stage.vllm import BackendSettings, EngineLostError, VllmHost
from duplex_sdk.stage.vllm.devices import engine_width

from .descendants import shared_memory_of
from .engine_link import EngineLink, LinkLostError
from .group_guard import GroupGuard
from .host_thread import HostThread
from .messages import Call, CallResult, Load, LoadFailed, Progress, Ready
from .passing import pass_on_result

if TYPE_CHECKING:
    from duplex_sdk.stage.vllm.async_llm import AsyncLLMEngine

__all__ = ["EngineThread"]

logger = logging.getLogger(__name__)

_SHUTDOWN_S = 5.0


class EngineThread(HostThread):
    """Starts an ``AsyncLLM``, then serves sessions with it until told to end or the engine dies."""

    def __init__(self, link: EngineLink, load: Load, *, on_broken: Callable[[], None]) -> None:
        """Make a thread that is not started.

        Args:
            link: where everything goes.
            load: what to run.
            on_broken: called on the thread when the engine died, which ends the worker.
        """
        self._link = link
        self._load = load
        self._on_broken = on_broken
        self._loop = asyncio.new_event_loop()
        self._ended = asyncio.Event()
        self._host: VllmHost | None = None
        self._engine: AsyncLLMEngine | None = None
        self._guard: GroupGuard | None = None
        self._grace_s = _SHUTDOWN_S
        self._thread = threading.Thread(target=self._run, name="vllm", daemon=True)

    def start(self) -> None:
        """See ``HostThread``."""
        self._thread.start()

    def post(self, call: Callable[[UnitHost], None]) -> None:
        """See ``HostThread``."""
        self._loop.call_soon_threadsafe(self._make, call)

    def answer(self, call: Call) -> None:
        """See ``HostThread``."""
        self._loop.call_soon_threadsafe(self._answer, call)

    @property
    def busy_ms(self) -> float:
        """See ``HostThread``; the engine's silence while it owes somebody an answer."""
        since = None if self._host is None else self._host.busy_since
        return 0.0 if since is None else (time.monotonic() - since) * 1000

    def end(self, grace_s: float) -> None:
        """See ``HostThread``."""
        self._grace_s = grace_s
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(grace_s)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except LinkLostError:
            # The main thread sees the same and ends the process.
            logger.debug("the engine is gone")
        except BaseException:  # whatever it was, nobody serves any more
            logger.exception("the vllm thread broke down")
            self._on_broken()

    async def _serve(self) -> None:
        try:
            engine, info = self._loaded()
        except LinkLostError:
            raise
        except (
            Exception,
            SystemExit,
        ) as error:  # whatever vLLM does: the start fails, and says why
            trace = "".join(traceback.format_exception(error))
            if not isinstance(error, StageLoadError):
                error = StageLoadError(f"vLLM did not start: {error}")
            self._link.send(LoadFailed(str(error), error.hint, trace))
            return
        self._engine = engine
        self._host = VllmHost(
            engine,
            BackendSettings.of(self._load.options),
            on_result=self._pass_on,
            on_engine_lost=self._give_up,
            clock=time.monotonic,
            period_ms=self._load.period_ms,
        )
        self._link.send(Ready(info))
        await self._until_ended(engine)
        self._host.shutdown()
        engine.stop(self._grace_s)

    def _loaded(self) -> tuple[AsyncLLMEngine, StageInfo]:
        load = self._load
        settings = BackendSettings.of(load.options)
        # Replicas that take several devices each do not share them.
        device = resolve_device(load.device, load.replica_id * engine_width(load.vllm))
        free_memory_or_raise(device, load.memory_bytes)
        self._link.send(Progress(0.0, f"starting vLLM with {load.vllm.get('model')}"))
        guard = self._guarded()
        # vLLM's engine and tokenizer are loaded here and nowhere else: no server imports them.
        from duplex_sdk.stage.vllm.async_llm import AsyncLLMEngine

        engine = AsyncLLMEngine(
            load.vllm, settings, device=device, slots=load.max_batch, sampling=load.sampling
        )
        # Cleared up by vLLM itself only when it is given the seconds that this takes.
        guard.remove_at_the_end(*shared_memory_of(os.getpid()))
        self._link.send(Progress(1.0, f"vLLM is ready on {device}"))
        # A session holds a place in the engine as long as it lives, also when it is silent.
        return engine, StageInfo(device, load.memory_bytes, engine.slots)

    def _guarded(self) -> GroupGuard:
        """See that nothing is left of vLLM, which computes in processes of its own.

        They don't notice when this one is killed, and talk to it through files.
        """
        guard = self._guard = GroupGuard()
        folder = tempfile.mkdtemp(prefix="duplex-vllm-")
        guard.remove_at_the_end(folder)
        os.environ.setdefault("VLLM_RPC_BASE_PATH", folder)
        return guard

    async def _until_ended(self, engine: AsyncLLMEngine) -> None:
        death = asyncio.ensure_future(engine.watch())
        ended = asyncio.ensure_future(self._ended.wait())
        await asyncio.wait((death, ended), return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        if death.done():
            self._give_up(EngineLostError("the vLLM engine died"))
        death.cancel()

    def _make(self, call: Callable[[UnitHost], None]) -> None:
        if self._host is None or self._ended.is_set():
            return
        try:
            call(self._host)
        except Exception:
            # Nobody knows what became of whom: a new worker does.
            logger.exception("the host of the vllm stage broke down")
            self._on_broken()

    def _pass_on(self, result: HostResult) -> None:
        try:
            pass_on_result(self._link, result)
        except LinkLostError:
            self._ended.set()

    def _give_up(self, error: EngineLostError) -> None:
        """The worker ends: its sessions are told by the end of its stream, as by any death."""
        logger.error("%s", error)
        self._on_broken()

    def _answer(self, call: Call) -> None:
        """The one thing that can be asked: how full the KV cache is, and who is there."""
        if call.method != "engine_figures" or self._engine is None or self._host is None:
            error = f"a vllm stage answers no call named {call.method!r}"
            self._link.send(CallResult(call.id, error=error))
            return
        figures = {
            "kv_cache_usage": self._engine.kv_cache_usage,
            "sessions": self._host.session_count,
            "slots": self._engine.slots,
            "max_positions": self._engine.max_positions,
        }
        self._link.send(CallResult(call.id, figures))
