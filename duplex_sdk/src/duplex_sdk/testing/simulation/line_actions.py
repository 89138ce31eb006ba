"""What happens on the line between a server and a client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duplex_sdk.protocol.duplex import BargeIn, CancelResponse, ClearOutputAudio

from .action import action
from .client_actions import exchange

if TYPE_CHECKING:
    from .world import World


@action(4, frames=(0, 1, 2, 5))
def half_open(world: World, who: int, frames: int) -> None:
    """The connection dies after some more frames, and nobody notices yet."""
    if (talker := world.talker(who)) is not None:
        talker.line.arrive_only(frames)


@action(1)
def acknowledge_events(world: World, who: int) -> None:
    """Say how far the client has everything."""
    if (talker := world.talker(who)) is not None:
        talker.hear()
        talker.line.acknowledge()


@action(3, frames=(0, 1, 3), notices=(False, True))
def lose_and_come_back(world: World, who: int, frames: int, notices: bool) -> None:
    """The connection dies in an answer; the client takes its session with another one."""
    half_open(world, who, frames)
    exchange(world, who, 300, 400)
    if notices:
        world.detach(who, stale=False)
        world.run(200)
    world.resume(who, stale=False, twice=False)


@action(3, ms=(400, 1500), cuts=(CancelResponse, ClearOutputAudio, BargeIn))
def cut_what_nobody_read(world: World, who: int, ms: int, cuts: type[Any]) -> None:
    """Stop an answer that still waits for its reader."""
    talker = world.talker(who)
    if talker is None:
        return
    talker.lab.reading = False
    exchange(world, who, 300, ms)
    talker.send(cuts)
    talker.lab.reading = True
    talker.lab.read_all()
