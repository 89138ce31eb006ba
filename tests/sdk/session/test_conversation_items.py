from __future__ import annotations

from duplex_sdk.protocol.duplex import ContentPart, Item
from duplex_sdk.session.conversation_items import ITEM_COST, ConversationItems


def said(name: str, length: int) -> Item:
    part = ContentPart(type="input_text", text="x" * length)
    return Item(id=name, type="message", role="user", content=(part,))


def test_the_oldest_items_go_when_the_conversation_grows_too_large() -> None:
    items = ConversationItems(limit=3 * (ITEM_COST + 100))
    for number in range(10):
        items.add(said(f"i{number}", 100))
    assert [item.id for item in items] == ["i7", "i8", "i9"]
    assert items.previous_id("i7") is None


def test_the_newest_item_stays_however_large_it_is() -> None:
    items = ConversationItems(limit=1000)
    items.add(said("small", 10))
    assert items.add(said("large", 5000)) == "small"
    assert [item.id for item in items] == ["large"]
    assert items.last_id == "large"


def test_removed_and_replaced_items_make_room() -> None:
    items = ConversationItems(limit=4 * ITEM_COST)
    items.add(said("a", 0))
    items.add(said("b", ITEM_COST))
    items.replace(said("b", 0))
    items.remove("a")
    items.add(said("c", 0))
    items.add(said("d", 0))
    assert [item.id for item in items] == ["b", "c", "d"]
