"""A replica in a process of its own, in whichever Python environment its model needs."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from duplex_sdk.stage import (
    Json,
    StageError,
    StageInfo,
    StageLoadError,
    StageOutput,
    StageSession,
    UnitRequest,
)
from duplex_sdk.stage.api_version import API_VERSION
from duplex_sdk.stage.host import HostResult
from duplex_sdk.stage.worker import (
    PROTOCOL,
    Call,
    CallResult,
    Cancel,
    Close,
    Closed,
    Failed,
    FromWorker,
    Hello,
    HelloReply,
    Hold,
    Load,
    LoadFailed,
    Log,
    Open,
    Opened,
    Outputs,
    Ping,
    Pong,
    Ready,
    Shutdown,
    ToWorker,
    Units,
    Update,
    same_major,
)
from duplex_sdk.stage.worker import Progress as ProgressMessage

from .errors import StageCallError
from .heartbeat import Heartbeat
from .remote_worker import RemotePlace, reach_worker
from .replica import Progress, ReplicaSink, StageReplica
from .running_worker import RunningWorker
from .worker_channel import ChannelOwner
from .worker_launch import launch_worker

__all__ = ["ProcessReplica", "WorkerSettings"]

SILENT_BEATS = 3
"""Seconds of silence after which a worker counts as dead."""

SILENT_BEATS_LOADING = 60
"""The same while it loads: large libraries hold the interpreter while they are mapped."""

_HELLO_TIMEOUT_S = 10.0
_EXIT_WORDS_S = 0.5
_STOP_MARGIN_S = 0.5
_LEVELS = logging.getLevelNamesMapping()

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """How a worker is run.

    Attributes:
        load: what it is told to load.
        name: for people and logs.
        call_timeout_s: a call of the model that lasts longer counts as stuck.
        python: its interpreter; None: the one that runs this.
        beat_s: seconds between two heartbeats.
        place: where ``duplex worker`` starts it; None: it is a process of ours.
    """

    load: Load
    name: str
    call_timeout_s: float
    python: Path | None = None
    beat_s: float = 1.0
    place: RemotePlace | None = None


class ProcessReplica(StageReplica, ChannelOwner):
    """Says in messages what the other replicas say in calls, and watches over the process.

    Attributes:
        last_pong: how the worker was when it was last asked; None: it has not answered yet.
    """

    def __init__(self, settings: WorkerSettings, sink: ReplicaSink) -> None:
        """``settings``: what to run, and how; ``sink``: where to deliver."""
        self._settings = settings
        self._sink = sink
        self._worker: RunningWorker | None = None
        self._ending = False
        self._ready = False
        self._progress: Progress | None = None
        self._greeted: asyncio.Future[HelloReply] | None = None
        self._loaded: asyncio.Future[StageInfo] | None = None
        self._lost: asyncio.Task[None] | None = None
        self._calls: dict[int, asyncio.Future[Json]] = {}
        self._call_ids = itertools.count(1)
        self._gathered = HostResult()
        self._heartbeat = Heartbeat(
            ping=lambda n: self._send(Ping(n)),
            on_silent=lambda s: self._die(f"its worker was silent for {s:g} s"),
            interval_s=settings.beat_s,
        )
        self._handlers: dict[type, Callable[[Any], None]] = {
            Outputs: self._on_outputs,
            Opened: lambda m: self._gathered.opened.append((m.session_id, m.ms)),
            Failed: lambda m: self._gathered.failed.append((m.session_id, m.error)),
            Closed: lambda m: self._gathered.closed.append(m.session_id),
            Pong: self._on_pong,
            Log: lambda m: self._log(_LEVELS[m.level.upper()], m.text),
            CallResult: self._on_call_result,
            HelloReply: lambda m: _settle(self._greeted, m),
            ProgressMessage: self._on_progress,
            Ready: lambda m: _settle(self._loaded, m.info),
            LoadFailed: self._on_load_failed,
        }
        self.last_pong: Pong | None = None

    @property
    def pid(self) -> int | None:
        """The worker's process id while it lives."""
        return None if self._worker is None else self._worker.pid

    @property
    def memory_bytes(self) -> int | None:
        """See ``StageReplica``; asked for with each heartbeat."""
        pong = self.last_pong
        return None if pong is None else pong.device_memory or pong.rss

    # Life

    async def start(self, progress: Progress) -> StageInfo:
        """See ``StageReplica``; starts the process."""
        loop = asyncio.get_running_loop()
        self._progress = progress
        self._greeted, self._loaded = loop.create_future(), loop.create_future()
        self._worker = await self._connected_worker()
        try:
            await self._greet(self._worker)
            self._heartbeat.start(SILENT_BEATS_LOADING)
            self._send(self._settings.load)
            info = await self._loaded
        except BaseException:
            self._ending = True
            await asyncio.shield(self._remove(self._worker))
            raise
        self._ready = True
        self._heartbeat.start(SILENT_BEATS)
        return info

    async def stop(self, grace_s: float) -> None:
        """See ``StageReplica``; afterwards the process is gone."""
        worker = self._worker
        if worker is None:
            return
        if not self._ending:
            self._ending = True
            self._fail_calls("the replica is stopped")
            self._heartbeat.stop()
            self._send(Shutdown(grace_s))
            await asyncio.wait((worker.exited,), timeout=grace_s + _STOP_MARGIN_S)
        await self._remove(worker)

    # What the engine says

    def open(self, session: StageSession) -> None:
        """See ``StageReplica``."""
        self._send(Open(session))

    def units(self, units: Sequence[UnitRequest]) -> None:
        """See ``StageReplica``; units of one turn of the loop travel in one frame."""
        if self._worker is not None and self._worker.channel is not None:
            self._worker.channel.send_units(units)

    def update(self, session: StageSession) -> None:
        """See ``StageReplica``."""
        self._send(Update(session))

    def cancel(self, session_id: str, epoch: int, heard_ms: float) -> None:
        """See ``StageReplica``."""
        self._send(Cancel(session_id, epoch, heard_ms))

    def hold(self, session_id: str, held: bool) -> None:
        """See ``StageReplica``."""
        self._send(Hold(session_id, held))

    def close(self, session_id: str) -> None:
        """See ``StageReplica``."""
        self._send(Close(session_id))

    async def call(self, method: str, arguments: Mapping[str, Json]) -> Json:
        """See ``StageReplica``."""
        if self._ending or not self._ready:
            raise StageCallError("the replica is stopped")
        call_id = next(self._call_ids)
        answer = self._calls[call_id] = asyncio.get_running_loop().create_future()
        self._send(Call(call_id, method, arguments))
        try:
            return await answer
        finally:
            self._calls.pop(call_id, None)

    # What the worker says

    def on_messages(self, messages: Sequence[FromWorker]) -> None:
        """See ``ChannelOwner``."""
        self._heartbeat.heard()
        for message in messages:
            self._handlers[type(message)](message)

    def on_unsendable(self, message: ToWorker, error: Exception) -> None:
        """See ``ChannelOwner``; tells whoever the message was about."""
        text = f"what the plugin made cannot cross to the worker: {error}"
        if isinstance(message, Units):
            for unit in message.units:
                self._deliver(_refused(unit, text))
        elif isinstance(message, Open | Update):
            failure = StageError("runtime_failed", text, "session")
            self._deliver(HostResult(failed=[(message.session.session_id, failure)]))
        elif isinstance(message, Call):
            self._on_call_result(CallResult(message.id, error=text))
        else:
            # The stage's own options: without them nothing can be loaded.
            _fail(self._loaded, StageLoadError(f"{self._settings.name}: {text}"))

    def on_lost(self, reason: str | None) -> None:
        """See ``ChannelOwner``."""
        if self._worker is not None:
            self._worker.lost()
        if not self._ending and self._lost is None:
            self._lost = asyncio.get_running_loop().create_task(self._explain_loss(reason))

    def _on_outputs(self, message: Outputs) -> None:
        result, self._gathered = self._gathered, HostResult()
        result.outputs = list(message.outputs)
        result.taken = list(message.taken)
        result.idle = list(message.idle)
        result.report = message.report
        self._deliver(result)

    def _on_pong(self, pong: Pong) -> None:
        self.last_pong = pong
        limit_s = self._settings.call_timeout_s
        if pong.busy_ms > limit_s * 1000:
            self._die(f"a call of the model took longer than {limit_s:g} s")

    def _on_progress(self, message: ProgressMessage) -> None:
        if self._progress is not None and not self._ready:
            self._progress(message.fraction, message.text)

    def _on_load_failed(self, message: LoadFailed) -> None:
        self._log(logging.ERROR, message.trace)
        _fail(self._loaded, StageLoadError(message.message, message.hint))

    def _on_call_result(self, result: CallResult) -> None:
        answer = self._calls.get(result.id)
        if result.error is None:
            _settle(answer, result.value)
        else:
            _fail(answer, StageCallError(result.error))

    # Inside

    async def _connected_worker(self) -> RunningWorker:
        name, place = self._settings.name, self._settings.place
        if place is not None:
            return await reach_worker(self, place, name=name)
        return await launch_worker(
            self,
            python=self._settings.python,
            name=name,
            on_line=lambda line: self._log(logging.INFO, line),
        )

    async def _greet(self, worker: RunningWorker) -> None:
        assert self._greeted is not None
        name = self._settings.name
        self._send(Hello(PROTOCOL, API_VERSION, worker.secret))
        try:
            async with asyncio.timeout(_HELLO_TIMEOUT_S):
                reply = await self._greeted
        except TimeoutError:
            raise StageLoadError(f"{name}: its worker does not answer") from None
        if reply.protocol != PROTOCOL or not same_major(API_VERSION, reply.api):
            raise StageLoadError(
                f"{name}: its worker (duplex-sdk {reply.sdk}) speaks protocol {reply.protocol} and"
                f" plugin API {reply.api}; this server speaks {PROTOCOL} and {API_VERSION}",
                "install the same version of duplex-sdk in both environments",
            )

    def _send(self, message: ToWorker) -> None:
        if self._worker is not None and self._worker.channel is not None:
            self._worker.channel.send(message)

    def _deliver(self, result: HostResult) -> None:
        if self._ready and not self._ending:
            self._sink.on_result(self, result)

    async def _explain_loss(self, reason: str | None) -> None:
        """The stream says that it ended, the process a moment later why."""
        worker = self._worker
        if worker is None:
            # It ended between its call and our answer; whoever started it finds out.
            return
        await asyncio.wait((worker.exited,), timeout=_EXIT_WORDS_S)
        # What it printed is in the log; clients, who hear this reason, are not to read it.
        end = worker.describe_end() if self._ready else worker.end_and_last_line
        self._die(f"its worker is gone: {reason or end}")

    def _die(self, reason: str) -> None:
        if self._ending:
            return
        failure = StageLoadError(f"{self._settings.name}: {reason}")
        if not self._ready:
            greeting = self._greeted is not None and not self._greeted.done()
            _fail(self._greeted if greeting else self._loaded, failure)
            return
        self._ending = True
        self._fail_calls(reason)
        worker = self._worker
        assert worker is not None
        self._cut(worker)
        self._sink.on_dead(self, reason)

    def _cut(self, worker: RunningWorker) -> None:
        self._heartbeat.stop()
        worker.kill()

    async def _remove(self, worker: RunningWorker) -> None:
        self._cut(worker)
        if self._lost is not None:
            self._lost.cancel()
        self._fail_calls("the replica is stopped")
        await worker.exited

    def _fail_calls(self, reason: str) -> None:
        for answer in self._calls.values():
            _fail(answer, StageCallError(reason))

    def _log(self, level: int, text: str) -> None:
        logger.log(level, "%s: %s", self._settings.name, text)


def _refused(unit: UnitRequest, text: str) -> HostResult:
    failure = StageError("runtime_append_failed", text)
    output = StageOutput(unit.session_id, unit.request_id, unit.epoch, unit.turn_id, error=failure)
    return HostResult(
        outputs=[output],
        taken=[(unit.session_id, unit.epoch, unit.seq)],
        idle=[unit.session_id],
    )


def _settle(future: asyncio.Future[Any] | None, value: object) -> None:
    if future is not None and not future.done():
        future.set_result(value)


def _fail(future: asyncio.Future[Any] | None, error: Exception) -> None:
    if future is not None and not future.done():
        future.set_exception(error)
