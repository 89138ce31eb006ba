"""A schedule: what one simulation is, all of it decided by a seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Literal

from duplex_sdk.plugin import DuplexSessionRuntimeConfig
from duplex_sdk.testing.invariants import LawBrokenError, Tally

from . import client_actions, fault_actions, line_actions, tool_actions
from .action import Action
from .kinds import Kind
from .world import World

__all__ = ["Failure", "Schedule", "draw", "run"]

_MOVED = (client_actions, fault_actions, line_actions, tool_actions)
"""Importing them is what fills the table of actions."""

_POLICIES = ("commit_all_on_done", "ack_only")
_OVERFLOWS: tuple[Literal["close_session", "fail_response"], ...] = (
    "close_session",
    "fail_response",
)


@dataclass(frozen=True)
class Schedule:
    """What happens in one simulation.

    Attributes:
        seed: what it was drawn from, and where ids come from.
        kinds: what the clients are, by name.
        policy: the sessions' ``playback_commit_policy``.
        overflow: the deployment's ``overflow_policy``.
        narrow: the output has little room.
        actions: in order.
    """

    seed: int
    kinds: tuple[str, ...]
    policy: str
    overflow: Literal["close_session", "fail_response"]
    narrow: bool
    actions: tuple[Action, ...]

    def script(self) -> str:
        """It, to be read."""
        clients = ", ".join(f"{who}: {kind}" for who, kind in enumerate(self.kinds))
        room = "little room" if self.narrow else "the usual room"
        head = f"clients {{{clients}}}; {self.policy}, {self.overflow}, {room} for output"
        return "\n".join([head, *(f"  {action}" for action in self.actions)])


@dataclass(frozen=True)
class Failure:
    """A law did not hold.

    Attributes:
        law: its number and name, or what else went wrong.
        message: what was seen.
        step: number of the action after which it was seen; the length of the schedule: at its end.
        number: of the law; 0: it was none.
    """

    law: str
    message: str
    step: int
    number: int = 0


def draw(seed: int, kinds: Mapping[str, Kind], *, longest: int = 8) -> Schedule:
    """The schedule of a seed; the same for the same kinds."""
    random = Random(seed)
    names = tuple(kinds)
    clients = (1, 1, 1, 1, 2, 3)[random.randrange(6)]
    return Schedule(
        seed=seed,
        kinds=tuple(names[random.randrange(len(names))] for _ in range(clients)),
        policy=_POLICIES[random.randrange(2)],
        overflow=_OVERFLOWS[random.randrange(2)],
        narrow=random.random() < 0.3,
        actions=tuple(
            Action.draw(random, clients) for _ in range(random.randint(longest // 4, longest))
        ),
    )


def run(
    schedule: Schedule,
    kinds: Mapping[str, Kind],
    tally: Tally | None = None,
    note: Callable[[str], None] | None = None,
) -> Failure | None:
    """Let it all happen. None: every law held.

    Args:
        schedule: what happens.
        kinds: of its clients.
        tally: where it is counted how often each law had something to look at.
        note: told of every action and every step, as a line to be read.
    """
    step = 0
    world = World(
        tuple(kinds[name] for name in schedule.kinds),
        _limits(schedule.overflow, schedule.narrow),
        seed=schedule.seed,
        policy=schedule.policy,
        tally=tally,
        note=note,
    )
    try:
        world.begin()
        for each in schedule.actions:
            if note is not None:
                note(f"-- {each}")
            each.do(world)
            step += 1
        world.come_to_an_end()
    except LawBrokenError as error:
        broken = error.law
        return Failure(f"{broken.number} {broken.name}", str(error), step, broken.number)
    except AssertionError as error:
        message = str(error)
        return Failure(message.partition(":")[0].partition("\n")[0], message, step)
    except Exception as error:
        return Failure(type(error).__name__, f"the core or its bench broke: {error!r}", step)
    finally:
        world.release()
    return None


@cache
def _limits(
    overflow: Literal["close_session", "fail_response"], narrow: bool
) -> DuplexSessionRuntimeConfig:
    return DuplexSessionRuntimeConfig(
        overflow_policy=overflow,
        idle_ttl_s=60.0,
        disconnect_grace_s=10.0,
        max_pending_input_bytes_per_session=200_000,
        max_pending_output_bytes_per_session=30_000 if narrow else 2_000_000,
        max_pending_output_events_per_session=8 if narrow else 512,
    )
