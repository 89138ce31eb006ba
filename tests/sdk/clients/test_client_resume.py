"""A lost connection: the client comes back, and nobody who listens misses or sees twice a thing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from duplex_sdk.clients import (
    ClientConnectionError,
    ClientError,
    ClientSessionClosedError,
    ConnectionLost,
    ConnectionResumed,
    DuplexClient,
    Reconnect,
    ResumeRefusedError,
)
from duplex_sdk.protocol.duplex import (
    ErrorEvent,
    SessionClosed,
    SessionReplaced,
    SessionResumed,
    SessionResyncRequired,
    SpeechStopped,
)

InVirtualTime = Callable[[Callable[[], Any]], Any]
Conversation = Callable[[DuplexClient, Any], Awaitable[None]]

STEADY = Reconnect(jitter=0)
CABLE = ClientConnectionError("cable")


def numbered(socket: Any, seq: int) -> None:
    socket.says(
        "input_audio_buffer.speech_stopped", audio_end_ms=seq, item_id="i", server_event_seq=seq
    )


async def opened(server: Any, **options: Any) -> DuplexClient:
    client = DuplexClient(
        "ws://there", socket_factory=server.open, heartbeat_s=None, reconnect=STEADY, **options
    )
    opening = asyncio.create_task(client.open())
    (await server.connection(1)).says_resumable()
    await opening
    return client


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture
def talk(in_virtual_time: InVirtualTime, scripted_server: Any) -> Callable[[Conversation], None]:
    def run(conversation: Conversation) -> None:
        async def main() -> None:
            client = await opened(scripted_server)
            try:
                await conversation(client, scripted_server)
            finally:
                await client.close(timeout_s=0)

        in_virtual_time(main)

    return run


def test_client_comes_back_with_its_token_and_the_last_number(talk: Any) -> None:
    async def conversation(client: DuplexClient, server: Any) -> None:
        first = await server.connection(1)
        events = client.events()
        numbered(first, 1)
        numbered(first, 2)
        first.breaks(CABLE)
        second = await server.connection(2)
        await settle()
        request = second.sent[0]
        assert request == {
            "type": "session.resume",
            "session_id": "duplex-1",
            "resume_token": "TOKEN-1",
            "last_received_server_event_seq": 2,
        }
        assert "resume=1" in second.url
        second.says_resumed()
        for seq in (2, 3):
            numbered(second, seq)
        seen = [await anext(events) for _ in range(6)]
        assert [type(event) for event in seen] == [
            SpeechStopped,
            SpeechStopped,
            ConnectionLost,
            SessionResumed,
            ConnectionResumed,
            SpeechStopped,
        ]
        assert [e.audio_end_ms for e in seen if isinstance(e, SpeechStopped)] == [1, 2, 3]
        back = seen[4]
        assert isinstance(back, ConnectionResumed)
        assert (back.attempts, back.attachment_generation) == (1, 2)
        assert back.outage_s == pytest.approx(0.1)

    talk(conversation)


def test_newest_token_opens_the_next_connection(talk: Any) -> None:
    async def conversation(client: DuplexClient, server: Any) -> None:
        for number in (1, 2, 3):
            socket = await server.connection(number)
            if number > 1:
                socket.says_resumed(f"TOKEN-{number}", number)
            await asyncio.sleep(0.01)
            socket.breaks(CABLE)
        last = await server.connection(4)
        await settle()
        assert last.sent[0]["resume_token"] == "TOKEN-3"

    talk(conversation)


def test_tries_come_at_growing_distances_until_given_up(talk: Any) -> None:
    async def conversation(client: DuplexClient, server: Any) -> None:
        loop = asyncio.get_running_loop()
        start = loop.time()
        server.refusals.extend(ClientConnectionError("unreachable") for _ in range(50))
        events = client.events()
        (await server.connection(1)).breaks(CABLE)
        assert isinstance(await anext(events), ConnectionLost)
        with pytest.raises(ClientConnectionError, match="not regained in 60 s") as lost:
            await anext(events)
        assert isinstance(lost.value.__cause__, ClientConnectionError)
        assert loop.time() - start == pytest.approx(60)
        # 0.1 + 0.2 + 0.4 + 0.8 + 1.6 + 3.2, then 5 s each.
        assert len(server.tried) - 1 == 6 + (60 - 6.3) // 5

    talk(conversation)


def test_pauses_differ_by_chance_and_stay_within_their_bounds() -> None:
    low = Reconnect(jitter=0.5).delays(lambda: 1.0)
    high = Reconnect(jitter=0.5).delays(lambda: 0.0)
    pairs = [(next(low), next(high)) for _ in range(12)]
    assert pairs[0] == (0.05, 0.1)
    assert pairs[-1] == (2.5, 5.0)


@pytest.mark.parametrize(
    "code", ["session_resume_expired", "invalid_session_resume", "invalid_resume_token"]
)
def test_refused_resume_ends_the_client_and_says_why(talk: Any, code: str) -> None:
    async def conversation(client: DuplexClient, server: Any) -> None:
        events = client.events()
        (await server.connection(1)).breaks(CABLE)
        (await server.connection(2)).says_error(code)
        assert isinstance(await anext(events), ConnectionLost)
        assert isinstance(await anext(events), ErrorEvent)
        with pytest.raises(ResumeRefusedError) as refused:
            await anext(events)
        assert refused.value.code == code
        assert client.closed
        with pytest.raises(ResumeRefusedError):
            await client.clear_input()

    talk(conversation)


def test_token_whose_successor_was_lost_is_tried_again(talk: Any) -> None:
    async def conversation(client: DuplexClient, server: Any) -> None:
        events = client.events()
        (await server.connection(1)).breaks(CABLE)
        (await server.connection(2)).breaks(CABLE)  # the answer never came
        (await server.connection(3)).says_error("invalid_resume_token")  # not noticed there yet
        (await server.connection(4)).says_resumed()
        assert [type(await anext(events)) for _ in range(3)] == [
            ConnectionLost,
            SessionResumed,
            ConnectionResumed,
        ]

    talk(conversation)


@pytest.mark.parametrize("code", ["runtime_resume_failed", "session_resume_conflict"])
def test_resume_that_failed_for_the_moment_is_tried_again(talk: Any, code: str) -> None:
    async def conversation(client: DuplexClient, server: Any) -> None:
        events = client.events()
        (await server.connection(1)).breaks(CABLE)
        (await server.connection(2)).says_error(code)
        (await server.connection(3)).says_resumed()
        assert isinstance(await anext(events), ConnectionLost)
        assert isinstance(await anext(events), SessionResumed)

    talk(conversation)


@pytest.mark.parametrize("status", [401, 403, 404])
def test_server_that_lets_nobody_in_is_not_asked_twice(talk: Any, status: int) -> None:
    async def conversation(client: DuplexClient, server: Any) -> None:
        events = client.events()
        server.refusals.append(ClientConnectionError("refused", status=status))
        (await server.connection(1)).breaks(CABLE)
        assert isinstance(await anext(events), ConnectionLost)
        with pytest.raises(ClientConnectionError, match="refused"):
            await anext(events)
        assert len(server.tried) == 2

    talk(conversation)


def test_gap_in_the_journal_is_told_and_ends_the_client(talk: Any) -> None:
    async def conversation(client: DuplexClient, server: Any) -> None:
        events = client.events()
        (await server.connection(1)).breaks(CABLE)
        second = await server.connection(2)
        second.says("session.resync_required", session_id="duplex-1", reason="journal_gap")
        assert isinstance(await anext(events), ConnectionLost)
        assert isinstance(await anext(events), SessionResyncRequired)
        with pytest.raises(ResumeRefusedError) as refused:
            await anext(events)
        assert refused.value.code == "journal_gap"
        assert len(server.sockets) == 2

    talk(conversation)


def test_overflown_journal_leaves_the_session_without_a_way_back(talk: Any) -> None:
    async def conversation(client: DuplexClient, server: Any) -> None:
        first = await server.connection(1)
        events = client.events()
        first.says("session.resync_required", session_id="duplex-1", reason="journal_overflow")
        assert isinstance(await anext(events), SessionResyncRequired)
        first.says("input_audio_buffer.speech_stopped", audio_end_ms=1, item_id="i")
        assert isinstance(await anext(events), SpeechStopped)
        first.breaks(CABLE)
        with pytest.raises(ClientConnectionError, match="cable"):
            await anext(events)
        assert len(server.sockets) == 1

    talk(conversation)


def test_session_taken_over_elsewhere_is_left_alone(talk: Any) -> None:
    async def conversation(client: DuplexClient, server: Any) -> None:
        first = await server.connection(1)
        events = client.events()
        first.says("session.replaced", session_id="duplex-1", attachment_generation=1)
        first.breaks(ClientSessionClosedError("session_replaced"))
        assert [type(event) async for event in events] == [SessionReplaced]
        await asyncio.sleep(10)
        assert len(server.sockets) == 1

    talk(conversation)


@pytest.mark.parametrize(
    "loss", [CABLE, ClientSessionClosedError("shutdown")], ids=["lost", "closed"]
)
def test_session_that_ended_is_not_resumed(talk: Any, loss: ClientError) -> None:
    async def conversation(client: DuplexClient, server: Any) -> None:
        first = await server.connection(1)
        first.says("session.closed", session_id="s", epoch=0, reason="shutdown", event={})
        first.breaks(loss)
        await asyncio.sleep(10)
        assert len(server.sockets) == 1

    talk(conversation)


def test_commands_wait_for_the_connection_in_their_order(talk: Any) -> None:
    async def conversation(client: DuplexClient, server: Any) -> None:
        first = await server.connection(1)
        first.breaks(CABLE)
        await asyncio.sleep(0.01)
        sends = [asyncio.create_task(client.append_audio(bytes([n, 0]))) for n in range(5)]
        second = await server.connection(2)
        await settle()
        assert not any(send.done() for send in sends)
        second.says_resumed()
        ids = await asyncio.gather(*sends)
        appended = second.sent_of("input_audio_buffer.append")
        assert [frame["event_id"] for frame in appended] == ids
        assert first.sent_of("input_audio_buffer.append") == []

    talk(conversation)


def test_frame_that_could_not_leave_goes_out_on_the_next_connection(talk: Any) -> None:
    async def conversation(client: DuplexClient, server: Any) -> None:
        first = await server.connection(1)
        first.closed = True  # sends fail; nothing was read of the loss yet
        appending = asyncio.create_task(client.append_audio(b"\0\0"))
        second = await server.connection(2)
        second.says_resumed()
        await appending
        assert len(second.sent_of("input_audio_buffer.append")) == 1

    talk(conversation)


def test_waiting_command_fails_when_the_session_is_given_up(talk: Any) -> None:
    async def conversation(client: DuplexClient, server: Any) -> None:
        (await server.connection(1)).breaks(CABLE)
        await asyncio.sleep(0.01)
        appending = asyncio.create_task(client.append_audio(b"\0\0"))
        (await server.connection(2)).says_error("session_resume_expired")
        with pytest.raises(ResumeRefusedError):
            await appending

    talk(conversation)


def test_close_does_not_wait_for_a_connection_to_come_back(talk: Any) -> None:
    async def conversation(client: DuplexClient, server: Any) -> None:
        loop = asyncio.get_running_loop()
        server.refusals.extend(CABLE for _ in range(50))
        (await server.connection(1)).breaks(CABLE)
        await asyncio.sleep(1)
        appending = asyncio.create_task(client.append_audio(b"\0\0"))
        await settle()
        start = loop.time()
        await client.close()
        assert loop.time() == start
        with pytest.raises(ClientConnectionError):
            await appending

    talk(conversation)


def test_close_that_was_lost_on_its_way_is_asked_for_again(talk: Any) -> None:
    async def conversation(client: DuplexClient, server: Any) -> None:
        first = await server.connection(1)
        events = client.events()
        closing = asyncio.create_task(client.close())
        await settle()
        assert first.sent_types()[-1] == "session.close"
        first.breaks(CABLE)
        second = await server.connection(2)
        second.says_resumed()
        await settle()
        assert "session.close" not in second.sent_types()
        name = second.sent_of("turn.signal")[0]["event"]
        second.says("turn.event", session_id="s", epoch=0, event=name, turn_state="idle")
        await settle()
        assert second.sent_types()[-1] == "session.close"
        second.says("session.closed", session_id="s", epoch=0, reason="client_close", event={})
        await closing
        assert [type(event) async for event in events][-1] is SessionClosed

    talk(conversation)


def test_frame_that_cannot_be_handled_ends_the_client_and_is_not_asked_for_again(
    talk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def conversation(client: DuplexClient, server: Any) -> None:
        events = client.events()

        def fails(_: Any) -> None:
            raise ValueError("a fault of ours")

        monkeypatch.setattr(client, "_dispatch", fails)
        numbered(await server.connection(1), 1)
        with pytest.raises(ClientError, match="a fault of ours"):
            await anext(events)
        assert len(server.sockets) == 1

    talk(conversation)


def test_dead_connection_is_left_for_a_new_one(
    in_virtual_time: InVirtualTime, scripted_server: Any
) -> None:
    async def main() -> None:
        client = DuplexClient(
            "ws://there", socket_factory=scripted_server.open, heartbeat_s=15, reconnect=STEADY
        )
        opening = asyncio.create_task(client.open())
        first = await scripted_server.connection(1)
        first.says_resumable()
        await opening
        events = client.events()
        second = await scripted_server.connection(2)  # the first one says nothing, and breaks not
        assert asyncio.get_running_loop().time() == pytest.approx(15 + 10 + 0.1)
        assert first.closed
        second.says_resumed()
        assert isinstance(await anext(events), ConnectionLost)
        assert isinstance(await anext(events), SessionResumed)
        await client.close(timeout_s=0)

    in_virtual_time(main)


def test_connection_that_takes_nothing_is_left_and_what_waited_goes_out_on_the_next(
    in_virtual_time: InVirtualTime, scripted_server: Any
) -> None:
    async def main() -> None:
        client = DuplexClient(
            "ws://there", socket_factory=scripted_server.open, heartbeat_s=15, reconnect=STEADY
        )
        opening = asyncio.create_task(client.open())
        first = await scripted_server.connection(1)
        first.says_resumable()
        await opening
        first.takes_nothing = True
        appending = asyncio.create_task(client.append_audio(b"\0\0"))
        second = await scripted_server.connection(2)
        assert asyncio.get_running_loop().time() == pytest.approx(15 + 10 + 0.1)
        second.says_resumed()
        await appending
        assert len(second.sent_of("input_audio_buffer.append")) == 1
        await client.close(timeout_s=0)

    in_virtual_time(main)


def test_server_that_accepts_and_says_nothing_is_tried_anew(talk: Any) -> None:
    async def conversation(client: DuplexClient, server: Any) -> None:
        loop = asyncio.get_running_loop()
        (await server.connection(1)).breaks(CABLE)
        mute = await server.connection(2)
        third = await server.connection(3)
        assert loop.time() == pytest.approx(0.1 + 10 + 0.2)
        await settle()
        assert mute.closed
        third.says_resumed()

    talk(conversation)


@pytest.mark.parametrize("options", [{"reconnect": None}, {"duplex": False}])
def test_client_that_shall_not_come_back_does_not(
    in_virtual_time: InVirtualTime, scripted_server: Any, options: dict[str, Any]
) -> None:
    async def main() -> None:
        client = DuplexClient("ws://there", socket_factory=scripted_server.open, **options)
        opening = asyncio.create_task(client.open())
        first = await scripted_server.connection(1)
        first.says_resumable()
        await opening
        events = client.events()
        first.breaks(CABLE)
        with pytest.raises(ClientConnectionError, match="cable"):
            await anext(events)
        await client.close()
        assert len(scripted_server.sockets) == 1

    in_virtual_time(main)
