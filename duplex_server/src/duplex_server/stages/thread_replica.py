"""A replica on a thread of its own, for light CPU models."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from duplex_sdk.stage import Json, StageInfo, StageLoadError
from duplex_sdk.stage.host import HostResult, StageHost

from .errors import StageCallError
from .inline_replica import HostSettings, InlineReplica
from .replica import Progress, ReplicaSink

__all__ = ["ThreadReplica"]

logger = logging.getLogger(__name__)

_WATCH_S = 1.0
_LOADING_S = 20.0


class ThreadReplica(InlineReplica):
    """The step thread makes every call of the model; results reach the loop once per step.

    A thread cannot be stopped from outside: when a call lasts too long the thread is abandoned, its
    replica counts as dead, and whatever it still produces is thrown away.
    """

    def __init__(
        self, settings: HostSettings, sink: ReplicaSink, *, call_timeout_s: float, name: str
    ) -> None:
        """Make a replica that is not started.

        Args:
            settings: what to run.
            sink: where to deliver.
            call_timeout_s: a call of the model that lasts longer counts as stuck.
            name: of the thread, for debuggers.
        """
        super().__init__(settings, sink)
        self._call_timeout_s = call_timeout_s
        self._name = name
        self._wakeup = threading.Event()
        self._ending = False
        self._results: deque[HostResult] = deque()
        self._delivery_due = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._host: StageHost | None = None
        self._ended: asyncio.Future[None] | None = None
        self._watch: asyncio.TimerHandle | None = None

    async def start(self, progress: Progress) -> StageInfo:
        """See ``StageReplica``."""
        loop = self._loop = asyncio.get_running_loop()
        loaded: asyncio.Future[StageInfo] = loop.create_future()
        self._ended = loop.create_future()
        thread = threading.Thread(
            target=self._run, args=(loaded, progress), name=self._name, daemon=True
        )
        thread.start()
        try:
            info = await loaded
        except asyncio.CancelledError:
            self._abandon()
            # Native code that is loading when its process ends takes the exit code with it.
            if not self._ended.done():
                logger.info("%s: waiting for its model, which is being loaded", self._name)
            await asyncio.wait((self._ended,), timeout=_LOADING_S)
            raise
        self._look()
        return info

    async def call(self, method: str, arguments: Mapping[str, Json]) -> Json:
        """See ``StageReplica``."""
        if self._ending:
            raise StageCallError("the replica is stopped")
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()

        def make(host: StageHost) -> None:
            try:
                value = host.call(method, arguments)
            except (Exception, SystemExit) as error:
                self._on_loop(_settle, answer, None, StageCallError(f"{method}: {error}"))
            else:
                self._on_loop(_settle, answer, value, None)

        self._post(make)
        return await answer

    async def stop(self, grace_s: float) -> None:
        """See ``StageReplica``."""
        self._abandon()
        if self._ended is not None:
            await asyncio.wait((self._ended,), timeout=grace_s)

    def _wake(self) -> None:
        if not self._wakeup.is_set():
            self._wakeup.set()

    def _run(self, loaded: asyncio.Future[StageInfo], progress: Progress) -> None:
        try:
            host = self._load(loaded, progress)
            if host is not None:
                self._step_until_ended(host)
        finally:
            self._on_loop(_settle, self._ended, None, None)

    def _load(self, loaded: asyncio.Future[StageInfo], progress: Progress) -> StageHost | None:
        def forward(fraction: float, text: str) -> None:
            self._on_loop(progress, float(fraction), str(text))

        try:
            host = self._settings.make_host()
            info = host.load(replace(self._settings.context, progress=forward))
        except StageLoadError as error:
            self._on_loop(_settle, loaded, None, error)
            return None
        except BaseException as error:  # whatever it was, somebody waits for its outcome
            failure = StageLoadError(f"{self._name} did not load: {error!r}")
            failure.__cause__ = error
            self._on_loop(_settle, loaded, None, failure)
            return None
        self._host = host
        self._on_loop(_settle, loaded, info, None)
        return host

    def _step_until_ended(self, host: StageHost) -> None:
        try:
            while not self._ending:
                self._rest(host)
                self._wakeup.clear()
                self._drain(host)
                self._hand_over(host.step())
        except BaseException as error:  # whatever it was, nobody steps any more
            logger.exception("%s ended", self._name)
            self._on_loop(self._die, f"the step thread ended: {error!r}")
        self._drain(host)
        host.shutdown()

    def _rest(self, host: StageHost) -> None:
        due = host.next_due()
        pause = None if due is None else due - self._settings.clock()
        if pause is None or pause > 0:
            self._wakeup.wait(pause)

    def _hand_over(self, result: HostResult) -> None:
        if not result:
            return
        self._results.append(result)
        if not self._delivery_due:
            self._delivery_due = True
            self._on_loop(self._deliver)

    def _on_loop(self, function: Callable[..., object], *arguments: Any) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            # The loop was closed under us: nobody is left to hear it.
            self._ending = True

    def _deliver(self) -> None:
        self._delivery_due = False
        while self._results and not self._ending:
            self._sink.on_result(self, self._results.popleft())

    def _look(self) -> None:
        """Once a second: is a call of the model stuck?"""
        if self._ending or self._loop is None or self._host is None:
            return
        since = self._host.busy_since
        if since is not None and self._settings.clock() - since > self._call_timeout_s:
            self._die(f"a call of the model took longer than {self._call_timeout_s:g} s")
            return
        pause = min(_WATCH_S, self._call_timeout_s / 4)
        self._watch = self._loop.call_later(pause, self._look)

    def _die(self, reason: str) -> None:
        if not self._ending:
            self._abandon()
            self._sink.on_dead(self, reason)

    def _abandon(self) -> None:
        self._ending = True
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        self._wakeup.set()


def _settle(future: asyncio.Future[Any] | None, value: object, error: BaseException | None) -> None:
    if future is None or future.done():
        return
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)
