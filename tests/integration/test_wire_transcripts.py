"""Whole conversations frame by frame: order and content, over a socket and in process.

What a frame must hold is written out. A name with a dollar stands for a value that the server
chooses, and is the same wherever it stands; ``...`` stands for anything; ``MORE`` as a key allows
further keys. The envelope (``event_id``, ``epoch``, numbers) is left out where it is looked at once
for all frames.
"""

from __future__ import annotations

import asyncio
import base64
import json
import socket
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from duplex_sdk.plugin import DuplexSessionRuntimeConfig
from duplex_sdk.testing.session_lab import tone
from duplex_server.runtime.vad import EnergyVad, VadProvider
from duplex_server.testing import Harness, RunningServer
from patience import PATIENCE_S
from websockets.asyncio.client import ClientConnection, connect

MODELS = Path(__file__).parents[1] / "worker_models"
MORE = "..."
ENVELOPE = ("event_id", "epoch", "server_event_seq")
RATE = 16_000


# frames


def unlike(expected: Any, seen: Any, names: dict[str, Any], where: str = "") -> str | None:
    """The first place where what was seen is not what is expected; binds names on the way."""
    if expected is ...:
        return None
    if isinstance(expected, str) and expected.startswith("$"):
        known = names.setdefault(expected, seen)
        return None if known == seen else f"{where}: {seen!r}, but {expected} is {known!r}"
    if isinstance(expected, dict) and isinstance(seen, dict):
        extra = {*seen} - {*expected} - ({*ENVELOPE} if not where else set())
        if extra and MORE not in expected:
            return f"{where}: also {sorted(extra)}"
        for key, value in expected.items():
            if key == MORE:
                continue
            if key not in seen:
                return f"{where}.{key} is missing"
            found = unlike(value, seen[key], names, f"{where}.{key}")
            if found:
                return found
        return None
    if isinstance(expected, list) and isinstance(seen, list) and len(expected) == len(seen):
        places = enumerate(zip(expected, seen, strict=True))
        found_in = (unlike(*pair, names, f"{where}[{n}]") for n, pair in places)
        return next((each for each in found_in if each), None)
    return None if expected == seen else f"{where}: {seen!r} instead of {expected!r}"


def assert_frames(
    expected: list[dict[str, Any]], seen: list[dict[str, Any]], names: dict[str, Any]
) -> None:
    assert [each["type"] for each in seen] == [each["type"] for each in expected]
    for place, (frame, event) in enumerate(zip(expected, seen, strict=True)):
        wrong = unlike(frame, event, names)
        assert wrong is None, f"frame {place}, {event['type']}{wrong}"


def message(item: str, text: str, ms: int, status: str = "completed") -> dict[str, Any]:
    part = {"type": "output_audio", "transcript": text, "audio_duration_ms": ms}
    return {
        "id": item,
        "object": "realtime.item",
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": [part],
    }


def playback(generated: int, played: int = 0) -> dict[str, int]:
    return {
        "generated_ms": generated,
        "sent_ms": generated,
        "played_ms": played,
        "committed_ms": played,
    }


def response(name: str, status: str, output: list[Any], **ours: Any) -> dict[str, Any]:
    details = ours.pop("details", None)
    return {
        "id": name,
        "object": "realtime.response",
        "conversation_id": None,
        "status": status,
        "status_details": details,
        "output": output,
        "output_modalities": [*ours.pop("modalities", ("text", "audio"))],
        "usage": None,
        "metadata": {"duplex": {"session_id": "$session", "epoch": 0, **ours}},
    }


class Response:
    """The frames of one spoken answer."""

    def __init__(self, name: str, *, turn_id: int, after: str | None, **more: Any) -> None:
        self.id, self.item = f"${name}", f"$item_{name}"
        self.turn_id, self.after, self.more = turn_id, after, more

    def _of(self, kind: str, **fields: Any) -> dict[str, Any]:
        return {"type": f"response.{kind}", "response_id": self.id, **fields}

    def _part(self, kind: str, **fields: Any) -> dict[str, Any]:
        place = {"item_id": self.item, "output_index": 0, "content_index": 0}
        return self._of(kind, **place, **fields)

    def created(self) -> dict[str, Any]:
        shown = response(self.id, "in_progress", [], turn_id=self.turn_id, **self.more)
        return self._of("created", response=shown)

    def opened(self, *, native: bool) -> list[dict[str, Any]]:
        item = message(self.item, "", 0, "in_progress") | {"content": []}
        said = {"session_id": "$session", "epoch": 0, "model_speak": True}
        return [
            self.created(),
            self._of("output_item.added", output_index=0, item=item),
            {"type": "conversation.item.added", "previous_item_id": self.after, "item": item},
            self._part("content_part.added", part={"type": "audio", "transcript": ""}),
            *([self._part("speak", metadata=said)] if native else []),
        ]

    def said(
        self, text: str, *, marks: list[tuple[int, int]], played: int = 0, last: bool = False
    ) -> list[dict[str, Any]]:
        ms = marks[-1][1]
        shown = [{"text_chars": chars, "audio_end_ms": at} for chars, at in marks]
        delta = self._part(
            "output_audio.delta",
            delta=...,
            format="pcm16",
            sample_rate_hz=24_000,
            metadata={
                "session_id": "$session",
                "epoch": 0,
                "model_speak": True,
                "end_of_turn": last,
                "audio_duration_ms": ms,
                "audio_text_marks": shown,
                "playback": playback(ms, played),
            },
        )
        return [delta, self._part("output_audio_transcript.delta", delta=text)]

    def closed(self, whole: str, item: dict[str, Any], done: dict[str, Any]) -> list[Any]:
        return [
            self._part("output_audio.done"),
            self._part("output_audio_transcript.done", transcript=whole),
            self._part("content_part.done", part={"type": "audio", "transcript": whole}),
            {"type": "conversation.item.done", "previous_item_id": self.after, "item": item},
            self._of("output_item.done", output_index=0, item=item),
            self._of("done", response=done),
            {"type": "rate_limits.updated", "rate_limits": []},
        ]


def commit(
    item: str, *, after: str | None, length: int, stopped_ms: Any, **flags: Any
) -> list[Any]:
    user = {
        "id": item,
        "object": "realtime.item",
        "type": "message",
        "role": "user",
        "status": "completed",
        "content": [{"type": "input_audio", "transcript": ""}],
    }
    heard = {"type": "audio_url", "audio_url": {"url": "duplex:input-audio"}}
    event = {
        "type": "input.committed",
        "session_id": "$session",
        "turn_id": flags.pop("turn_id", 0),
        "epoch": 0,
        "history_len": length,
        "realtime_item_id": item,
        "message": {"role": "user", "content": [heard]},
        **flags,
    }
    place = {"previous_item_id": after}
    return [
        {
            "type": "input_audio_buffer.speech_stopped",
            "audio_end_ms": stopped_ms,
            "item_id": item,
        },
        {"type": "conversation.item.added", **place, "item": user},
        {"type": "input_audio_buffer.committed", **place, "item_id": item, "event": event},
        {"type": "conversation.item.done", **place, "item": user},
    ]


# carriers


class Talk(ABC):
    """One conversation and all frames it has brought."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []

    @abstractmethod
    async def send(self, kind: str, **fields: Any) -> None: ...

    @abstractmethod
    async def _receive(self) -> dict[str, Any]: ...

    async def until(self, kind: str, count: int = 1) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE_S):
            for _ in range(count):
                self.seen.append(await self._receive())
                while self.seen[-1]["type"] != kind:
                    self.seen.append(await self._receive())
        return self.seen[-1]

    async def append(self, ms: int, **fields: Any) -> None:
        audio = base64.b64encode(tone(ms, RATE)).decode()
        await self.send("input_audio_buffer.append", audio=audio, duration_ms=ms, **fields)

    def since(self, place: int) -> list[dict[str, Any]]:
        return self.seen[place:]


class SocketTalk(Talk):
    def __init__(self, connection: ClientConnection) -> None:
        super().__init__()
        self.socket = connection

    async def send(self, kind: str, **fields: Any) -> None:
        await self.socket.send(msgspec.json.encode({"type": kind, **fields}).decode())

    async def _receive(self) -> dict[str, Any]:
        event: dict[str, Any] = msgspec.json.decode(await self.socket.recv())
        return event


class InlineTalk(Talk):
    def __init__(self, client: Any) -> None:
        super().__init__()
        self._client, self._events = client, client.events()

    async def send(self, kind: str, **fields: Any) -> None:
        await self._client.send({"type": kind, **fields})

    async def _receive(self) -> dict[str, Any]:
        event = await anext(self._events)
        return {**event.to_realtime(), "epoch": event.epoch}


@pytest.fixture
def actor(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(MODELS))
    from wire_actor import spec

    return spec


@asynccontextmanager
async def serving(
    actor: Any, *acts: Any, native: bool = False, **limits: Any
) -> AsyncIterator[Any]:
    options = {"native": native, "acts": json.dumps(acts)}
    config = DuplexSessionRuntimeConfig(**{"max_sessions": 4, **limits})
    vad = VadProvider.of(EnergyVad())
    async with Harness().server(actor, options, limits=config, vad=vad) as server:
        yield server


@asynccontextmanager
async def talking(server: RunningServer, carrier: str, **session: Any) -> AsyncIterator[Talk]:
    if carrier == "socket":
        async with connect(f"{server.url}/v1/duplex") as connection:
            talk = SocketTalk(connection)
            await talk.send("session.update", event_id="c1", session=session)
            await talk.until("session.updated")
            yield talk
        return
    client = Harness().inline_client(server.omni, session)
    inline = InlineTalk(client)
    async with client:
        await inline.until("session.updated")
        yield inline


@pytest.fixture(params=["socket", "inline"])
def carrier(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def assert_numbered(talk: Talk) -> None:
    """Every event but the first has a number, without gaps; each has an id and an epoch."""
    assert all(each["event_id"].startswith("event_") for each in talk.seen)
    assert all(isinstance(each["epoch"], int) for each in talk.seen)
    if isinstance(talk, SocketTalk):
        numbers = [each["server_event_seq"] for each in talk.seen[1:]]
        assert numbers == [*range(1, len(numbers) + 1)]
        assert "server_event_seq" not in talk.seen[0]


def opening(carrier: str, **session: Any) -> list[dict[str, Any]]:
    shown = {"id": "$session", "object": "realtime.session", "type": "realtime", MORE: 0}
    created = shown | {
        "state": "open",
        "turn_state": "idle",
        "epoch": 0,
        "turn_id": 0,
        "playback": playback(0),
        **session,
    }
    attached = {"attachment_generation": 1, "resume_token": "$token"}
    return [
        {
            "type": "session.created",
            "session": created,
            **(attached if carrier == "socket" else {}),
        },
        {"type": "session.updated", "session": shown},
    ]


# the conversations


async def test_one_turn_of_a_native_model_with_an_explicit_commit(actor: Any, carrier: str) -> None:
    act = {"pieces": [["Good day. ", 1000], ["Tell me.", 500]]}
    session = {
        "output_modalities": ["audio", "text"],
        "instructions": "Be brief.",
        "audio": {"input": {"format": {"type": "audio/pcm", "rate": RATE}, "turn_detection": None}},
        "playback_commit_policy": "ack_only",
    }
    async with (
        serving(actor, act, native=True) as server,
        talking(server, carrier, **session) as talk,
    ):
        await talk.append(1000, is_speech=True)
        await talk.until("input_audio_buffer.speech_started")
        await talk.append(600, is_speech=True)
        await talk.send("input_audio_buffer.commit", event_id="c2", response_create=True)
        done = await talk.until("response.done")
        name = done["response_id"]
        await talk.until("rate_limits.updated")
        await talk.send("playback.ack", response_id=name, played_ms=1500)
        await talk.until("playback.acknowledged")
        await talk.send("session.close")
        await talk.until("session.closed")
    answer = Response("a", turn_id=0, after="$u1", modalities=("audio", "text"))
    item = message(answer.item, "Good day. Tell me.", 1500)
    ours = {"turn_id": 0, "decision": "speak", "committed": False, "finish_reason": "stop"}
    end = response(
        answer.id,
        "completed",
        [item],
        modalities=("audio", "text"),
        playback=playback(1500),
        **ours,
    )
    assert_frames(
        [
            *opening(
                carrier,
                overlap_policy="listen_only",
                playback_commit_policy="ack_only",
                capabilities={
                    "implementation_level": "model_native_duplex",
                    "supports_session_resume": True,
                    "supports_barge_in": True,
                    "chunk_period_ms": 1000,
                    MORE: 0,
                },
            ),
            {
                "type": "input_audio_buffer.speech_started",
                "audio_start_ms": 0,
                "item_id": "$u1",
            },
            *commit("$u1", after=None, length=1, stopped_ms=1600),
            *answer.opened(native=True),
            *answer.said("Good day. ", marks=[(10, 1000)]),
            *answer.said("Tell me.", marks=[(18, 1500)], last=True),
            *answer.closed("Good day. Tell me.", item, end),
            {
                "type": "playback.acknowledged",
                "event": {
                    "type": "playback.acknowledged",
                    "session_id": "$session",
                    "epoch": 0,
                    "item_id": answer.item,
                    "played_ms": 1500,
                    "committed_ms": 1500,
                    "truncate": False,
                    "playback": playback(1500, 1500),
                    "history_committed": True,
                },
            },
            {
                "type": "session.closed",
                "session_id": "$session",
                "reason": "client_close",
                "event": {"type": "session.closed", "reason": "client_close"},
            },
        ],
        talk.seen,
        names := {},
    )
    assert names["$item_a"] == f"item_{names['$a']}"
    assert_numbered(talk)


async def test_barge_in_under_the_servers_detector(actor: Any, carrier: str) -> None:
    text = "The train leaves at nine"
    act = {"pieces": [[text, 3000]], "hold": True}
    async with (
        serving(actor, act) as server,
        talking(server, carrier, turn_detection={"type": "server_vad"}) as talk,
    ):
        await talk.send(
            "conversation.item.create",
            item={"type": "message", "role": "user", "content": []},
        )
        await talk.send("response.create")
        # Three seconds come in deltas of one.
        name = (await talk.until("response.output_audio_transcript.delta", 3))["response_id"]
        before = len(talk.seen)
        await talk.send("playback.ack", response_id=name, played_ms=600)
        await talk.append(200)
        await talk.until("rate_limits.updated")
        interrupted = talk.since(before)
        assert_numbered(talk)
    answer = Response("b", turn_id=0, after=...)
    item = message(answer.item, "The", 3000, "incomplete")
    end = response(
        answer.id,
        "cancelled",
        [item],
        details={"type": "cancelled", "reason": "turn_detected"},
        turn_id=0,
        decision="speak",
        committed=True,
        playback=playback(3000, 600),
    )
    decision = {
        "action": "barge_in",
        "reason": "server_vad_speech_started",
        "duration_ms": 200,
        "overlap_speech_ms": 200,
        "buffer_audio": True,
    }
    assert_frames(
        [
            {
                "type": "playback.acknowledged",
                "event": {
                    "type": "playback.acknowledged",
                    "session_id": "$session",
                    "epoch": 0,
                    "item_id": answer.item,
                    "played_ms": 600,
                    "committed_ms": 600,
                    "truncate": False,
                    "playback": playback(3000, 600),
                    "history_committed": True,
                },
            },
            {
                "type": "input_audio_buffer.speech_started",
                "audio_start_ms": 0,
                "item_id": "$u2",
            },
            {
                "type": "overlap.decision",
                "session_id": "$session",
                "policy": "barge_in_on_speech",
                "action": "barge_in",
                "reason": "server_vad_speech_started",
                "metadata": decision,
            },
            *answer.closed(text, item, end),
        ],
        interrupted,
        {},
    )
    assert [each["epoch"] for each in interrupted] == [0] * 3 + [1] * 7


async def test_a_function_call_and_its_result(actor: Any, carrier: str) -> None:
    tool = {
        "type": "function",
        "name": "get_weather",
        "description": "Weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    }
    arguments = '{"city":"Lyon"}'
    call = {"call": ["get_weather", arguments, "call_1"]}
    spoken = {"pieces": [["21 degrees", 500]]}
    async with (
        serving(actor, call, spoken, native=True) as server,
        talking(server, carrier, auto_response=True) as talk,
    ):
        before = len(talk.seen)
        await talk.send("session.update", session={"tools": [tool], "tool_choice": "auto"})
        await talk.until("session.updated")
        await talk.append(1000, is_speech=True)
        await talk.send("input_audio_buffer.commit")
        await talk.until("rate_limits.updated")
        called = [e for e in talk.since(before) if e["type"] != "response.listen"]
        before = len(talk.seen)
        result = {"type": "function_call_output", "call_id": "call_1", "output": "21"}
        await talk.send("conversation.item.create", event_id="c9", item=result)
        await talk.until("response.done")
        answered = [e for e in talk.since(before) if e["type"] != "response.listen"]
        await talk.send("conversation.item.create", event_id="c12", item=result)
        refused = await talk.until("error")
    item = {
        "id": "$f1",
        "object": "realtime.item",
        "type": "function_call",
        "status": "in_progress",
        "name": "get_weather",
        "call_id": "call_1",
        "arguments": "",
    }
    done = item | {"status": "completed", "arguments": arguments}
    of = {"response_id": "$f"}
    place = of | {"item_id": "$f1", "output_index": 0, "call_id": "call_1"}
    shown = {"id": "$session", "tools": [tool], "tool_choice": "auto", MORE: 0}
    assert_frames(
        [
            {"type": "session.updated", "session": shown},
            *commit("$u1", after=None, length=1, stopped_ms=...)[1:],
            {
                "type": "response.created",
                **of,
                "response": response("$f", "in_progress", [], turn_id=0),
            },
            {"type": "response.output_item.added", **of, "output_index": 0, "item": item},
            {"type": "conversation.item.added", "previous_item_id": "$u1", "item": item},
            {"type": "response.function_call_arguments.delta", **place, "delta": arguments},
            {
                "type": "response.function_call_arguments.done",
                **place,
                "name": "get_weather",
                "arguments": arguments,
            },
            {"type": "conversation.item.done", "previous_item_id": "$u1", "item": done},
            {"type": "response.output_item.done", **of, "output_index": 0, "item": done},
            {
                "type": "response.done",
                **of,
                "response": response("$f", "completed", [done], turn_id=0),
            },
            {"type": "rate_limits.updated", "rate_limits": []},
        ],
        called,
        names := {},
    )
    output = {
        "id": "$o1",
        "object": "realtime.item",
        "status": "completed",
        **result,
    }
    answer = Response("g", turn_id=..., after="$o1")
    assert_frames(
        [
            {"type": "conversation.item.added", "previous_item_id": "$f1", "item": output},
            {"type": "conversation.item.done", "previous_item_id": "$f1", "item": output},
            *answer.opened(native=True),
            *answer.said("21 degrees", marks=[(10, 500)], last=True),
            *answer.closed(
                "21 degrees", message(answer.item, "21 degrees", 500), {"id": answer.id, MORE: 0}
            )[:-1],
        ],
        answered,
        names,
    )
    error = {
        "type": "invalid_request_error",
        "code": "invalid_function_call_output",
        "message": ...,
        "event_id": "c12",
        "param": "item.output",
    }
    assert unlike({"type": "error", "error": error}, refused, names) is None


# a connection that is lost


@asynccontextmanager
async def resuming(server: RunningServer, token: str, number: int) -> AsyncIterator[SocketTalk]:
    (session_id,) = server.omni.sessions
    async with connect(f"{server.url}/v1/duplex?resume=1") as connection:
        talk = SocketTalk(connection)
        await talk.send(
            "session.resume",
            session_id=session_id,
            resume_token=token,
            last_received_server_event_seq=number,
        )
        yield talk


def resumed(generation: int, token: str) -> dict[str, Any]:
    shown = {
        "id": "$session",
        "object": "realtime.session",
        "type": "realtime",
        "state": "open",
        "epoch": 0,
        "turn_id": 0,
        "active_response_id": "$c",
        MORE: 0,
    }
    return {
        "type": "session.resumed",
        "session_id": "$session",
        "attachment_generation": generation,
        "resume_token": token,
        "session": shown,
        MORE: 0,
    }


async def test_a_resume_after_a_disconnect_then_refused_ones_then_a_takeover(actor: Any) -> None:
    pieces = [["It is ", 1000], ["half past", 1000], [" nine.", 1000]]
    act = {"pieces": pieces, "pause_ms": 150, "every_ms": 150, "hold": True}
    names: dict[str, Any] = {}
    answer = Response("c", turn_id=0, after=None)
    frames = [
        *answer.said("It is ", marks=[(6, 1000)]),
        *answer.said("half past", marks=[(15, 2000)]),
        *answer.said(" nine.", marks=[(21, 3000)]),
    ]
    async with serving(actor, act) as server:
        async with talking(server, "socket") as talk:
            assert isinstance(talk, SocketTalk)
            first_token = talk.seen[0]["resume_token"]
            await talk.send("response.create")
            delta = await talk.until("response.output_audio.delta")
            last = delta["server_event_seq"]
            assert unlike(frames[0], delta, names) is None
            talk.socket.transport.abort()
        async with resuming(server, first_token, last) as talk:
            await talk.until("response.output_audio_transcript.delta", 3)
            assert_frames([resumed(2, "$second"), *frames[1:]], talk.seen, names)
            numbers = [each["server_event_seq"] for each in talk.seen[1:]]
            assert numbers == [*range(last + 1, last + 6)]
            await talk.send("session.event_ack", server_event_seq=last + 5)
            await refused_ones(server, first_token, names, last)
            async with resuming(server, names["$second"], last + 5) as taker:
                await taker.until("session.resumed")
                assert_frames([resumed(3, "$third")], taker.seen, names)
                await talk.until("session.replaced")
                replaced = {
                    "type": "session.replaced",
                    "session_id": "$session",
                    "attachment_generation": 2,
                }
                assert unlike(replaced, talk.seen[-1], names) is None
                await talk.socket.wait_closed()
                assert (talk.socket.close_code, talk.socket.close_reason) == (
                    1000,
                    "session_replaced",
                )
    assert len({first_token, names["$second"], names["$third"]}) == 3


async def refused_ones(
    server: RunningServer, used_token: str, names: dict[str, Any], last: int
) -> None:
    """A token that was used, and a number that the journal does not hold any more."""
    async with resuming(server, used_token, last) as talk:
        await talk.until("error")
        error = {
            "type": "invalid_request_error",
            "code": "invalid_resume_token",
            "message": ...,
            MORE: 0,
        }
        assert unlike({"type": "error", "error": error}, talk.seen[0], names) is None
    # The acknowledgement must have been taken before the journal is asked.
    async with asyncio.timeout(PATIENCE_S):
        while True:
            async with resuming(server, names["$second"], 3) as talk:
                await talk.until("session.resync_required")
                gap = {
                    "type": "session.resync_required",
                    "session_id": "$session",
                    "reason": "journal_gap",
                }
                assert unlike(gap, talk.seen[0], names) is None
                await talk.socket.wait_closed()
                ended = (talk.socket.close_code, talk.socket.close_reason)
                assert ended == (1000, "resync_required")
                return


# a reader that is too slow


def overflowed(after: Any) -> list[dict[str, Any]]:
    answer = Response("d", turn_id=0, after=after)
    item = message(answer.item, "and so", 0, "incomplete")
    item["content"][0]["audio_duration_ms"] = ...
    fault = {
        "type": "rate_limit_error",
        "code": "output_backpressure",
        "message": "pending output limit exceeded",
    }
    end = response(
        answer.id,
        "failed",
        [item],
        details={"type": "failed", "reason": "output_backpressure", "error": fault},
        turn_id=0,
        committed=False,
        decision=...,
        playback=...,
    )
    return [
        {"type": "response.done", "response_id": answer.id, "response": end},
        {"type": "error", "error": {**fault, "retryable": False}},
        {
            "type": "session.closed",
            "session_id": "$session",
            "reason": "output_backpressure",
            "event": {
                "type": "session.closed",
                "reason": "output_backpressure",
                "limit": "bytes",
                "max_bytes": 2_097_152,
                "max_events": 512,
            },
        },
    ]


def assert_ends_by_overflow(seen: list[dict[str, Any]]) -> None:
    kinds = [each["type"] for each in seen]
    opened = kinds.index("response.created")
    told = [*dict.fromkeys(kinds[opened:-3])]
    answer = Response("d", turn_id=0, after=None)
    assert told == [
        *(frame["type"] for frame in answer.opened(native=False)),
        "response.output_audio.delta",
        "response.output_audio_transcript.delta",
    ]
    assert_frames(overflowed(None), seen[-3:], {})


async def test_a_slow_consumer_over_a_socket(actor: Any) -> None:
    act = {"pieces": [["and so", 1000], *[["", 1000]] * 300], "pause_ms": 200}
    # The system's own buffers hide much: five minutes are made at once, and may wait.
    room = {"max_pending_stage_output_bytes_per_session": 64 * 1024 * 1024}
    async with serving(actor, act, output_stall_timeout_s=0.3, **room) as server:
        address = server.url.removeprefix("ws://").split(":")
        raw = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        raw.setblocking(False)
        await asyncio.get_running_loop().sock_connect(raw, (address[0], int(address[1])))
        url = f"{server.url}/v1/duplex?model=wire-actor"
        async with connect(url, sock=raw, max_size=None, max_queue=4) as connection:
            talk = SocketTalk(connection)
            await talk.until("session.created")
            (handle,) = server.omni.sessions.values()
            await talk.send("response.create")
            await talk.until("response.output_audio_transcript.delta")
            connection.transport.pause_reading()
            async with asyncio.timeout(PATIENCE_S):
                assert await handle.wait_closed() == "output_backpressure"
            connection.transport.resume_reading()
            await talk.until("session.closed")
            await connection.wait_closed()
            assert (connection.close_code, connection.close_reason) == (
                1000,
                "output_backpressure",
            )
        assert_ends_by_overflow(talk.seen)
        assert_numbered(talk)


async def test_a_slow_consumer_in_process(actor: Any) -> None:
    act = {"pieces": [["and so", 1000], *[["", 1000]] * 35], "pause_ms": 200}
    async with serving(actor, act, output_stall_timeout_s=0.3) as server:
        handle = await server.omni.open_session()
        handle.create_response()
        seen: list[dict[str, Any]] = []
        async for event in handle.events():
            seen.append(event.to_realtime())
            if seen[-1]["type"] == "response.output_audio_transcript.delta":
                break
        async with asyncio.timeout(PATIENCE_S):
            assert await handle.wait_closed() == "output_backpressure"
        seen += [event.to_realtime() async for event in handle.events()]
    assert_ends_by_overflow(seen)
