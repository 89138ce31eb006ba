"""A connection that serves a session: frames, numbers, ends (real sockets, a stub engine)."""

from __future__ import annotations

import base64
import json
import socket as sockets
import struct
from contextlib import asynccontextmanager
from typing import Any

import pytest
from duplex_sdk.protocol.duplex import (
    AppendAudio,
    AudioDelta,
    CloseSession,
    Commit,
    Heartbeat,
    Listen,
    SessionUpdated,
    TextDelta,
    UpdateSession,
    error_event,
)
from patience import eventually
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed


async def receive(socket: Any) -> dict[str, Any]:
    return json.loads(await socket.recv())


@asynccontextmanager
async def session(server, engine, path="/v1/duplex?model=stub"):
    """A connected session that has been announced."""
    async with connect(server.url(path), max_size=None) as socket:
        created = await receive(socket)
        assert created["type"] == "session.created"
        yield socket, engine.opened[-1]


async def until(condition) -> None:
    await eventually(condition)


async def ending(socket: Any) -> tuple[list[dict[str, Any]], int | None, str | None]:
    """What still comes, and how the socket is closed."""
    events = []
    try:
        while True:
            events.append(await receive(socket))
    except ConnectionClosed:
        return events, socket.close_code, socket.close_reason


@pytest.mark.parametrize(
    ("frame", "code", "client_id"),
    [
        ("{", "invalid_json", None),
        ("null", "bad_event", None),
        ("[]", "bad_event", None),
        ("12", "bad_event", None),
        ('{"type": 1, "event_id": "c"}', "bad_event", "c"),
        ('{"type":"no.such","event_id":"c"}', "unknown_event", "c"),
        ('{"type":"push_chunk"}', "unknown_event", None),
        (b"\x01\x02", "bad_event", None),
        (b'{"type":"session.heartbeat"}', "bad_event", None),
        ("[" * 50_000, "invalid_json", None),
        ('{"a":' * 50_000, "invalid_json", None),
        ('{"type":"input_audio_buffer.append","audio":"!!","event_id":"c"}', "bad_audio", "c"),
        ('{"type":"\\ud800"}', "invalid_json", None),
        ('{"type":"session.resume"}', "invalid_session_resume", None),
        (
            '{"type":"session.resume","session_id":"s","resume_token":"t"}',
            "unsupported_session_resume",
            None,
        ),
        ('{"type":"session.event_ack","server_event_seq":99}', "invalid_event_ack", None),
        ('{"type":"session.event_ack","server_event_seq":-1}', "invalid_event_ack", None),
    ],
)
async def test_bad_frame_is_named_and_the_session_goes_on(
    start_server, engine, frame, code, client_id
):
    async with start_server(engine) as server, session(server, engine) as (socket, stub):
        await socket.send(frame)
        error = await receive(socket)
        assert error["error"]["code"] == code
        assert error["error"].get("event_id") == client_id
        assert "server_event_seq" not in error
        await socket.send('{"type":"session.heartbeat"}')
        await until(lambda: len(stub.commands) == 1)
        assert isinstance(stub.commands[0], Heartbeat)
        assert not stub.closed


async def test_oversize_frame_is_dropped_and_named(start_server, engine):
    async with (
        start_server(engine, max_frame_bytes=1000) as server,
        session(server, engine) as (socket, stub),
    ):
        await socket.send(json.dumps({"type": "input.text.append", "text": "x" * 1000}))
        assert (await receive(socket))["error"]["code"] == "event_too_large"
        await socket.send(json.dumps({"type": "input.text.append", "text": "€" * 320}))
        assert (await receive(socket))["error"]["code"] == "event_too_large"
        await socket.send('{"type":"session.heartbeat"}')
        await until(lambda: stub.commands)


async def test_frame_beyond_the_transport_limit_ends_the_socket_and_frees_the_session(
    start_server, engine
):
    async with (
        start_server(engine, max_frame_bytes=1000) as server,
        session(server, engine) as (socket, stub),
    ):
        await socket.send("x" * (1000 + 2**20 + 1))
        await socket.wait_closed()
        assert socket.close_code == 1009
        await until(lambda: stub.closed)
        assert stub.close_reason == "disconnect"


async def test_commands_reach_the_session_in_order_and_decoded(start_server, engine):
    async with start_server(engine) as server, session(server, engine) as (socket, stub):
        audio = base64.b64encode(b"\1\2\3").decode()
        await socket.send(json.dumps({"type": "input_audio_buffer.append", "audio": audio}))
        await socket.send('{"type":"input_audio_buffer.commit","event_id":"c2"}')
        await until(lambda: len(stub.commands) == 2)
    assert [type(command) for command in stub.commands] == [AppendAudio, Commit]
    assert stub.commands[0].audio == b"\1\2\3"
    assert stub.commands[1].event_id == "c2"


async def test_events_are_numbered_from_one_without_gaps(start_server, engine):
    async with start_server(engine) as server, session(server, engine) as (socket, stub):
        stub.epoch = 4
        for text in ("a", "b", "c"):
            stub.say(TextDelta(response_id="r", item_id="i", delta=text))
        events = [await receive(socket) for _ in range(3)]
    assert [event["server_event_seq"] for event in events] == [1, 2, 3]
    assert [event["epoch"] for event in events] == [4, 4, 4]


async def test_what_a_profile_leaves_out_takes_no_number(start_server, engine):
    async with (
        start_server(engine) as server,
        session(server, engine, "/v1/realtime") as (socket, stub),
    ):
        stub.say(Listen(response={}))
        stub.say(TextDelta(response_id="r", item_id="i", delta="x"))
        event = await receive(socket)
    assert event["type"] == "response.output_text.delta"
    assert event["server_event_seq"] == 1


async def test_audio_that_a_cancel_took_back_is_skipped_without_a_number(start_server, engine):
    async with start_server(engine) as server, session(server, engine) as (socket, stub):
        # Both events are queued before the pump gets to run.
        stub.say(AudioDelta(response_id="r", item_id="i", delta=b"\0\0", format="pcm16"))
        stub.link.output.invalidate("r", 0)
        stub.say(TextDelta(response_id="r", item_id="i", delta="x"))
        event = await receive(socket)
    assert event["type"] == "response.output_text.delta"
    assert event["server_event_seq"] == 1


async def test_ack_of_a_sent_number_is_silent(start_server, engine):
    async with start_server(engine) as server, session(server, engine) as (socket, stub):
        stub.say(TextDelta(response_id="r", item_id="i", delta="x"))
        number = (await receive(socket))["server_event_seq"]
        await socket.send(json.dumps({"type": "session.event_ack", "server_event_seq": number}))
        stub.say(TextDelta(response_id="r", item_id="i", delta="y"))
        assert (await receive(socket))["delta"] == "y"


async def test_openai_client_opts_in_to_events_of_ours(start_server, engine):
    async with (
        start_server(engine) as server,
        session(server, engine, "/v1/realtime") as (socket, stub),
    ):
        update = {"type": "session.update", "session": {"duplex": {"events": "all"}}}
        await socket.send(json.dumps(update))
        await until(lambda: stub.commands)
        assert isinstance(stub.commands[0], UpdateSession)
        stub.say(SessionUpdated(session=stub.public()))
        stub.say(Listen(response={}))
        updated, listen = await receive(socket), await receive(socket)
    assert updated["session"]["duplex"] == {"events": "all"}
    assert listen["type"] == "response.listen"


async def test_malformed_choice_of_events_never_reaches_the_session(start_server, engine):
    async with (
        start_server(engine) as server,
        session(server, engine, "/v1/realtime") as (socket, stub),
    ):
        update = {
            "type": "session.update",
            "event_id": "u",
            "session": {"duplex": {"events": 1}},
        }
        await socket.send(json.dumps(update))
        error = (await receive(socket))["error"]
        assert not stub.commands
    assert (error["code"], error["param"], error["event_id"]) == (
        "bad_event",
        "session.duplex.events",
        "u",
    )


@pytest.mark.parametrize("path", ["/v1/realtime", "/v1/duplex?model=stub"])
@pytest.mark.parametrize("code", [1000, 1001, 4000])
async def test_client_that_closes_frees_the_session_at_once(start_server, engine, path, code):
    async with start_server(engine) as server, session(server, engine, path) as (socket, stub):
        await socket.close(code)
        await until(lambda: stub.closed)
        assert stub.close_reason == "disconnect"
        assert not engine.sessions
        await until(lambda: not server.app.registry.attached)


async def test_reset_connection_frees_the_session(start_server, engine):
    async with start_server(engine) as server, session(server, engine) as (socket, stub):
        raw = socket.transport.get_extra_info("socket")
        raw.setsockopt(sockets.SOL_SOCKET, sockets.SO_LINGER, struct.pack("ii", 1, 0))
        socket.transport.abort()
        await until(lambda: stub.closed)
        assert stub.close_reason == "disconnect"


async def test_silent_client_counts_as_gone(start_server, engine):
    engine.idle_timeout_s = 0.1
    async with start_server(engine) as server, session(server, engine) as (socket, stub):
        events, code, _ = await ending(socket)
    assert stub.close_reason == "disconnect"
    assert events[-1]["type"] == "session.closed"
    assert code == 1000


@pytest.mark.parametrize(
    ("reason", "code"),
    [("client_close", 1000), ("shutdown", 1001), ("runtime_failed", 1011), ("overload", 1011)],
)
async def test_openai_profile_tells_the_end_by_the_close_alone(start_server, engine, reason, code):
    async with (
        start_server(engine) as server,
        session(server, engine, "/v1/realtime") as (socket, stub),
    ):
        stub.end(reason)
        events, close_code, close_reason = await ending(socket)
    assert (close_code, close_reason) == (code, reason)
    assert [event["type"] for event in events] == (["error"] if code == 1011 else [])
    assert all(event["event_id"] for event in events)


async def test_openai_profile_shows_the_fault_that_ended_the_session(start_server, engine):
    async with (
        start_server(engine) as server,
        session(server, engine, "/v1/realtime") as (socket, stub),
    ):
        stub.say(error_event("output_backpressure", "nobody reads", new_id=""))
        stub.end("output_backpressure")
        events, code, _ = await ending(socket)
    assert [event["error"]["code"] for event in events] == ["output_backpressure"]
    assert code == 1011


async def test_duplex_profile_gets_the_terminal_event_then_a_normal_close(start_server, engine):
    async with start_server(engine) as server, session(server, engine) as (socket, stub):
        stub.end("runtime_failed")
        events, code, reason = await ending(socket)
    assert [event["type"] for event in events] == ["session.closed"]
    assert events[0]["reason"] == "runtime_failed"
    assert (code, reason) == (1000, "runtime_failed")


async def test_client_that_closes_its_session_in_its_own_words_is_closed_normally(
    start_server, engine
):
    async with (
        start_server(engine) as server,
        session(server, engine, "/v1/realtime") as (socket, stub),
    ):
        stub.on_command = lambda command: stub.end(command.reason)
        await socket.send('{"type":"session.close","reason":"done for today"}')
        events, code, reason = await ending(socket)
    assert isinstance(stub.commands[0], CloseSession)
    assert (events, code, reason) == ([], 1000, "done for today")


async def test_long_reasons_are_cut_to_what_a_close_frame_holds(start_server, engine):
    async with start_server(engine) as server, session(server, engine) as (socket, stub):
        stub.end("ü" * 100)
        _, code, reason = await ending(socket)
    assert code == 1000
    assert reason == "ü" * 61


async def test_command_after_the_end_is_answered_with_the_clients_id(start_server, engine):
    async with start_server(engine) as server, session(server, engine) as (socket, stub):
        stub.close_reason = "ending"
        await socket.send('{"type":"response.create","event_id":"late"}')
        error = (await receive(socket))["error"]
    assert (error["code"], error["event_id"]) == ("session_closed", "late")


async def test_nothing_follows_the_terminal_event(start_server, engine):
    async with start_server(engine) as server, session(server, engine) as (socket, stub):
        for _ in range(50):
            await socket.send("{")
        await until(lambda: server.app.registry.attached)
        stub.end("client_close")
        for _ in range(50):
            await socket.send("{")
        events, _, _ = await ending(socket)
    assert events[-1]["type"] == "session.closed"


async def test_openai_client_that_sends_too_fast_is_not_read_until_there_is_room(
    start_server, make_engine
):
    engine = make_engine(max_pending_input_bytes_per_session=100)
    append = json.dumps(
        {"type": "input_audio_buffer.append", "audio": base64.b64encode(bytes(60)).decode()}
    )
    async with (
        start_server(engine) as server,
        session(server, engine, "/v1/realtime") as (socket, stub),
    ):
        stub.link.room.publish(total=80, held=0, commands=0, turns=0)
        await socket.send(append)
        await socket.send('{"type":"session.heartbeat"}')
        await socket.ping()
        assert not stub.commands
        stub.link.room.publish(total=0, held=0, commands=0, turns=0)
        await until(lambda: len(stub.commands) == 2)
    assert [type(command) for command in stub.commands] == [AppendAudio, Heartbeat]


async def test_openai_client_that_never_gets_room_is_told_once_and_closed(
    start_server, make_engine
):
    engine = make_engine(max_pending_input_bytes_per_session=100, input_stall_timeout_s=0.05)
    append = json.dumps(
        {"type": "input_audio_buffer.append", "audio": base64.b64encode(bytes(60)).decode()}
    )
    async with (
        start_server(engine) as server,
        session(server, engine, "/v1/realtime") as (socket, stub),
    ):
        stub.link.room.publish(total=80, held=0, commands=0, turns=0)
        await socket.send(append)
        events, code, reason = await ending(socket)
    assert [event["error"]["code"] for event in events] == ["input_backpressure"]
    assert (code, reason) == (1008, "input_backpressure")
    assert stub.closed
    assert not stub.commands


@pytest.mark.parametrize("path", ["/v1/realtime", "/v1/duplex?model=stub"])
async def test_input_only_the_client_can_drain_is_the_sessions_to_refuse(
    start_server, make_engine, path
):
    engine = make_engine(max_pending_input_bytes_per_session=100)
    append = {"type": "input_audio_buffer.append", "audio": base64.b64encode(bytes(60)).decode()}
    async with start_server(engine) as server, session(server, engine, path) as (socket, stub):
        stub.link.room.publish(total=80, held=80, commands=0, turns=0)
        stub.on_command = lambda command: stub.refuse(command, "input_backpressure")
        await socket.send(json.dumps(append | {"event_id": "a1"}))
        error = (await receive(socket))["error"]
        assert (error["code"], error["event_id"]) == ("input_backpressure", "a1")
        assert not stub.closed


async def test_failure_of_the_connection_layer_ends_one_session_only(start_server, engine, caplog):
    async with (
        start_server(engine) as server,
        session(server, engine) as (healthy, _),
        session(server, engine) as (socket, stub),
    ):
        stub.on_command = lambda command: 1 / 0
        await socket.send('{"type":"session.heartbeat"}')
        events, code, reason = await ending(socket)
        assert events[0]["error"]["code"] == "realtime_input_failed"
        assert (code, reason) == (1011, "internal_error")
        assert stub.close_reason == "transport_error"
        await healthy.send("{")
        assert (await receive(healthy))["error"]["code"] == "invalid_json"


async def test_all_sessions_are_told_when_the_server_goes_away(start_server, engine):
    async with (
        start_server(engine) as server,
        session(server, engine) as (ours, _),
        session(server, engine, "/v1/realtime") as (stock, _),
    ):
        await server.app.close_sessions(5.0)
        events, code, _ = await ending(ours)
        assert (events[-1]["type"], events[-1]["reason"]) == ("session.closed", "shutdown")
        assert code == 1000
        events, code, reason = await ending(stock)
        assert (events, code, reason) == ([], 1001, "shutdown")
