"""``StagePool``: one stage of a pipeline as the engine sees it, sessions on a set of replicas."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from duplex_sdk.stage import (
    Json,
    StageConfig,
    StageError,
    StageLoadError,
    StageSession,
    UnitRequest,
)
from duplex_sdk.stage.host import HostResult

from .errors import NoCreditError, StageUnavailableError
from .listener import StageListener
from .replica import Progress, ReplicaSink, StageReplica
from .replica_keeper import ReplicaKeeper, ReplicaSlot, ReplicaStatus
from .restart_policy import RestartPolicy

__all__ = ["CREDIT", "StagePool"]

CREDIT = 2
"""Units of one session that may be with a stage: one being stepped, one waiting."""


@dataclass(slots=True)
class _Binding:
    """A session's tie to one replica, from open to close."""

    session_id: str
    slot: ReplicaSlot
    replica: StageReplica
    epoch: int = 0
    outstanding: int = 0
    quiet: bool = True
    failed: bool = False
    closing: asyncio.Future[None] | None = None
    usable: bool = True

    def fail(self) -> None:
        self.failed, self.usable = True, False
        self.outstanding = 0

    def begin_to_close(self) -> asyncio.Future[None]:
        self.usable = False
        self.closing = asyncio.get_running_loop().create_future()
        return self.closing

    def require_usable(self, stage: str) -> None:
        if self.closing is not None:
            raise StageUnavailableError(f"session {self.session_id} is closing")
        if self.failed:
            raise StageUnavailableError(f"session {self.session_id} failed in stage {stage}")


class StagePool(ReplicaSink):
    """A stage's replicas. A session stays on the replica it was opened on until it is closed.

    All methods are called on the engine loop; those that are not ``async`` return at once. What
    comes of them is told to the ``StageListener``, never from inside a call to the pool.

    Attributes:
        stage_id: position of the stage in the pipeline, from 0.
        config: the stage.
        listener: hears what the stage does; another may take over.
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
        self.listener = listener
        self._bindings: dict[str, _Binding] = {}
        self._keeper = ReplicaKeeper(
            config,
            make_replica=lambda replica_id: make_replica(replica_id, self),
            policy=restart or RestartPolicy(),
            clock=clock,
            on_ready=lambda slot: self.listener.on_replica_ready(stage_id, slot.id, slot.restarts),
        )

    @property
    def alive(self) -> bool:
        """Whether at least one replica can take work."""
        return self._keeper.alive

    @property
    def capacity(self) -> int | None:
        """How many sessions fit in all replicas together; None: the stage sets no limit."""
        return self._keeper.capacity

    @property
    def replicas(self) -> tuple[ReplicaStatus, ...]:
        """Every replica's state, for ``/health``."""
        return self._keeper.statuses

    async def start(self, progress: Progress) -> None:
        """Load all replicas, one after the other, so that their memory peaks don't meet.

        Args:
            progress: called with 0..1 over the whole pool, and what is being loaded.

        Raises:
            StageLoadError: one could not be loaded; those already loaded are stopped again.
        """
        try:
            await self._keeper.start(progress)
        except StageLoadError:
            await self.stop(0.0)
            raise

    async def stop(self, grace_s: float) -> None:
        """Close every session, unload every model and end; no callback comes afterwards."""
        await self._keeper.stop(grace_s)
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
            binding.require_usable(self.config.id)
            binding.replica.update(session)
            return binding.slot.id
        slot = self._keeper.least_loaded()
        if slot is None:
            raise StageUnavailableError(self._keeper.why_unavailable())
        assert slot.replica is not None
        slot.sessions.add(session.session_id)
        self._bindings[session.session_id] = _Binding(session.session_id, slot, slot.replica)
        slot.replica.open(session)
        return slot.id

    def is_open(self, session_id: str) -> bool:
        """Whether the session is bound and neither failed nor closing."""
        binding = self._bindings.get(session_id)
        return binding is not None and binding.usable

    def replica_of(self, session_id: str) -> int | None:
        """The id of the replica that a session is bound to."""
        binding = self._bindings.get(session_id)
        return None if binding is None else binding.slot.id

    def room(self, session_id: str) -> int:
        """How many more units of the session the stage takes now; 0 for one that is not open."""
        binding = self._bindings.get(session_id)
        return CREDIT - binding.outstanding if binding is not None and binding.usable else 0

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
        binding.require_usable(self.config.id)
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
        closing = binding.closing
        if closing is None:
            closing = binding.begin_to_close()
            binding.replica.close(session_id)
        await asyncio.shield(closing)

    async def call(
        self, method: str, arguments: Mapping[str, Json], *, timeout_s: float
    ) -> list[Json]:
        """A collective call: the answers of all ready replicas, in order of their ids.

        Raises:
            StageCallError: a replica refused, failed, or did not answer in ``timeout_s`` seconds.
        """
        return await self._keeper.call(method, arguments, timeout_s=timeout_s)

    async def evict(self, replica_id: int, *, grace_s: float = 1.0) -> None:
        """Take a replica out for good; its sessions fail, its place stays empty.

        Raises:
            IndexError: there is no such replica.
        """
        slot, replica = self._keeper.take_out(replica_id)
        if replica is not None:
            await asyncio.sleep(0)
            self._fail_sessions(slot, "the replica was taken out of service")
            await replica.stop(grace_s)

    def on_result(self, replica: StageReplica, result: HostResult) -> None:
        """Pass a replica's result on to the listener; see ``ReplicaSink``."""
        slot = self._keeper.slot_of(replica)
        if slot is None:
            return
        for session_id, took_ms in result.opened:
            self.listener.on_opened(self.stage_id, session_id, took_ms)
        outputs = []
        for output in result.outputs:
            binding = self._bindings.get(output.session_id)
            if binding is not None and binding.usable and output.epoch >= binding.epoch:
                outputs.append(output)
        if outputs:
            self.listener.on_outputs(self.stage_id, slot.id, outputs)
        for session_id, error in result.failed:
            self._fail(session_id, error)
        for session_id, epoch, seq in result.taken:
            self._take(session_id, epoch, seq)
        for session_id in result.idle:
            self._become_quiet(session_id)
        for session_id in result.closed:
            self._unbind(session_id)
        if result.report is not None:
            self.listener.on_report(self.stage_id, slot.id, result.report)

    def on_dead(self, replica: StageReplica, reason: str) -> None:
        """Fail what was bound to the replica and start another in its place."""
        slot = self._keeper.slot_of(replica)
        if slot is None:
            return
        self._keeper.mark_dead(slot, reason)
        self._fail_sessions(slot, reason)
        self._keeper.restart(slot)

    def _fail_sessions(self, slot: ReplicaSlot, reason: str) -> None:
        session_ids = tuple(slot.sessions)
        self.listener.on_replica_dead(self.stage_id, slot.id, reason, session_ids)
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
        binding.fail()
        if binding.closing is None:
            self.listener.on_failed(self.stage_id, session_id, error)

    def _take(self, session_id: str, epoch: int, seq: int) -> None:
        binding = self._bindings.get(session_id)
        if binding is None or binding.failed:
            return
        binding.outstanding -= 1
        if binding.closing is None:
            self.listener.on_taken(self.stage_id, session_id, epoch, seq)

    def _become_quiet(self, session_id: str) -> None:
        # What the host saw as idle may be older than a unit that is on its way to it.
        binding = self._bindings.get(session_id)
        if binding is None or binding.outstanding or not binding.usable:
            return
        binding.quiet = True
        self.listener.on_idle(self.stage_id, session_id)

    def _unbind(self, session_id: str) -> None:
        binding = self._bindings.pop(session_id, None)
        if binding is None:
            return
        binding.slot.sessions.discard(session_id)
        if binding.closing is not None and not binding.closing.done():
            binding.closing.set_result(None)
