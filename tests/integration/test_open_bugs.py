"""Behaviours that people were hurt by in other servers, on a raw socket and on both clients."""

from __future__ import annotations

import asyncio
import base64
import itertools
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import msgspec
import pytest
from duplex_sdk.clients import DuplexClientBase
from duplex_sdk.testing.session_lab import tone
from duplex_server.testing import Harness, RunningServer
from patience import PATIENCE_S
from websockets.asyncio.client import ClientConnection, connect

RATE = 16_000
FIRST_TEN = {"text": "abcdefghij", "ms": 10_000, "words": False, "delay_ms": 0}


class Talk(ABC):
    """One conversation, whatever carries it: frames in, frames out."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []

    @abstractmethod
    async def send(self, kind: str, **fields: Any) -> None: ...

    async def send_together(self, *kinds: str) -> None:
        """Frames that leave in one piece, where the carrier has pieces."""
        for kind in kinds:
            await self.send(kind)

    @abstractmethod
    async def _receive(self) -> dict[str, Any]: ...

    async def next(self) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE_S):
            self.seen.append(await self._receive())
        return self.seen[-1]

    async def until(self, kind: str) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE_S):
            while (event := await self.next())["type"] != kind:
                pass
        return event

    async def append(self, pcm: bytes, **fields: Any) -> None:
        audio = base64.b64encode(pcm).decode()
        await self.send("input_audio_buffer.append", audio=audio, **fields)

    async def answered(self) -> dict[str, Any]:
        """Speak, commit, and wait for the whole answer."""
        await self.append(tone(400, RATE))
        await self.send("input_audio_buffer.commit", response_create=True)
        return await self.until("response.done")

    async def retrieved(self, item_id: str) -> dict[str, Any]:
        await self.send("conversation.item.retrieve", item_id=item_id)
        item: dict[str, Any] = (await self.until("conversation.item.retrieved"))["item"]
        return item

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.seen if event["type"] == kind]

    def said(self) -> list[str]:
        return [e["transcript"] for e in self.of("response.output_audio_transcript.done")]

    def errors(self) -> list[dict[str, Any]]:
        return [event["error"] for event in self.of("error")]


class RawTalk(Talk):
    def __init__(self, socket: ClientConnection) -> None:
        super().__init__()
        self.socket = socket

    async def send(self, kind: str, **fields: Any) -> None:
        await self.socket.send(msgspec.json.encode({"type": kind, **fields}).decode())

    async def send_together(self, *kinds: str) -> None:
        # One TCP write: the library itself writes each frame apart.
        for kind in kinds:
            self.socket.protocol.send_text(msgspec.json.encode({"type": kind}))
        self.socket.send_data()

    async def _receive(self) -> dict[str, Any]:
        event: dict[str, Any] = msgspec.json.decode(await self.socket.recv())
        return event


class ClientTalk(Talk):
    def __init__(self, client: DuplexClientBase) -> None:
        super().__init__()
        self._client = client
        self._events = client.events()

    async def send(self, kind: str, **fields: Any) -> None:
        await self._client.send({"type": kind, **fields})

    async def _receive(self) -> dict[str, Any]:
        return (await anext(self._events)).to_realtime()


Opener = Callable[..., AbstractAsyncContextManager[Talk]]


def opener(server: RunningServer, carrier: str) -> Opener:
    @asynccontextmanager
    async def open_talk(**session: Any) -> AsyncIterator[Talk]:
        if carrier == "raw":
            async with connect(f"{server.url}/v1/realtime?duplex=1") as socket:
                raw = RawTalk(socket)
                await raw.send("session.update", session=session)
                await raw.until("session.updated")
                yield raw
            return
        client = (
            server.client(session)
            if carrier == "websocket"
            else Harness().inline_client(server.omni, session)
        )
        talk = ClientTalk(client)
        async with client:
            await talk.until("session.updated")
            yield talk

    return open_talk


@pytest.fixture(params=["raw", "websocket", "inline"])
def carrier(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@asynccontextmanager
async def serving(**script: Any) -> AsyncIterator[RunningServer]:
    async with Harness().server("scripted", {"script": {"turns": "commit", **script}}) as server:
        yield server


async def test_b01_a_truncation_is_made_once_and_never_undone(carrier: str) -> None:
    async with (
        serving(pace="burst", answers=[FIRST_TEN]) as server,
        opener(server, carrier)(input_audio_format="pcm16") as talk,
    ):
        item = (await talk.answered())["response"]["output"][0]["id"]
        for position in (4000, 4000, 8000):
            await talk.send("conversation.item.truncate", item_id=item, audio_end_ms=position)
            await talk.until("conversation.item.truncated")
            assert (await talk.retrieved(item))["content"][0]["transcript"] == "abcd"
        assert talk.errors() == []


async def test_b03_five_polite_commits_get_five_answers_in_order(carrier: str) -> None:
    async with (
        serving(pace="burst", answers=[{"ms": 200, "delay_ms": 10}]) as server,
        opener(server, carrier)() as talk,
    ):
        for _ in range(5):
            assert (await talk.answered())["response"]["status"] == "completed"
        assert talk.said() == [f"turn {n}" for n in range(1, 6)]


async def test_b05_acks_that_lost_a_race_never_kill_the_session(carrier: str) -> None:
    async with (
        serving(pace="burst", answers=[{"ms": 1000, "delay_ms": 0}]) as server,
        opener(server, carrier)() as talk,
    ):
        first = (await talk.answered())["response_id"]
        await talk.append(tone(300, RATE))
        await talk.send("input_audio_buffer.commit", response_create=True)
        for played, response_id in (
            (600, first),
            (600, first),
            (400, first),
            (10_000, first),
            (5, "resp_no"),
        ):
            await talk.send("playback.ack", response_id=response_id, played_ms=played)
        assert (await talk.until("response.done"))["response"]["status"] == "completed"
        played = [e["event"]["played_ms"] for e in talk.of("playback.acknowledged")]
        assert played == sorted(played)
        assert max(played, default=0) <= 1000
        assert (await talk.answered())["response"]["status"] == "completed"


async def test_b06_instructions_are_used_or_refused_never_pretended(carrier: str) -> None:
    async with (
        serving(pace="burst", answers=[{"instructions": True, "ms": 100}]) as server,
        opener(server, carrier)(instructions="A") as talk,
    ):
        await talk.answered()
        await talk.send("session.update", session={"instructions": "B"})
        assert (await talk.until("session.updated"))["session"]["instructions"] == "B"
        await talk.answered()
        assert talk.said() == ["A", "B"]
        await talk.send("session.update", event_id="e1", session={"model": "another"})
        assert (await talk.until("error"))["error"]["event_id"] == "e1"
        await talk.answered()
        assert talk.said()[-1] == "B"


async def test_b09_tuning_the_detector_does_not_switch_it_off(carrier: str) -> None:
    async with (
        serving() as server,
        opener(server, carrier)(turn_detection={"type": "server_vad"}) as talk,
    ):

        async def detection(**patch: Any) -> Any:
            await talk.send("session.update", session=patch)
            return (await talk.until("session.updated"))["session"]["audio"]["input"][
                "turn_detection"
            ]

        tuned = await detection(turn_detection={"threshold": 0.8})
        assert (tuned["type"], tuned["threshold"]) == ("server_vad", 0.8)
        await talk.send("session.update", session={"turn_detection": {"threshold": 7}})
        assert "turn_detection" in (await talk.until("error"))["error"]["param"]
        assert (await detection(instructions="x")) == tuned
        assert (await detection(turn_detection=None)) is None


async def test_b10_a_full_input_buffer_is_an_error_and_a_clear_mends_it(carrier: str) -> None:
    answers = [{"heard": True, "ms": 100}]
    async with serving(pace="burst", answers=answers) as server, opener(server, carrier)() as talk:
        minute = tone(60_000, RATE)
        for n in range(10):
            await talk.append(minute, event_id=f"a{n}")
        error = (await talk.until("error"))["error"]
        assert error["code"] == "input_backpressure"
        assert error["event_id"] in {f"a{n}" for n in range(10)}
        await talk.send("input_audio_buffer.clear")
        await talk.until("input_audio_buffer.cleared")
        assert {each["code"] for each in talk.errors()} == {"input_backpressure"}
        await talk.append(tone(1000, RATE))
        await talk.send("input_audio_buffer.commit", response_create=True)
        await talk.until("response.done")
        assert talk.said()[-1].startswith("heard 1000 ms, 16000 samples")


@pytest.mark.parametrize("cuts", [(1,), (3,), (4801,), (0, 1, 2, 3, 5000)])
async def test_b11_a_sample_split_over_appends_is_joined(
    carrier: str, cuts: tuple[int, ...]
) -> None:
    whole = tone(1000, RATE, hz=1000)
    edges = [0, *cuts, len(whole)]
    async with serving(pace="burst", answers=[{"heard": True, "ms": 100}]) as server:
        talker = opener(server, carrier)
        async with talker() as talk:
            await talk.append(whole)
            await talk.send("input_audio_buffer.commit", response_create=True)
            await talk.until("response.done")
        async with talker() as split:
            for start, end in itertools.pairwise(edges):
                if end > start:
                    await split.append(whole[start:end])
            await split.send("input_audio_buffer.commit", response_create=True)
            await split.until("response.done")
        assert split.said() == talk.said()


@pytest.mark.parametrize("text", ["AAA", "AA AA", "AA-_", "AAA=A", "é", "A" * 5, ""])
async def test_b11_bad_base64_is_an_error_and_costs_nothing(carrier: str, text: str) -> None:
    async with (
        serving(pace="burst", answers=[{"heard": True, "ms": 100}]) as server,
        opener(server, carrier)() as talk,
    ):
        await talk.append(tone(200, RATE))
        try:
            await talk.send("input_audio_buffer.append", audio=text, event_id="bad")
        except Exception as error:
            # A client of ours may refuse it before it leaves.
            assert carrier != "raw"
            told = f"{error!r} {error}"
            assert any(word in told for word in ("bad_audio", "base64", "neither"))
        else:
            error_seen = (await talk.until("error"))["error"]
            assert error_seen["code"] == ("bad_audio" if text else "bad_event")
            assert error_seen["event_id"] == "bad"
        await talk.send("input_audio_buffer.commit", response_create=True)
        await talk.until("response.done")
        assert talk.said()[-1].startswith("heard 200 ms, 3200 samples")


@pytest.mark.parametrize(
    ("position", "accepted"),
    [(9100, True), (2651, True), (2650, True), (-1, False), ("12", False), (None, False)],
)
async def test_b13_a_truncation_off_the_end_is_clamped_or_refused_and_harms_nothing(
    carrier: str, position: Any, accepted: bool
) -> None:
    async with (
        serving(pace="burst", answers=[{"ms": 2650, "delay_ms": 0}]) as server,
        opener(server, carrier)() as talk,
    ):
        item = (await talk.answered())["response"]["output"][0]["id"]
        try:
            await talk.send("conversation.item.truncate", item_id=item, audio_end_ms=position)
        except Exception:
            assert carrier != "raw" and not accepted  # noqa: PT018
        else:
            if accepted:
                truncated = await talk.until("conversation.item.truncated")
                assert truncated["audio_end_ms"] == 2650
            else:
                assert (await talk.until("error"))["error"]["code"] == "bad_event"
        assert (await talk.answered())["response"]["status"] == "completed"


async def test_b13_not_a_number_is_no_json(carrier: str) -> None:
    if carrier != "raw":
        pytest.skip("our clients cannot write a frame that is not JSON")
    async with serving() as server, opener(server, carrier)() as talk:
        assert isinstance(talk, RawTalk)
        await talk.socket.send(
            '{"type":"conversation.item.truncate","item_id":"x","audio_end_ms":NaN}'
        )
        assert (await talk.until("error"))["error"]["code"] == "invalid_json"
        assert (await talk.answered())["response"]["status"] == "completed"


async def test_b14_cancel_of_nothing_is_no_catastrophe(carrier: str) -> None:
    async with (
        serving(pace="burst", answers=[{"ms": 200, "delay_ms": 0}]) as server,
        opener(server, carrier)() as talk,
    ):
        await talk.send("response.cancel", event_id="before")
        await talk.until("error")
        done = await talk.answered()
        await talk.send("response.cancel", event_id="after", response_id=done["response_id"])
        await talk.send("response.cancel", event_id="twice", response_id="resp_unknown")
        await talk.until("error")
        await talk.until("error")
        assert [e["event_id"] for e in talk.errors()] == ["before", "after", "twice"]
        assert {e["code"] for e in talk.errors()} == {"response_cancel_not_active"}
        last = await talk.answered()
        assert last["response"]["metadata"]["duplex"]["epoch"] == 0


async def test_b15_create_right_behind_cancel_always_yields_a_new_answer(carrier: str) -> None:
    async with (
        serving(answers=[{"ms": 60_000, "delay_ms": 0}], jitter_ms=30) as server,
        opener(server, carrier)() as talk,
    ):
        await talk.append(tone(200, RATE))
        await talk.send("input_audio_buffer.commit", response_create=True)
        current = (await talk.until("response.created"))["response_id"]
        for _ in range(500):
            await talk.send_together("response.cancel", "response.create")
            done = await talk.until("response.done")
            assert (done["response_id"], done["response"]["status"]) == (current, "cancelled")
            created = (await talk.until("response.created"))["response_id"]
            assert created != current
            current = created
        await talk.send("response.create", event_id="plain")
        refused = (await talk.until("error"))["error"]
        assert refused["code"] == "conversation_already_has_active_response"
        assert [d["response_id"] for d in talk.of("response.done")].count(current) == 0
        assert len(talk.errors()) == 1


async def test_b16_a_tone_at_another_rate_is_heard_unbroken() -> None:
    """48 kHz in small pieces into a 16 kHz model: the model hears one clean tone."""
    whole = tone(2000, 48_000, hz=440)
    async with serving(pace="burst", answers=[{"heard": True, "ms": 100}]) as server:
        heard = []
        for piece_ms in (10, 37, 2000):
            async with opener(server, "raw")(sample_rate_hz=48_000) as talk:
                size = 48 * piece_ms * 2
                for start in range(0, len(whole), size):
                    await talk.append(whole[start : start + size])
                await talk.send("input_audio_buffer.commit", response_create=True)
                await talk.until("response.done")
                heard.append(talk.said()[-1])
    assert len(set(heard)) == 1, "what is heard depends on how it was cut"
    words = heard[0].replace(",", "").split()
    assert abs(float(words[1]) - 2000) <= 1
    assert abs(float(words[-2]) - 440) <= 1
