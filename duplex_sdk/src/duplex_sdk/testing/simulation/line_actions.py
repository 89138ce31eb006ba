"""What happens on the line between a server and a client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .action import action

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
