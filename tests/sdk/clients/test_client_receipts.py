"""Receipts: each command's answer, its refusal, or the word that none will come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from duplex_sdk.clients import (
    ClientConnectionError,
    ClientError,
    ClientProtocolError,
    ClientSessionClosedError,
    ConnectionResumed,
    DuplexClient,
    Receipt,
    Reconnect,
)
from duplex_sdk.clients.receipts import MAX_OPEN_RECEIPTS
from duplex_sdk.protocol.duplex import (
    InputCleared,
    InputCommitted,
    OutputAudioCleared,
    ResponseCreated,
    SessionUpdated,
)

Send = Callable[[DuplexClient], Awaitable[Receipt[Any]]]


@pytest.fixture
async def opened(socket: Any, client: DuplexClient) -> AsyncIterator[DuplexClient]:
    socket.says_created()
    socket.says("session.updated", session={"id": "duplex-1"})
    await client.open()
    await settle()
    yield client
    await client.close(timeout_s=0)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def response(identity: str, status: str, **fields: Any) -> dict[str, Any]:
    return {
        "response_id": identity,
        "response": {"id": identity, "status": status, "output_modalities": ["audio"], **fields},
    }


def cancelled(identity: str, reason: str) -> dict[str, Any]:
    details = {"type": "cancelled", "reason": reason}
    return response(identity, "cancelled", status_details=details)


ITEM = {"id": "mine", "type": "message", "role": "user", "content": []}
OTHER = {"id": "other", "type": "message", "role": "user", "content": []}

ANSWERS: list[tuple[str, Send, list[tuple[str, dict[str, Any]]], tuple[str, dict[str, Any]]]] = [
    ("update", lambda c: c.update({}), [], ("session.updated", {"session": {"id": "duplex-1"}})),
    ("clear input", lambda c: c.clear_input(), [], ("input_audio_buffer.cleared", {})),
    (
        "clear output",
        lambda c: c.clear_output(),
        [("input_audio_buffer.cleared", {})],
        ("output_audio_buffer.cleared", {"response_id": None}),
    ),
    ("commit", lambda c: c.commit(), [], ("input_audio_buffer.committed", {"item_id": "i"})),
    (
        "create item",
        lambda c: c.create_item(ITEM),
        [("conversation.item.added", {"item": OTHER})],
        ("conversation.item.added", {"item": ITEM}),
    ),
    (
        "delete item",
        lambda c: c.delete_item("mine"),
        [("conversation.item.deleted", {"item_id": "other"})],
        ("conversation.item.deleted", {"item_id": "mine"}),
    ),
    (
        "truncate item",
        lambda c: c.truncate_item("mine", 10),
        [
            (
                "conversation.item.truncated",
                {"item_id": "other", "content_index": 0, "audio_end_ms": 1},
            )
        ],
        (
            "conversation.item.truncated",
            {"item_id": "mine", "content_index": 0, "audio_end_ms": 10},
        ),
    ),
    (
        "retrieve item",
        lambda c: c.retrieve_item("mine"),
        [("conversation.item.retrieved", {"item": OTHER})],
        ("conversation.item.retrieved", {"item": ITEM}),
    ),
    (
        "ack playback",
        lambda c: c.ack_playback(10, response_id="r"),
        [("playback.acknowledged", {"event": {"item_id": "item_q"}})],
        ("playback.acknowledged", {"event": {"item_id": "item_r"}}),
    ),
    (
        "cancel response",
        lambda c: c.cancel_response(),
        [
            ("response.done", response("r", "completed")),
            ("response.done", cancelled("r", "turn_detected")),
        ],
        ("response.done", cancelled("r", "client_cancelled")),
    ),
    (
        "cancel that response",
        lambda c: c.cancel_response("mine"),
        [("response.done", cancelled("other", "client_cancelled"))],
        ("response.done", cancelled("mine", "client_cancelled")),
    ),
]


@pytest.mark.parametrize(
    ("send", "others", "answer"), [row[1:] for row in ANSWERS], ids=[row[0] for row in ANSWERS]
)
async def test_command_is_acknowledged_by_its_answer_and_no_other(
    socket: Any,
    opened: DuplexClient,
    send: Send,
    others: list[tuple[str, dict[str, Any]]],
    answer: tuple[str, dict[str, Any]],
) -> None:
    receipt = await send(opened)
    for kind, fields in others:
        socket.says(kind, **fields)
    await settle()
    assert not receipt.settled
    socket.says(answer[0], **answer[1])
    acknowledged = await receipt.acknowledged()
    assert acknowledged.type == answer[0]


@pytest.mark.parametrize("send", [row[1] for row in ANSWERS], ids=[row[0] for row in ANSWERS])
async def test_refused_command_raises_with_the_code(
    socket: Any, opened: DuplexClient, send: Send
) -> None:
    receipt = await send(opened)
    socket.says_error("barge_in_unsupported", "somebody else's")
    await settle()
    assert not receipt.settled
    socket.says_error("input_backpressure", receipt.event_id)
    with pytest.raises(ClientProtocolError) as refused:
        await receipt.acknowledged()
    assert (refused.value.code, refused.value.event_id) == ("input_backpressure", receipt.event_id)


async def test_response_is_known_by_the_metadata_it_was_asked_for_with(
    socket: Any, opened: DuplexClient
) -> None:
    receipt = await opened.create_response(metadata={"topic": "weather"})
    asked = socket.sent[-1]["response"]["metadata"]
    assert asked == {"topic": "weather", "client_event_id": receipt.event_id}
    socket.says("response.created", **response("detector", "in_progress", metadata={}))
    socket.says("response.created", **response("mine", "in_progress", metadata=asked))
    created = await receipt.acknowledged()
    assert isinstance(created, ResponseCreated)
    assert created.response_id == "mine"


async def test_response_that_stays_silent_is_an_answer_too(
    socket: Any, opened: DuplexClient
) -> None:
    receipt = await opened.create_response()
    socket.says("response.listen", session_id="s", epoch=0, response={"status": "completed"})
    assert (await receipt.acknowledged()).type == "response.listen"


async def test_full_metadata_is_sent_as_it_is(socket: Any, opened: DuplexClient) -> None:
    full = {f"key{n}": "v" for n in range(16)}
    receipt = await opened.create_response(metadata=full)
    assert socket.sent[-1]["response"]["metadata"] == full
    socket.says("response.created", **response("r", "in_progress", metadata=full))
    assert isinstance(await receipt.acknowledged(), ResponseCreated)


async def test_commands_of_a_kind_are_answered_in_their_order(
    socket: Any, opened: DuplexClient
) -> None:
    first, second = await opened.clear_input(), await opened.clear_input()
    socket.says("input_audio_buffer.cleared")
    await first.acknowledged()
    assert not second.settled
    socket.says("input_audio_buffer.cleared")
    assert isinstance(await second.acknowledged(), InputCleared)


async def test_refused_command_leaves_the_answer_to_the_next(
    socket: Any, opened: DuplexClient
) -> None:
    first, second = await opened.update({"model": "x"}), await opened.update({"voice": "y"})
    socket.says_error("model_update_unsupported", first.event_id)
    socket.says("session.updated", session={"id": "duplex-1", "voice": "y"})
    answer = await second.acknowledged()
    assert isinstance(answer, SessionUpdated)
    with pytest.raises(ClientProtocolError):
        await first.acknowledged()


async def test_raw_command_takes_the_answer_that_is_its_own(
    socket: Any, opened: DuplexClient
) -> None:
    await opened.send({"type": "input.commit"})
    receipt = await opened.commit()
    socket.says("input_audio_buffer.committed", item_id="raw")
    socket.says("input_audio_buffer.committed", item_id="mine")
    committed = await receipt.acknowledged()
    assert isinstance(committed, InputCommitted)
    assert committed.item_id == "mine"


async def test_flush_has_no_answer(opened: DuplexClient) -> None:
    receipt = await opened.commit(final=False)
    assert not receipt.answerable
    with pytest.raises(ClientError, match="nothing answers"):
        await receipt.acknowledged()


def test_answer_that_never_comes_is_not_waited_for_longer_than_said(
    in_virtual_time: Callable[[Any], Any], socket: Any, client: DuplexClient
) -> None:
    async def main() -> None:
        socket.says_created()
        await client.open()
        receipt = await client.clear_input()
        with pytest.raises(TimeoutError):
            await receipt.acknowledged(5)
        assert asyncio.get_running_loop().time() == pytest.approx(5)
        await client.close(timeout_s=0)

    in_virtual_time(main)


async def test_end_of_the_session_settles_what_is_open(socket: Any, opened: DuplexClient) -> None:
    receipt = await opened.clear_input()
    socket.says("session.closed", session_id="s", epoch=0, reason="shutdown", event={})
    with pytest.raises(ClientSessionClosedError, match="shutdown"):
        await receipt.acknowledged()


async def test_unanswered_commands_do_not_pile_up(opened: DuplexClient) -> None:
    oldest = await opened.clear_input()
    for _ in range(MAX_OPEN_RECEIPTS):
        await opened.clear_input()
    with pytest.raises(ClientError, match="unanswered"):
        await oldest.acknowledged()


# Over a lost connection


async def resumed(server: Any) -> tuple[DuplexClient, Any]:
    client = DuplexClient(
        "ws://there",
        socket_factory=server.open,
        heartbeat_s=None,
        reconnect=Reconnect(jitter=0),
    )
    opening = asyncio.create_task(client.open())
    first = await server.connection(1)
    first.says_resumable()
    first.says("session.updated", session={"id": "duplex-1"}, server_event_seq=1)
    await opening
    return client, first


def passes_fence(socket: Any, seq: int) -> None:
    name = socket.sent_of("turn.signal")[-1]["event"]
    socket.says(
        "turn.event",
        session_id="s",
        epoch=0,
        event=name,
        turn_state="idle",
        server_event_seq=seq,
    )


def test_answer_in_the_replay_settles_the_command(
    in_virtual_time: Callable[[Any], Any], scripted_server: Any
) -> None:
    async def main() -> None:
        client, first = await resumed(scripted_server)
        receipt = await client.clear_input()
        first.breaks(ClientConnectionError("cable"))
        second = await scripted_server.connection(2)
        second.says_resumed()
        second.says("input_audio_buffer.cleared", server_event_seq=2)
        await receipt.acknowledged()
        await client.close(timeout_s=0)

    in_virtual_time(main)


def test_command_that_was_lost_is_told_apart_from_the_next_of_its_kind(
    in_virtual_time: Callable[[Any], Any], scripted_server: Any
) -> None:
    async def main() -> None:
        client, first = await resumed(scripted_server)
        events = client.events()
        lost = await client.clear_input()
        first.breaks(ClientConnectionError("cable"))
        second = await scripted_server.connection(2)
        second.says_resumed()
        arrived = await client.clear_input()
        assert second.sent_types()[:2] == ["session.resume", "turn.signal"]
        passes_fence(second, 2)
        second.says("input_audio_buffer.cleared", server_event_seq=3)
        assert isinstance(await arrived.acknowledged(), InputCleared)
        with pytest.raises(ClientConnectionError, match="before the answer"):
            await lost.acknowledged()
        heard = [(await anext(events)).type for _ in range(len(events))]
        assert "turn.event" not in heard  # the client's own question is not the listener's affair
        await client.close(timeout_s=0)

    in_virtual_time(main)


def test_question_of_an_earlier_connection_decides_nothing(
    in_virtual_time: Callable[[Any], Any], scripted_server: Any
) -> None:
    async def main() -> None:
        client, first = await resumed(scripted_server)
        events = client.events()
        lost = await client.clear_input()
        first.breaks(ClientConnectionError("cable"))
        second = await scripted_server.connection(2)
        second.says_resumed("TOKEN-2", 2)
        receipt = await client.clear_input()
        second.breaks(ClientConnectionError("cable"))
        third = await scripted_server.connection(3)
        third.says_resumed("TOKEN-3", 3)
        await asyncio.sleep(0.01)
        earlier = second.sent_of("turn.signal")[0]["event"]
        assert earlier != third.sent_of("turn.signal")[0]["event"]
        third.says("turn.event", session_id="s", epoch=0, event=earlier, turn_state="idle")
        await asyncio.sleep(0.01)
        assert lost.settled
        assert not receipt.settled
        third.says("input_audio_buffer.cleared", server_event_seq=2)
        await receipt.acknowledged()
        with pytest.raises(ClientConnectionError, match="before the answer"):
            await lost.acknowledged()
        heard = [(await anext(events)).type for _ in range(len(events))]
        assert "turn.event" not in heard
        await client.close(timeout_s=0)

    in_virtual_time(main)


def test_client_without_a_command_in_doubt_asks_nothing_when_it_is_back(
    in_virtual_time: Callable[[Any], Any], scripted_server: Any
) -> None:
    async def main() -> None:
        client, first = await resumed(scripted_server)
        first.breaks(ClientConnectionError("cable"))
        second = await scripted_server.connection(2)
        second.says_resumed()
        await asyncio.sleep(0.01)
        assert second.sent_types() == ["session.resume"]
        await client.clear_input()
        assert second.sent_types()[-1] == "input_audio_buffer.clear"
        await client.close(timeout_s=0)

    in_virtual_time(main)


@pytest.mark.parametrize(("newest", "missed"), [(1, 0), (4, 3), (None, None)])
def test_client_that_is_back_knows_how_much_it_missed(
    in_virtual_time: Callable[[Any], Any],
    scripted_server: Any,
    newest: int | None,
    missed: int | None,
) -> None:
    async def main() -> None:
        client, first = await resumed(scripted_server)
        events = client.events()
        first.breaks(ClientConnectionError("cable"))
        second = await scripted_server.connection(2)
        second.says_resumed(newest=newest)
        async for event in events:
            if isinstance(event, ConnectionResumed):
                break
        assert event.missed == missed
        await client.close(timeout_s=0)

    in_virtual_time(main)


# Interrupting


async def test_interrupt_returns_when_nothing_more_of_the_answer_can_come(
    socket: Any, opened: DuplexClient
) -> None:
    socket.says("response.created", **response("r", "in_progress"))
    await settle()
    interrupting = asyncio.create_task(opened.interrupt())
    await settle()
    assert socket.sent_types()[-1] == "output_audio_buffer.clear"
    socket.says("output_audio_buffer.cleared", response_id="r")
    await settle()
    assert not interrupting.done()
    socket.says("response.done", **cancelled("r", "output_audio_buffer_clear"))
    cleared = await interrupting
    assert isinstance(cleared, OutputAudioCleared)
    assert cleared.response_id == "r"


async def test_interrupt_of_an_answer_that_only_plays_needs_no_second_ending(
    socket: Any, opened: DuplexClient
) -> None:
    socket.says("response.created", **response("r", "in_progress"))
    socket.says("response.done", **response("r", "completed"))
    await settle()
    interrupting = asyncio.create_task(opened.interrupt())
    await settle()
    socket.says("output_audio_buffer.cleared", response_id="r")
    assert (await interrupting).response_id == "r"


async def test_interrupt_fails_with_the_session(socket: Any, opened: DuplexClient) -> None:
    interrupting = asyncio.create_task(opened.interrupt())
    await settle()
    socket.says("session.closed", session_id="s", epoch=0, reason="shutdown", event={})
    with pytest.raises(ClientSessionClosedError):
        await interrupting
