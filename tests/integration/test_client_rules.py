"""What stock clients of the Realtime protocol need, one test a rule, through a real socket.

The server runs the ``scripted`` plugin and knows nothing of the test; the speech is spoken by the
voice of the ``local`` plugin, since a detector of speech is not to be tested with tones.
"""

from __future__ import annotations

import asyncio
import base64
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import numpy as np
import pytest
import pytest_asyncio
from duplex_sdk.audio import float_to_pcm16
from duplex_sdk.cli.server_process import ServerProcess
from hibari import SAMPLE_RATE, Hibari
from patience import PATIENCE_S
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

pytestmark = pytest.mark.asyncio(loop_scope="module")

RATE_HZ = 24_000
CHUNK_BYTES = RATE_HZ // 10 * 2
SILENCE = bytes(RATE_HZ * 2)
MIB = 2**20
TEXT = "one two three four five six seven eight"
LONG = {"answers": [{"text": TEXT, "ms": 8000}]}
BURST = {"answers": [{"text": TEXT, "ms": 8000}], "pace": "burst"}
FAILING = {"faults": [{"where": "step", "nth": "every", "do": "raise"}]}
MANUAL = {"audio": {"input": {"turn_detection": None}}}
DELTAS = ("response.output_audio.delta", "response.output_audio_transcript.delta")


@pytest.fixture(scope="module")
def speech() -> bytes:
    voice = Hibari(threads=1)
    pieces = voice.stream("What is seven plus five, please?", seed=0)
    assert SAMPLE_RATE == RATE_HZ
    return float_to_pcm16(np.concatenate([np.asarray(piece) for piece in pieces]))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server_url() -> AsyncIterator[str]:
    """One server for all the tests here."""
    async with ServerProcess("--plugin", "scripted", "--max-sessions", "8") as server:
        yield server.url


class Peer:
    """A client without opinions: sends JSON, keeps every frame."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.frames: list[str] = []
        self.seen: list[dict[str, Any]] = []

    async def send(self, kind: str, **fields: Any) -> None:
        await self.socket.send(msgspec.json.encode({"type": kind, **fields}).decode())

    async def next(self, timeout_s: float = PATIENCE_S) -> dict[str, Any]:
        async with asyncio.timeout(timeout_s):
            frame = await self.socket.recv()
        assert isinstance(frame, str)
        self.frames.append(frame)
        self.seen.append(msgspec.json.decode(frame))
        return self.seen[-1]

    async def until(self, kind: str, timeout_s: float = PATIENCE_S) -> dict[str, Any]:
        async with asyncio.timeout(timeout_s):
            while (event := await self.next(timeout_s))["type"] != kind:
                pass
        return event

    async def for_a_while(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                while True:
                    await self.next()
        except TimeoutError:
            return

    async def update(self, **session: Any) -> dict[str, Any]:
        await self.send("session.update", session={"type": "realtime", **session})
        updated: dict[str, Any] = (await self.until("session.updated"))["session"]
        return updated

    async def append(self, pcm: bytes) -> None:
        await self.send("input_audio_buffer.append", audio=base64.b64encode(pcm).decode())

    async def say(self, pcm: bytes) -> None:
        loop = asyncio.get_running_loop()
        start = loop.time()
        for offset in range(0, len(pcm), CHUNK_BYTES):
            await asyncio.sleep(max(0.0, start + offset / (2 * RATE_HZ) - loop.time()))
            await self.append(pcm[offset : offset + CHUNK_BYTES])

    async def asked(self, **options: Any) -> str:
        """Ask in writing; the id of the response that began."""
        content = [{"type": "input_text", "text": "hello"}]
        item = {"type": "message", "role": "user", "content": content}
        await self.send("conversation.item.create", item=item)
        await self.send("response.create", response=options)
        created = await self.until("response.created")
        return str(created["response"]["id"])

    def types(self) -> list[str]:
        return [event["type"] for event in self.seen]

    def of(self, response_id: str) -> list[dict[str, Any]]:
        return [event for event in self.seen if response_id in str(event)]


@asynccontextmanager
async def peer(server_url: str, query: str = "?model=gpt-realtime") -> AsyncIterator[Peer]:
    async with connect(f"{server_url}/v1/realtime{query}", compression=None, max_size=MIB) as ws:
        yield Peer(ws)
        # Close while reading: a close behind unread frames would wait for its own timeout.
        await asyncio.gather(ws.close(), _drain(ws))


async def _drain(ws: ClientConnection) -> None:
    try:
        while True:
            await ws.recv()
    except ConnectionClosed:
        return


def slots_used(server_url: str) -> int:
    health = server_url.replace("ws", "http", 1) + "/health"
    with urllib.request.urlopen(health, timeout=PATIENCE_S) as answer:
        return int(msgspec.json.decode(answer.read())["slots"]["used"])


async def test_rule_1_session_is_announced_before_any_client_message(server_url: str) -> None:
    async with peer(server_url) as client:
        assert (await client.next())["type"] == "session.created"


async def test_rule_1_update_may_be_sent_without_waiting(server_url: str) -> None:
    async with peer(server_url) as client:
        await client.send("session.update", session={"type": "realtime"})
        assert [(await client.next())["type"] for _ in range(2)] == [
            "session.created",
            "session.updated",
        ]


async def test_rule_2_each_update_is_answered_by_the_whole_session(server_url: str) -> None:
    async with peer(server_url) as client:
        await client.send("session.update", session={"type": "realtime", "instructions": "Brief."})
        turn = {"type": "server_vad", "threshold": 0.6}
        audio = {"input": {"turn_detection": turn}}
        await client.send("session.update", session={"type": "realtime", "audio": audio})
        patch = {"input": {"turn_detection": {"silence_duration_ms": 700}}}
        await client.send("session.update", session={"type": "realtime", "audio": patch})
        sessions = [(await client.until("session.updated"))["session"] for _ in range(3)]
        await client.for_a_while(0.2)
    last = sessions[-1]
    in_force = last["audio"]["input"]["turn_detection"]
    assert last["instructions"] == "Brief."
    assert (in_force["type"], in_force["threshold"]) == ("server_vad", 0.6)
    assert in_force["silence_duration_ms"] == 700
    assert client.types().count("session.updated") == 3


async def test_rule_2_null_switches_turn_detection_off(server_url: str) -> None:
    async with peer(server_url) as client:
        session = await client.update(**MANUAL)
    assert session["audio"]["input"]["turn_detection"] is None


async def test_rule_2_unknown_names_are_mapped_and_never_refused(server_url: str) -> None:
    audio = {
        "input": {
            "transcription": {"model": "gpt-4o-mini-transcribe"},
            "noise_reduction": {"type": "near_field"},
            "turn_detection": {"type": "semantic_vad", "eagerness": "auto"},
        },
        "output": {"voice": "marin", "speed": 1.0},
    }
    async with peer(server_url) as client:
        session = await client.update(
            model="gpt-realtime-2", audio=audio, tracing="auto", tool_choice="auto"
        )
    assert session["audio"]["input"]["turn_detection"]["type"] == "server_vad"
    assert "error" not in client.types()


async def test_rule_3_session_says_that_it_is_realtime(server_url: str) -> None:
    async with peer(server_url) as client:
        created = await client.until("session.created")
        updated = await client.update()
    assert created["session"]["type"] == updated["type"] == "realtime"


async def test_rule_4_every_event_has_an_id_of_its_own(server_url: str) -> None:
    async with peer(server_url) as client:
        await client.asked()
        await client.until("response.done")
    ids = [event["event_id"] for event in client.seen]
    assert all(isinstance(identity, str) for identity in ids)
    assert len(set(ids)) == len(ids)


async def test_rule_5_spoken_response_keeps_its_order(server_url: str) -> None:
    async with peer(server_url) as client:
        response = await client.asked()
        await client.until("response.done")
    frame = [event["type"] for event in client.of(response) if event["type"] not in DELTAS]
    assert frame == [
        "response.created",
        "response.output_item.added",
        "conversation.item.added",
        "response.content_part.added",
        "response.output_audio.done",
        "response.output_audio_transcript.done",
        "response.content_part.done",
        "conversation.item.done",
        "response.output_item.done",
        "response.done",
    ]
    kinds = [event["type"] for event in client.of(response)]
    opened, closed = (
        kinds.index("response.content_part.added"),
        kinds.index("response.output_audio.done"),
    )
    assert {kinds.index(kind) for kind in DELTAS} <= set(range(opened, closed))


async def test_rule_6_each_response_ends_exactly_once(server_url: str) -> None:
    async with peer(server_url) as client:
        await client.asked()
        await client.until("response.done")
        cancelled = await client.asked()
        await client.until("response.output_audio.delta")
        await client.send("response.cancel")
        await client.until("response.done")
        await client.update(extra_body={"script": FAILING})
        await client.asked()
        await client.until("response.done")
        await client.for_a_while(0.3)
    created = [e["response"]["id"] for e in client.seen if e["type"] == "response.created"]
    done = [e["response"]["id"] for e in client.seen if e["type"] == "response.done"]
    assert Counter(created) == Counter(done)
    assert cancelled in done


async def test_rule_7_second_create_is_refused(server_url: str) -> None:
    async with peer(server_url) as client:
        response = await client.asked()
        await client.send("response.create", event_id="again")
        refused = await client.until("error")
        done = await client.until("response.done")
    assert refused["error"]["code"] == "conversation_already_has_active_response"
    assert refused["error"]["event_id"] == "again"
    assert (done["response"]["id"], done["response"]["status"]) == (response, "completed")


@pytest.mark.parametrize("script", [LONG, BURST], ids=["realtime", "burst"])
async def test_rule_8_nothing_of_a_response_follows_its_end(
    server_url: str, script: dict[str, Any]
) -> None:
    async with peer(server_url) as client:
        await client.update(extra_body={"script": script})
        response = await client.asked()
        await client.until("response.output_audio.delta")
        await client.send("response.cancel")
        done = await client.until("response.done")
        at = len(client.seen)
        await client.for_a_while(0.5)
    assert done["response"]["id"] == response
    assert [e["type"] for e in client.seen[at:] if e.get("response_id") == response] == []


async def test_rule_9_deltas_and_dones_are_fully_addressed(server_url: str) -> None:
    async with peer(server_url) as client:
        response = await client.asked()
        await client.until("response.done")
    addressed = [e for e in client.seen if e["type"].startswith("response.output_audio")]
    assert addressed
    for event in addressed:
        assert event["response_id"] == response
        assert event["item_id"] == f"item_{response}"
        assert (event["output_index"], event["content_index"]) == (0, 0)


async def test_rule_10_metadata_comes_back(server_url: str) -> None:
    async with peer(server_url) as client:
        await client.asked(metadata={"client_event_id": "evt_1"})
        done = await client.until("response.done")
    created = next(e for e in client.seen if e["type"] == "response.created")
    assert created["response"]["metadata"] == {"client_event_id": "evt_1"}
    assert done["response"]["metadata"] == {"client_event_id": "evt_1"}


async def test_rule_11_items_keep_the_clients_ids_and_places(server_url: str) -> None:
    def item(identity: str) -> dict[str, Any]:
        content = [{"type": "input_text", "text": identity}]
        return {"id": identity, "type": "message", "role": "user", "content": content}

    async with peer(server_url) as client:
        await client.send("conversation.item.create", item=item("later"))
        later = await client.until("conversation.item.added")
        await client.send("conversation.item.create", item=item("first"), previous_item_id="root")
        first = await client.until("conversation.item.added")
        await client.send("conversation.item.create", item=item("middle"), previous_item_id="first")
        middle = await client.until("conversation.item.added")
        await client.send("conversation.item.delete", item_id="middle")
        deleted = await client.until("conversation.item.deleted", timeout_s=5)
    assert [e["item"]["id"] for e in (later, first, middle)] == ["later", "first", "middle"]
    assert first.get("previous_item_id") is None
    assert middle["previous_item_id"] == "first"
    assert deleted["item_id"] == "middle"


async def test_rule_12_truncate_and_retrieve_are_answered(server_url: str) -> None:
    async with peer(server_url) as client:
        await client.update(extra_body={"script": BURST})
        response = await client.asked()
        await client.until("response.done")
        item_id = f"item_{response}"
        await client.send(
            "conversation.item.truncate", item_id=item_id, content_index=0, audio_end_ms=2000
        )
        truncated = await client.until("conversation.item.truncated")
        await client.send("conversation.item.retrieve", item_id=item_id)
        retrieved = await client.until("conversation.item.retrieved")
    assert (truncated["item_id"], truncated["audio_end_ms"]) == (item_id, 2000)
    assert retrieved["item"]["content"][0]["type"] == "output_audio"
    kept = retrieved["item"]["content"][0]["transcript"]
    assert kept
    assert TEXT.startswith(kept)
    assert len(kept) <= len(TEXT) // 3


@pytest.mark.parametrize("named", [True, False])
async def test_rule_13_cancel_ends_the_response(server_url: str, named: bool) -> None:
    async with peer(server_url) as client:
        await client.update(extra_body={"script": LONG})
        response = await client.asked()
        await client.until("response.output_audio.delta")
        await client.send("response.cancel", **({"response_id": response} if named else {}))
        done = await client.until("response.done")
    assert done["response"]["status"] == "cancelled"
    assert done["response"]["status_details"]["reason"] == "client_cancelled"


async def test_rule_13_needless_cancel_says_so(server_url: str) -> None:
    async with peer(server_url) as client:
        await client.send("response.cancel", event_id="needless")
        refused = (await client.until("error"))["error"]
    assert refused["code"] == "response_cancel_not_active"
    assert refused["message"].startswith("Cancellation failed")
    assert refused["event_id"] == "needless"


async def test_rule_14_vendor_events_come_only_when_asked_for(
    server_url: str, speech: bytes
) -> None:
    async with peer(server_url) as client:
        await client.update(extra_body={"script": LONG})
        await client.asked()
        await client.until("response.output_audio.delta")
        await client.say(speech)
        await client.until("response.done")
        assert "overlap.decision" not in client.types()
        session = await client.update(duplex={"events": ["overlap.decision"]})
        await client.say(SILENCE)
        await client.until("response.output_audio.delta")
        await client.say(speech)
        await client.until("overlap.decision")
    assert session["duplex"] == {"events": ["overlap.decision"]}


async def test_rule_15_sending_fast_is_no_error(server_url: str, speech: bytes) -> None:
    async with peer(server_url) as client:
        for _ in range(15):
            await client.append(speech + SILENCE)
        await client.until("response.created")
        await client.for_a_while(1.0)
    assert "error" not in client.types()


async def test_rule_16_frames_stay_small_and_audio_is_never_sent_back(
    server_url: str, speech: bytes
) -> None:
    async with peer(server_url) as client:
        await client.update(**MANUAL, extra_body={"script": BURST})
        await client.append(speech)
        await client.send("input_audio_buffer.commit")
        committed = await client.until("input_audio_buffer.committed")
        await client.send("response.create")
        await client.until("response.done")
        await client.send("conversation.item.retrieve", item_id=committed["item_id"])
        retrieved = await client.until("conversation.item.retrieved")
    deltas = [e for e in client.seen if e["type"] == "response.output_audio.delta"]
    assert max(len(base64.b64decode(e["delta"])) for e in deltas) <= 2 * RATE_HZ
    assert max(len(frame.encode()) for frame in client.frames) < MIB
    assert "audio" not in retrieved["item"]["content"][0]


async def test_rule_17_pings_are_answered_while_it_talks(server_url: str) -> None:
    async with peer(server_url) as client:
        await client.update(extra_body={"script": LONG})
        await client.asked()
        reading = asyncio.create_task(client.for_a_while(1.0))
        for _ in range(5):
            pong = await client.socket.ping()
            async with asyncio.timeout(PATIENCE_S):
                await pong
        await reading


async def test_rule_18_session_that_ends_in_order_closes_with_1000(server_url: str) -> None:
    async with peer(server_url) as client:
        await client.until("session.created")
        await client.send("session.close")
        with pytest.raises(ConnectionClosed) as closed:
            await client.until("never")
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1000


async def test_rule_18_slot_is_free_as_soon_as_the_client_is_gone(server_url: str) -> None:
    async with peer(server_url) as client:
        await client.until("session.created")
        before = await asyncio.to_thread(slots_used, server_url)
    async with asyncio.timeout(PATIENCE_S):
        while await asyncio.to_thread(slots_used, server_url) >= before:  # noqa: ASYNC110 - as a monitor
            await asyncio.sleep(0.02)


async def test_rule_19_speech_is_announced_with_the_id_of_its_item(
    server_url: str, speech: bytes
) -> None:
    async with peer(server_url) as client:
        speaking = asyncio.create_task(client.say(speech + SILENCE))
        started = await client.until("input_audio_buffer.speech_started")
        added = await client.until("conversation.item.added")
        committed = await client.until("input_audio_buffer.committed")
        await speaking
    assert started["item_id"] == added["item"]["id"] == committed["item_id"]
    assert isinstance(started["audio_start_ms"], int)


async def test_rule_19_truncate_is_accepted_right_after_a_barge_in(
    server_url: str, speech: bytes
) -> None:
    async with peer(server_url) as client:
        await client.update(extra_body={"script": LONG})
        response = await client.asked()
        await client.until("response.output_audio.delta")
        speaking = asyncio.create_task(client.say(speech))
        await client.until("input_audio_buffer.speech_started")
        await client.send(
            "conversation.item.truncate",
            item_id=f"item_{response}",
            content_index=0,
            audio_end_ms=100,
        )
        truncated = await client.until("conversation.item.truncated")
        await speaking
    done = next(e for e in client.seen if e["type"] == "response.done")
    assert truncated["audio_end_ms"] == 100
    assert (done["response"]["id"], done["response"]["status"]) == (response, "cancelled")
    assert done["response"]["status_details"]["reason"] == "turn_detected"
    assert "error" not in client.types()
