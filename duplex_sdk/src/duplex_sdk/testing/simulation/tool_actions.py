"""What happens between a model that calls functions and a client that runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duplex_sdk.protocol.duplex import CreateItem, DeleteItem, ItemAdded

from .action import action
from .client_actions import exchange

if TYPE_CHECKING:
    from .talker import Talker
    from .world import World


@action(6, answers=(0, 1, 2), deletes=(False, False, True))
def have_called(world: World, who: int, answers: int, deletes: bool) -> None:
    """Let the model call something, and return results; the call may be deleted before.

    A model that calls nothing is told of calls that nobody made.
    """
    talker = world.talker(who)
    if talker is not None and talker.lab.capabilities.supports_tools:
        exchange(world, who, 300, 1500)
        talker = world.talker(who)
    if talker is None:
        return
    call = talker.call()
    if deletes:
        talker.send(DeleteItem, item_id=_item_of(talker, call))
    for _ in range(answers):
        item = {"type": "function_call_output", "call_id": call, "output": "42"}
        talker.send(CreateItem, item=item)


def _item_of(talker: Talker, call: str) -> str:
    """The item of a call; one that nobody has without any."""
    added = [each.item for each in talker.lab.events if isinstance(each, ItemAdded)]
    made = [each.id for each in added if each.type == "function_call" and each.call_id == call]
    return made[-1] if made else "item_none"
