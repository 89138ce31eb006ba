"""The event with which the protocol answers each command."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from duplex_sdk.protocol.duplex import (
    AckPlayback,
    BargeIn,
    CancelInput,
    CancelResponse,
    ClearInput,
    ClearOutputAudio,
    CloseSession,
    Commit,
    CreateItem,
    CreateResponse,
    DeleteItem,
    DuplexEvent,
    Heartbeat,
    InputCleared,
    InputCommitted,
    ItemAdded,
    ItemDeleted,
    ItemRetrieved,
    ItemTruncated,
    Listen,
    OutputAudioCleared,
    PlaybackAcknowledged,
    RealtimeCommand,
    ResponseCreated,
    ResponseDone,
    RetrieveItem,
    SessionClosed,
    SessionExpired,
    SessionHeartbeatAck,
    SessionUpdated,
    SignalTurn,
    TruncateItem,
    TurnEvent,
    UpdateSession,
)

__all__ = ["ANSWERING_EVENTS", "RESPONSE_TAG", "Answered", "answer_of"]

Answered = Callable[[DuplexEvent], bool]

RESPONSE_TAG = "client_event_id"
"""Key of a response's metadata that names the ``response.create`` it answers. Responses begin for
other reasons too; the server echoes the metadata, so nothing is left to chance."""


def answer_of(command: RealtimeCommand) -> Answered | None:
    """Return a test for the event that answers ``command``; None when the protocol has none."""
    rule = _RULES.get(type(command))
    return None if rule is None else rule(command)


def _any_of(*types: type[DuplexEvent]) -> Callable[[Any], Answered]:
    return lambda _: lambda event: isinstance(event, types)


def _commit(command: Commit) -> Answered | None:
    # One that is not final only flushes, and is not answered.
    return (lambda event: isinstance(event, InputCommitted)) if command.final else None


def _create_response(command: CreateResponse) -> Answered:
    tag = (command.response.get("metadata") or {}).get(RESPONSE_TAG)

    def answered(event: DuplexEvent) -> bool:
        if isinstance(event, ResponseCreated):
            return tag is None or (event.response.metadata or {}).get(RESPONSE_TAG) == tag
        return isinstance(event, Listen)

    return answered


def _cancel_response(command: CancelResponse) -> Answered:
    wanted = command.response_id

    def answered(event: DuplexEvent) -> bool:
        # A response that ended by itself, or by the user's voice, leaves the command to an error.
        if not isinstance(event, ResponseDone) or wanted not in (None, event.response_id):
            return False
        details = event.response.status_details
        return details is not None and details.reason == "client_cancelled"

    return answered


def _create_item(command: CreateItem) -> Answered:
    wanted = command.item.get("id")
    return lambda event: isinstance(event, ItemAdded) and wanted in (None, event.item.id)


def _retrieve_item(command: RetrieveItem) -> Answered:
    return lambda event: isinstance(event, ItemRetrieved) and event.item.id == command.item_id


def _by_item_id(kind: type[ItemDeleted] | type[ItemTruncated]) -> Callable[[Any], Answered]:
    return lambda command: (
        lambda event: isinstance(event, kind) and event.item_id == command.item_id
    )


def _ack_playback(command: AckPlayback) -> Answered:
    wanted = command.item_id or (command.response_id and f"item_{command.response_id}")
    return lambda event: (
        isinstance(event, PlaybackAcknowledged) and wanted in (None, event.event.get("item_id"))
    )


def _signal_turn(command: SignalTurn) -> Answered:
    return lambda event: isinstance(event, TurnEvent) and event.event == command.event


_RULES: Mapping[type[RealtimeCommand], Callable[[Any], Answered | None]] = {
    UpdateSession: _any_of(SessionUpdated),
    ClearInput: _any_of(InputCleared),
    ClearOutputAudio: _any_of(OutputAudioCleared),
    CreateResponse: _create_response,
    CancelResponse: _cancel_response,
    CreateItem: _create_item,
    DeleteItem: _by_item_id(ItemDeleted),
    TruncateItem: _by_item_id(ItemTruncated),
    RetrieveItem: _retrieve_item,
    Commit: _commit,
    CancelInput: _any_of(InputCleared),
    BargeIn: _any_of(InputCleared),
    SignalTurn: _signal_turn,
    AckPlayback: _ack_playback,
    Heartbeat: _any_of(SessionHeartbeatAck),
    CloseSession: _any_of(SessionClosed),
}

ANSWERING_EVENTS: frozenset[type[DuplexEvent]] = frozenset(
    {
        InputCleared,
        InputCommitted,
        ItemAdded,
        ItemDeleted,
        ItemRetrieved,
        ItemTruncated,
        Listen,
        OutputAudioCleared,
        PlaybackAcknowledged,
        ResponseCreated,
        ResponseDone,
        SessionClosed,
        SessionExpired,
        SessionHeartbeatAck,
        SessionUpdated,
        TurnEvent,
    }
)
"""Every type of event that answers some command."""
