"""``ReplicaKeeper``: the replicas of one stage, started, watched and started again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from duplex_sdk.stage import Json, StageConfig, StageInfo, StageLoadError

from .errors import StageCallError
from .replica import Progress, StageReplica
from .restart_policy import RestartPolicy

__all__ = ["ReplicaKeeper", "ReplicaSlot", "ReplicaState", "ReplicaStatus"]

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
class ReplicaSlot:
    """A replica's place in the stage; outlives the replica.

    Attributes:
        id: stable.
        replica: the one in the place now; None: there is none that could be spoken to.
        state: of it.
        restarts: how often the place had to be filled again.
        reason: of the last failure.
        info: what the last one that was loaded said of itself.
        sessions: those bound to it.
        failures: in a row, without having worked for a while in between.
        ready_at: when it was last loaded.
        restarting: fills the place again; None: that was never needed.
    """

    id: int
    replica: StageReplica | None = None
    state: ReplicaState = "loading"
    restarts: int = 0
    reason: str = ""
    info: StageInfo | None = None
    sessions: set[str] = field(default_factory=set)
    failures: int = 0
    ready_at: float = 0.0
    restarting: asyncio.Task[None] | None = None

    @property
    def has_room(self) -> bool:
        """Whether one more session may be bound to it."""
        if self.state != "ready" or self.info is None:
            return False
        limit = self.info.max_sessions
        return limit is None or len(self.sessions) < limit

    @property
    def memory_bytes(self) -> int:
        """What the replica was seen to occupy, else what the model said; 0 when not known."""
        measured = None if self.replica is None else self.replica.memory_bytes
        if measured is not None:
            return measured
        return 0 if self.info is None else self.info.memory_bytes


class ReplicaKeeper:
    """Knows where each replica is and how it is; what sessions do there is the pool's affair.

    All methods are called on the engine loop.
    """

    def __init__(
        self,
        config: StageConfig,
        *,
        make_replica: Callable[[int], StageReplica],
        policy: RestartPolicy,
        clock: Callable[[], float],
        on_ready: Callable[[ReplicaSlot], None],
    ) -> None:
        """Make a keeper that has started nothing yet.

        Args:
            config: the stage.
            make_replica: a fresh replica for a place.
            policy: when one that failed is started again.
            clock: seconds, monotonic.
            on_ready: called when a place has a replica that takes sessions.
        """
        self._name = config.id
        self._make_replica = make_replica
        self._policy = policy
        self._clock = clock
        self._on_ready = on_ready
        self._slots = [ReplicaSlot(index) for index in range(config.replicas)]
        self.stopped = False

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
    def statuses(self) -> tuple[ReplicaStatus, ...]:
        """Every place, for people."""
        return tuple(self._status(slot) for slot in self._slots)

    def slot_of(self, replica: StageReplica) -> ReplicaSlot | None:
        """The place of a replica; None: it is there no more, or everything was stopped."""
        if self.stopped:
            return None
        for slot in self._slots:
            if slot.replica is replica:
                return slot
        return None

    def least_loaded(self) -> ReplicaSlot | None:
        """Where the next session goes; None: nowhere, see ``why_unavailable``."""
        return min(
            (slot for slot in self._slots if slot.has_room),
            key=lambda slot: len(slot.sessions),
            default=None,
        )

    def why_unavailable(self) -> str:
        """Why no session can be bound, in words that clients may read: health knows the rest."""
        if self.alive:
            return f"every replica of stage {self._name} holds as many sessions as it can"
        return f"stage {self._name} has no live replica"

    async def start(self, progress: Progress) -> None:
        """Load all replicas, one after the other, so that their memory peaks don't meet.

        Args:
            progress: called with 0..1 over all of them, and what is being loaded.

        Raises:
            StageLoadError: one could not be loaded; those already loaded still run.
        """
        count = len(self._slots)
        for slot in self._slots:

            def part(fraction: float, text: str, done: int = slot.id) -> None:
                progress((done + fraction) / count, text)

            try:
                await self._load(slot, part)
            except StageLoadError as error:
                raise StageLoadError(f"stage {self._name}: {error}", error.hint) from error
        progress(1.0, f"stage {self._name} is ready")

    async def stop(self, grace_s: float) -> None:
        """End them all, and start none again."""
        self.stopped = True
        restarting = [slot.restarting for slot in self._slots if slot.restarting is not None]
        for task in restarting:
            task.cancel()
        # One that was just loading takes its process with it; that must be over when we return.
        await asyncio.gather(*restarting, return_exceptions=True)
        replicas = [slot.replica for slot in self._slots if slot.replica is not None]
        for slot in self._slots:
            slot.state, slot.replica = "evicted", None
        await asyncio.gather(*(replica.stop(grace_s) for replica in replicas))

    async def call(
        self, method: str, arguments: Mapping[str, Json], *, timeout_s: float
    ) -> list[Json]:
        """The answers of all ready replicas to a collective call, in order of their ids.

        Raises:
            StageCallError: a replica refused, failed, or did not answer in ``timeout_s`` seconds.
        """
        replicas = [slot.replica for slot in self._slots if slot.state == "ready"]
        calls = (replica.call(method, arguments) for replica in replicas if replica is not None)
        try:
            return list(await asyncio.wait_for(asyncio.gather(*calls), timeout_s))
        except TimeoutError:
            raise StageCallError(
                f"{method} of stage {self._name} took over {timeout_s} s"
            ) from None

    def mark_dead(self, slot: ReplicaSlot, reason: str) -> None:
        """Note that a replica is gone; ``restart`` has to follow."""
        slot.failures = 0 if self._is_stable(slot) else slot.failures
        slot.replica, slot.state, slot.reason = None, "dead", reason
        logger.error("stage %s, replica %d: %s", self._name, slot.id, reason)

    def restart(self, slot: ReplicaSlot) -> None:
        """Fill a dead one's place again, after the policy's pause, until that succeeds."""
        slot.restarting = asyncio.get_running_loop().create_task(self._restart(slot))

    def take_out(self, replica_id: int) -> tuple[ReplicaSlot, StageReplica | None]:
        """Leave a place empty for good; whoever worked there is handed over, to be stopped.

        One that was just loading is called off and ends by itself.

        Raises:
            IndexError: there is no such place.
        """
        if not 0 <= replica_id < len(self._slots):
            raise IndexError(f"stage {self._name} has no replica {replica_id}")
        slot = self._slots[replica_id]
        replica, slot.replica, slot.state = slot.replica, None, "evicted"
        if slot.restarting is not None and not slot.restarting.done():
            slot.restarting.cancel()
            return slot, None
        return slot, replica

    async def _load(self, slot: ReplicaSlot, progress: Progress) -> None:
        slot.state = "loading"
        try:
            # Making it already looks for its device.
            replica = slot.replica = self._make_replica(slot.id)
            slot.info = await replica.start(progress)
        except BaseException:
            slot.replica = None
            # Who called it off may have taken the place out of service.
            slot.state = "dead" if slot.state == "loading" else slot.state
            raise
        slot.state, slot.ready_at = "ready", self._clock()
        self._on_ready(slot)

    async def _restart(self, slot: ReplicaSlot) -> None:
        while slot.state == "dead":
            pause = self._policy.pause_s(slot.failures)
            slot.failures += 1
            slot.restarts += 1
            await asyncio.sleep(pause)
            try:
                await self._load(slot, lambda fraction, text: None)
            except StageLoadError as error:
                slot.reason = str(error)
                logger.error("stage %s, replica %d: %s", self._name, slot.id, error)
            except Exception as error:  # whatever it was: a place given up would stay empty
                slot.reason = f"it could not be started: {error!r}"
                logger.exception("stage %s, replica %d", self._name, slot.id)

    def _is_stable(self, slot: ReplicaSlot) -> bool:
        working_s = self._clock() - slot.ready_at
        return slot.state == "ready" and working_s >= self._policy.stable_s

    def _status(self, slot: ReplicaSlot) -> ReplicaStatus:
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
            slot.memory_bytes,
        )
