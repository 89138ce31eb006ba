"""Which response a playback acknowledgement is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .refusal import RefusalError

if TYPE_CHECKING:
    from .playback import PlaybackLedger

__all__ = ["ITEM_PREFIX", "resolve_ack_target", "response_of_item"]

ITEM_PREFIX = "item_"
"""The message item of a response has this in front of the response's id."""


def response_of_item(item_id: str) -> str:
    """The response whose message item this is.

    Raises:
        RefusalError: ``playback_item_not_found``, the id is not that of a response's item.
    """
    if not item_id.startswith(f"{ITEM_PREFIX}resp_"):
        raise RefusalError(
            "playback_item_not_found",
            f"no assistant item {item_id!r} awaits playback",
            param="item_id",
        )
    return item_id.removeprefix(ITEM_PREFIX)


def resolve_ack_target(
    ledger: PlaybackLedger,
    *,
    response_id: str | None,
    item_id: str | None,
    active_id: str | None,
    commit_seq: int,
) -> str:
    """Find the response that an acknowledgement means.

    Args:
        ledger: the cursors.
        response_id: what the client named, if anything.
        item_id: what else it named.
        active_id: the response that is open now.
        commit_seq: user inputs committed so far.

    Returns:
        A response id that has a cursor.

    Raises:
        RefusalError: ``playback_item_mismatch``, ``playback_item_not_found`` or
            ``playback_ack_too_late``.
    """
    target = _named(response_id, item_id) or _implied(ledger, active_id)
    if ledger.cursor(target) is not None:
        return target
    if ledger.released_before(target, commit_seq):
        raise RefusalError(
            "playback_ack_too_late",
            f"a later user turn was committed after response {target!r} was settled",
        )
    raise RefusalError(
        "playback_item_not_found", f"no response {target!r} awaits playback", param="response_id"
    )


def _named(response_id: str | None, item_id: str | None) -> str | None:
    if item_id is None:
        return response_id
    if response_id is None:
        return response_of_item(item_id)
    if item_id != f"{ITEM_PREFIX}{response_id}":
        raise RefusalError(
            "playback_item_mismatch",
            f"item {item_id!r} does not belong to response {response_id!r}",
            param="item_id",
        )
    return response_id


def _implied(ledger: PlaybackLedger, active_id: str | None) -> str:
    waiting = ledger.waiting()
    if len(waiting) == 1:
        return waiting[0]
    if active_id is None:
        raise RefusalError("playback_item_not_found", "nothing awaits playback")
    return active_id
