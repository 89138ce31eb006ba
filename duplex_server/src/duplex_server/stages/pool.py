"""``StagePool``: one stage of a pipeline as the engine sees it, a pool of replicas."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from duplex_sdk.stage import (
    Json,
    StageConfig,
    StageError,
    StageInfo,
    StageLoadError,
    StageOutput,
    StageSession,
    UnitRequest,
)
from duplex_sdk.stage.host import HostResult

from .errors import NoCreditError, StageCallError, StageUnavailableError
from .listener import StageListener
from .replica import Progress, ReplicaSink, StageReplica
from .restart_policy import RestartPolicy

__all__ = ["CREDIT", "ReplicaState", "ReplicaStatus", "StagePool"]

CREDIT = 2
"""Units of one session that may be with a stage: one being stepped, one waiting."""


ReplicaState = Literal["loading", "ready", "dead", "evicted"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """What is known of one replica, for people.

    Attributes:
        id: stable for the life of the pool.
        state: ``loading``, ``ready``, ``dead`` (will be restarted) or ``evicted``.
        restarts: how often it had to be started again.
        reason: why it is not ready, or why it was last restarted; empty if it never failed.
        sessions: how many sessions are bound to it.
        info: what the model said of itself; None before the first load ended.
        failures: how often in a row it failed without having worked for a while in between.
        pid: its process, while it has one of its own.
        memory_bytes: what it was seen to occupy, else what the model said; 0 when not known.
    """

    id: int
    state: ReplicaState
    restarts: int
    reason: str
    sessions: int
    info: StageInfo | None
    failures: int = 0
    pid: int | None = None
    memory_bytes: int = 0


@dataclass(slots=True)
class _Slot:
    """A replica's place in the pool; outlives the replica."""

    id: int
    replica: StageReplica | None = None
    state: ReplicaState = "loading"
    restarts: int = 0
    reason: str = ""
    info: StageInfo | None = None
    sessions: set[str] = field(default_factory=set)
    failures: int = 0
    ready_at: float = 0.0

    @property
    def has_room(self) -> bool:
        if self.state != "ready" or self.info is None:
            return False
        limit = self.info.max_sessions
        return limit is None or len(self.sessions) < limit


@dataclass(slots=True)
class _Binding:
    """A session's tie to one replica, from open to close."""

    session_id: str
    slot: _Slot
    replica: StageReplica
    epoch: int = 0
    outstanding: int = 0
    quiet: bool = True
    failed: bool = False
    closing: asyncio.Future[None] | None = None


class StagePool(ReplicaSink):
    """A stage's replicas. A session stays on the replica it was opened on until it is closed.

    All methods are called on the engine loop; those that are not ``async`` return at once. What
    comes of them is told to the ``StageListener``, never from inside a call to the pool.
    """

    def __init__(
        self,
        stage_id: int,
        config: StageConfig,
        listener: StageListener,
        *,
        make_replica: Callable[[int, ReplicaSink], StageReplica],
        restart: RestartPolicy | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make a pool whose replicas are not started yet.

        Args:
            stage_id: position of the stage in the pipeline, from 0.
            config: the stage.
            listener: hears what the stage does.
            make_replica: a fresh replica for a place, given its id and where it delivers.
            restart: when a replica that failed is started again; None: the usual.
            clock: seconds, monotonic.
        """
        self.stage_id = stage_id
        self.config = config
        self._listener = listener
        self._make_replica = make_replica
        self._restart_policy = restart or RestartPolicy()
        self._clock = clock
        self._slots = [_Slot(index) for index in range(config.replicas)]
        self._bindings: dict[str, _Binding] = {}
        self._restarting: set[asyncio.Task[None]] = set()
        self._stopped = False

    @property
    def alive(self) -> bool:
        """Whether at least one replica can take work."""
        return any(slot.state == "ready" for slot in self._slots)

    @property
    def capacity(self) -> int | None:
        """How many sessions fit in all replicas together; None: the stage sets no limit."""
        total = 0
        for slot in self._slots:
            if slot.state == "evicted":
                continue
            if slot.info is None or slot.info.max_sessions is None:
                return None
            total += slot.info.max_sessions
        return total

    @property
    def replicas(self) -> tuple[ReplicaStatus, ...]:
        """Every replica's state, for ``/health``."""
        return tuple(self._status(slot) for slot in self._slots)

    async def start(self, progress: Progress) -> None:
        """Load all replicas, one after the other, so that their memory peaks don't meet.

        Args:
            progress: called with 0..1 over the whole pool, and what is being loaded.

        Raises:
            StageLoadError: one could not be loaded; those already loaded are stopped again.
        """
        count = len(self._slots)
        for slot in self._slots:

            def part(fraction: float, text: str, done: int = slot.id) -> None:
                progress((done + fraction) / count, text)

            try:
                await self._load(slot, part)
            except StageLoadError:
                await self.stop(0.0)
                raise
        progress(1.0, f"stage {self.config.id} is ready")

    async def stop(self, grace_s: float) -> None:
        """Close every session, unload every model and end; no callback comes afterwards."""
        self._stopped = True
        restarting = tuple(self._restarting)
        for task in restarting:
            task.cancel()
        # One that was just loading takes its process with it; that must be over when we return.
        await asyncio.gather(*restarting, return_exceptions=True)
        replicas = [slot.replica for slot in self._slots if slot.replica is not None]
        for slot in self._slots:
            slot.state, slot.replica = "evicted", None
        await asyncio.gather(*(replica.stop(grace_s) for replica in replicas))
        for session_id in tuple(self._bindings):
            self._unbind(session_id)

    def open(self, session: StageSession) -> int:
        """Bind a session to the least loaded replica and make the model's state there.

        A session that is open already is updated.

        Returns:
            The id of its replica.

        Raises:
            StageUnavailableError: no replica is ready, or all are full, or the session is closing.
        """
        binding = self._bindings.get(session.session_id)
        if binding is not None:
            self._require_usable(binding)
            binding.replica.update(session)
            return binding.slot.id
        open_slots = [slot for slot in self._slots if slot.has_room]
        if not open_slots:
            raise StageUnavailableError(self._why_unavailable())
        slot = min(open_slots, key=lambda candidate: len(candidate.sessions))
        assert slot.replica is not None
        slot.sessions.add(session.session_id)
        self._bindings[session.session_id] = _Binding(session.session_id, slot, slot.replica)
        slot.replica.open(session)
        return slot.id

    def is_open(self, session_id: str) -> bool:
        """Whether the session is bound and neither failed nor closing."""
        binding = self._bindings.get(session_id)
        return binding is not None and not binding.failed and binding.closing is None

    def replica_of(self, session_id: str) -> int | None:
        """The id of the replica that a session is bound to."""
        binding = self._bindings.get(session_id)
        return None if binding is None else binding.slot.id

    def room(self, session_id: str) -> int:
        """How many more units of the session the stage takes now; 0 for one that is not open."""
        if not self.is_open(session_id):
            return 0
        return CREDIT - self._bindings[session_id].outstanding

    def submit(self, unit: UnitRequest) -> int:
        """Hand over a unit of an open session.

        Returns:
            The id of the session's replica.

        Raises:
            NoCreditError: as many units as allowed are with the stage; wait for ``on_taken``.
            StageUnavailableError: the session is not open, failed, or is closing.
        """
        binding = self._bindings.get(unit.session_id)
        if binding is None:
            raise StageUnavailableError(
                f"session {unit.session_id} is not open in stage {self.config.id}"
            )
        self._require_usable(binding)
        if binding.outstanding >= CREDIT:
            raise NoCreditError(f"stage {self.config.id} holds {CREDIT} units of the session")
        binding.outstanding += 1
        binding.quiet = False
        binding.epoch = max(binding.epoch, unit.epoch)
        binding.replica.units((unit,))
        return binding.slot.id

    def is_idle(self, session_id: str) -> bool:
        """Whether nothing of the session is queued, on the way or armed; true when not open."""
        binding = self._bindings.get(session_id)
        return binding is None or binding.failed or (binding.quiet and not binding.outstanding)

    def update(self, session: StageSession) -> None:
        """A session's configuration, runtime or sampling changed; ignored when it is not open."""
        if self.is_open(session.session_id):
            self._bindings[session.session_id].replica.update(session)

    def cancel(self, session_id: str, epoch: int, heard_ms: float) -> None:
        """Stop what the session is doing; ignored when it is not open.

        From its return on no output of an epoch before ``epoch`` is delivered. The credit of units
        dropped comes back through ``on_taken``.
        """
        if not self.is_open(session_id):
            return
        binding = self._bindings[session_id]
        binding.epoch = max(binding.epoch, epoch)
        binding.replica.cancel(session_id, epoch, heard_ms)

    def hold(self, session_id: str, held: bool) -> None:
        """While held the session gets no ticks: what comes after this stage has no room."""
        if self.is_open(session_id):
            self._bindings[session_id].replica.hold(session_id, held)

    async def close(self, session_id: str) -> None:
        """End the session in this stage; returns when the model's state is gone. Idempotent."""
        binding = self._bindings.get(session_id)
        if binding is None:
            return
        if binding.slot.replica is not binding.replica:
            self._unbind(session_id)
            return
        if binding.closing is None:
            binding.closing = asyncio.get_running_loop().create_future()
            binding.replica.close(session_id)
        await asyncio.shield(binding.closing)

    async def call(
        self, method: str, arguments: Mapping[str, Json], *, timeout_s: float
    ) -> list[Json]:
        """A collective call: the answers of all ready replicas, in order of their ids.

        Raises:
            StageCallError: a replica refused, failed, or did not answer in ``timeout_s`` seconds.
        """
        replicas = [slot.replica for slot in self._slots if slot.state == "ready"]
        calls = (replica.call(method, arguments) for replica in replicas if replica is not None)
        try:
            return list(await asyncio.wait_for(asyncio.gather(*calls), timeout_s))
        except TimeoutError:
            raise StageCallError(
                f"{method} of stage {self.config.id} took over {timeout_s} s"
            ) from None

    async def evict(self, replica_id: int, *, grace_s: float = 1.0) -> None:
        """Take a replica out for good; its sessions fail, its place stays empty.

        Raises:
            IndexError: there is no such replica.
        """
        if not 0 <= replica_id < len(self._slots):
            raise IndexError(f"stage {self.config.id} has no replica {replica_id}")
        slot = self._slots[replica_id]
        replica, slot.replica, slot.state = slot.replica, None, "evicted"
        if replica is not None:
            await asyncio.sleep(0)
            self._fail_sessions(slot, "the replica was taken out of service")
            await replica.stop(grace_s)

    def on_result(self, replica: StageReplica, result: HostResult) -> None:
        """Pass a replica's result on to the listener; see ``ReplicaSink``."""
        slot = next((slot for slot in self._slots if slot.replica is replica), None)
        if slot is None or self._stopped:
            return
        for session_id, took_ms in result.opened:
            self._listener.on_opened(self.stage_id, session_id, took_ms)
        outputs = [output for output in result.outputs if self._is_current(output)]
        if outputs:
            self._listener.on_outputs(self.stage_id, slot.id, outputs)
        for session_id, error in result.failed:
            self._fail(session_id, error)
        for session_id, epoch, seq in result.taken:
            self._take(session_id, epoch, seq)
        for session_id in result.idle:
            self._become_quiet(session_id)
        for session_id in result.closed:
            self._unbind(session_id)
        if result.report is not None:
            self._listener.on_report(self.stage_id, slot.id, result.report)

    def on_dead(self, replica: StageReplica, reason: str) -> None:
        """Fail what was bound to the replica and start another in its place."""
        slot = next((slot for slot in self._slots if slot.replica is replica), None)
        if slot is None or self._stopped:
            return
        slot.failures = 0 if self._is_stable(slot) else slot.failures
        slot.replica, slot.state, slot.reason = None, "dead", reason
        logger.error("stage %s, replica %d: %s", self.config.id, slot.id, reason)
        self._fail_sessions(slot, reason)
        task = asyncio.get_running_loop().create_task(self._restart(slot))
        self._restarting.add(task)
        task.add_done_callback(self._restarting.discard)

    async def _load(self, slot: _Slot, progress: Progress) -> None:
        slot.state = "loading"
        replica = self._make_replica(slot.id, self)
        slot.replica = replica
        try:
            slot.info = await replica.start(progress)
        except BaseException:
            slot.replica, slot.state = None, "dead"
            raise
        slot.state, slot.ready_at = "ready", self._clock()
        self._listener.on_replica_ready(self.stage_id, slot.id, slot.restarts)

    async def _restart(self, slot: _Slot) -> None:
        while slot.state == "dead":
            pause = self._restart_policy.pause_s(slot.failures)
            slot.failures += 1
            slot.restarts += 1
            await asyncio.sleep(pause)
            try:
                await self._load(slot, lambda fraction, text: None)
            except StageLoadError as error:
                slot.reason = str(error)
                logger.error("stage %s, replica %d: %s", self.config.id, slot.id, error)
            except Exception as error:  # whatever it was: a place given up would stay empty
                slot.reason = f"it could not be started: {error!r}"
                logger.exception("stage %s, replica %d", self.config.id, slot.id)

    def _is_stable(self, slot: _Slot) -> bool:
        working_s = self._clock() - slot.ready_at
        return slot.state == "ready" and working_s >= self._restart_policy.stable_s

    def _status(self, slot: _Slot) -> ReplicaStatus:
        replica = slot.replica
        return ReplicaStatus(
            slot.id,
            slot.state,
            slot.restarts,
            slot.reason,
            len(slot.sessions),
            slot.info,
            0 if self._is_stable(slot) else slot.failures,
            None if replica is None else replica.pid,
            _memory_of(slot),
        )

    def _fail_sessions(self, slot: _Slot, reason: str) -> None:
        session_ids = tuple(slot.sessions)
        self._listener.on_replica_dead(self.stage_id, slot.id, reason, session_ids)
        error = StageError("runtime_failed", f"stage {self.config.id}: {reason}", "session")
        for session_id in session_ids:
            binding = self._bindings[session_id]
            self._fail(session_id, error)
            if binding.closing is not None:
                self._unbind(session_id)

    def _fail(self, session_id: str, error: StageError) -> None:
        binding = self._bindings.get(session_id)
        if binding is None or binding.failed:
            return
        binding.failed = True
        binding.outstanding = 0
        if binding.closing is None:
            self._listener.on_failed(self.stage_id, session_id, error)

    def _take(self, session_id: str, epoch: int, seq: int) -> None:
        binding = self._bindings.get(session_id)
        if binding is None or binding.failed:
            return
        binding.outstanding -= 1
        if binding.closing is None:
            self._listener.on_taken(self.stage_id, session_id, epoch, seq)

    def _become_quiet(self, session_id: str) -> None:
        # What the host saw as idle may be older than a unit that is on its way to it.
        binding = self._bindings.get(session_id)
        if binding is None or binding.outstanding or not self.is_open(session_id):
            return
        binding.quiet = True
        self._listener.on_idle(self.stage_id, session_id)

    def _is_current(self, output: StageOutput) -> bool:
        binding = self._bindings.get(output.session_id)
        return (
            binding is not None
            and binding.closing is None
            and not binding.failed
            and output.epoch >= binding.epoch
        )

    def _unbind(self, session_id: str) -> None:
        binding = self._bindings.pop(session_id, None)
        if binding is None:
            return
        binding.slot.sessions.discard(session_id)
        if binding.closing is not None and not binding.closing.done():
            binding.closing.set_result(None)

    def _require_usable(self, binding: _Binding) -> None:
        if binding.closing is not None:
            raise StageUnavailableError(f"session {binding.session_id} is closing")
        if binding.failed:
            raise StageUnavailableError(
                f"session {binding.session_id} failed in stage {self.config.id}"
            )

    def _why_unavailable(self) -> str:
        if self.alive:
            return f"every replica of stage {self.config.id} holds as many sessions as it can"
        reasons = {slot.reason for slot in self._slots if slot.reason}
        suffix = f": {'; '.join(sorted(reasons))}" if reasons else ""
        return f"stage {self.config.id} has no live replica{suffix}"


def _memory_of(slot: _Slot) -> int:
    measured = None if slot.replica is None else slot.replica.memory_bytes
    if measured is not None:
        return measured
    return 0 if slot.info is None else slot.info.memory_bytes
