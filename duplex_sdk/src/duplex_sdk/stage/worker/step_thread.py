"""The thread that makes every call of the model."""

from __future__ import annotations

import gc
import logging
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable

from duplex_sdk.stage.device import free_memory_or_raise, resolve_device
from duplex_sdk.stage.host import StageHost, UnitHost
from duplex_sdk.stage.model import LoadContext, StageInfo, StageLoadError
from duplex_sdk.stage.model_class import make_model

from .engine_link import EngineLink, LinkLostError
from .host_thread import HostThread
from .messages import Call, CallResult, Load, LoadFailed, Progress, Ready
from .passing import pass_on_result

__all__ = ["StepThread"]

logger = logging.getLogger(__name__)


class StepThread(HostThread):
    """Loads the model, then steps its host until told to end."""

    def __init__(self, link: EngineLink, load: Load, *, on_broken: Callable[[], None]) -> None:
        """Make a thread that is not started.

        Args:
            link: where everything goes.
            load: what to run.
            on_broken: called on the thread when its host broke down, which ends the worker.
        """
        self._link = link
        self._load = load
        self._on_broken = on_broken
        self._inbox: deque[Callable[[UnitHost], None]] = deque()
        self._wakeup = threading.Event()
        self._ending = False
        self._host: StageHost | None = None
        self._thread = threading.Thread(target=self._run, name="step", daemon=True)

    def start(self) -> None:
        """See ``HostThread``."""
        self._thread.start()

    def post(self, call: Callable[[UnitHost], None]) -> None:
        """See ``HostThread``."""
        self._inbox.append(call)
        self._wakeup.set()

    def answer(self, call: Call) -> None:
        """See ``HostThread``."""
        self.post(lambda host: self._answer(call))

    @property
    def busy_ms(self) -> float:
        """See ``HostThread``; how long the call of the model under way has lasted."""
        since = None if self._host is None else self._host.busy_since
        return 0.0 if since is None else (time.monotonic() - since) * 1000

    def end(self, grace_s: float) -> None:
        """See ``HostThread``."""
        self._ending = True
        self._wakeup.set()
        self._thread.join(grace_s)

    def _run(self) -> None:
        try:
            host = self._loaded()
            if host is not None:
                self._step_until_ended(host)
        except LinkLostError:
            # The main thread sees the same and ends the process.
            logger.debug("the engine is gone")
        except BaseException:  # whatever it was, nobody steps any more
            logger.exception("the step thread broke down")
            self._on_broken()

    def _loaded(self) -> StageHost | None:
        try:
            host = self._make_host()
            info = host.load(self._context())
        except StageLoadError as error:
            trace = "".join(traceback.format_exception(error))
            self._link.send(LoadFailed(str(error), error.hint, trace))
            return None
        self._host = host
        # What was loaded stays; a full collection that looked at all of it would stop every session
        # for a while.
        gc.collect()
        gc.freeze()
        self._link.send(Ready(_with_memory(info, self._load)))
        return host

    def _make_host(self) -> StageHost:
        load = self._load
        return StageHost(
            make_model(load.model or ""),
            clock=time.monotonic,
            output_rate=load.output_rate,
            max_batch=load.max_batch,
            gather_ms=load.gather_ms,
            period_ms=load.period_ms,
        )

    def _context(self) -> LoadContext:
        load = self._load
        device = resolve_device(load.device, load.replica_id)
        free_memory_or_raise(device, load.memory_bytes)
        return LoadContext(
            stage_id=load.stage_id,
            replica_id=load.replica_id,
            device=device,
            options=load.options,
            max_batch=load.max_batch,
            progress=self._report_progress,
        )

    def _report_progress(self, fraction: float, text: str) -> None:
        self._link.send(Progress(float(fraction), str(text)))

    def _step_until_ended(self, host: StageHost) -> None:
        while not self._ending:
            self._rest(host)
            self._wakeup.clear()
            self._pass(host)
        self._pass(host)
        host.shutdown()
        pass_on_result(self._link, host.step())

    def _rest(self, host: StageHost) -> None:
        due = host.next_due()
        pause = None if due is None else due - time.monotonic()
        if pause is None or pause > 0:
            self._wakeup.wait(pause)

    def _pass(self, host: StageHost) -> None:
        while self._inbox:
            self._inbox.popleft()(host)
        result = host.step()
        if result:
            pass_on_result(self._link, result)

    def _answer(self, call: Call) -> None:
        assert self._host is not None, "nothing is posted before it is ready"
        try:
            value = self._host.call(call.method, call.arguments)
            self._link.send(CallResult(call.id, value))
        except LinkLostError:
            raise
        except (Exception, SystemExit) as error:
            self._link.send(CallResult(call.id, error=f"{call.method}: {error}"))


def _with_memory(info: StageInfo, load: Load) -> StageInfo:
    if info.memory_bytes or not load.memory_bytes:
        return info
    return StageInfo(info.device, load.memory_bytes, info.max_sessions)
