"""Laws 92 to 105: what waits for its reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .law import law

if TYPE_CHECKING:
    from .step import Rest


@law(93, "rest")
def an_empty_queue_holds_no_bytes(rest: Rest) -> bool:
    """All of what its client could read is out of the account."""
    if not rest.reading:
        return False
    assert not rest.queued_bytes, f"{rest.queued_bytes} bytes of nothing"
    return rest.life.terminals > 0 or bool(rest.life.told)
