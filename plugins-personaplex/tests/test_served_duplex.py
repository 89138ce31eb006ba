"""What a client of the ``duplex`` profile sees: abilities, its own voice, refusals, listening."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from duplex_sdk.audio import PcmChunk, float_to_pcm16, wav_bytes
from model_runs import speech
from serving import serve
from websockets.asyncio.client import ClientConnection, connect

from duplex_plugin_personaplex.figures import FRAME_SAMPLES, RATE

LIMIT_S = 60.0
# Of which the start of the server may take most, where several things are tried at once.
pytestmark = pytest.mark.timeout(300)
PCM = {"type": "audio/pcm", "rate": RATE}
FORMATS = {"audio": {"input": {"format": PCM}, "output": {"format": PCM}}}


@pytest.fixture(scope="module")
def port(checkpoint: Path) -> Iterator[int]:
    with serve("--checkpoint", str(checkpoint), "--max-unit-lag-ms", "600000") as port:
        yield port


@asynccontextmanager
async def session(port: int, **fields: Any) -> AsyncIterator[tuple[ClientConnection, Any]]:
    """A session of the profile, and the first event it was answered with."""
    async with asyncio.timeout(LIMIT_S), connect(f"ws://127.0.0.1:{port}/v1/duplex") as socket:
        wanted = {"type": "realtime", **FORMATS, **fields}
        await socket.send(json.dumps({"type": "session.update", "session": wanted}))
        yield socket, json.loads(await socket.recv())


async def until(socket: ClientConnection, kind: str) -> list[dict[str, Any]]:
    seen: list[dict[str, Any]] = []
    while not seen or seen[-1]["type"] != kind:
        seen.append(json.loads(await socket.recv()))
    return seen


def append(frames: int, seed: int = 1) -> str:
    sound = base64.b64encode(float_to_pcm16(speech(frames, seed).ravel())).decode()
    return json.dumps({"type": "input_audio_buffer.append", "audio": sound})


async def test_the_session_says_what_it_can_do(port: int) -> None:
    async with session(port) as (_, created):
        assert created["type"] == "session.created"
        known = created["session"]["capabilities"]
        assert known["cancel_effect"] == "mutes"
        assert known["chunk_period_ms"] == 80
        assert known["max_session_s"] == 210.0
        assert known["supports_barge_in"] is False
        assert known["supports_client_commit"] is False
        assert created["session"]["auto_response"] is True


async def test_silence_is_told_as_listening_and_carries_no_sound(port: int) -> None:
    async with session(port, extra_body={"seed": 1}) as (socket, _):
        await socket.send(append(60))
        seen = await until(socket, "response.done")
        listened = [event for event in seen if event["type"] == "response.listen"]
        spoken = [event for event in seen if event["type"] == "response.output_audio.delta"]
        assert spoken
        assert all("delta" not in event for event in listened)
        assert sum(len(base64.b64decode(e["delta"])) for e in spoken) % (2 * FRAME_SAMPLES) == 0


async def test_a_client_brings_its_own_voice(port: int) -> None:
    wav = wav_bytes(PcmChunk.of(speech(20, seed=3).ravel(), RATE))
    url = "data:audio/wav;base64," + base64.b64encode(wav).decode()
    async with session(port, ref_audio=url) as (socket, created):
        assert created["type"] == "session.created"
        assert created["session"]["ref_audio"] == "set"
        assert "voice" not in created["session"]["audio"]["output"]
        await socket.send(append(60))
        await until(socket, "response.done")
        late = {"type": "session.update", "session": {"type": "realtime", "voice": "VARM0"}}
        await socket.send(json.dumps(late))
        refused = (await until(socket, "error"))[-1]["error"]
        assert "voice_update" in refused["code"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"voice": "nobody"}, "no voice"),
        ({"voice": "VARM0", "ref_audio": "data:audio/wav;base64,AAAA"}, "one too many"),
        ({"extra_body": {"top_p": 0.5}}, "top_p"),
        ({"ref_audio": "data:audio/wav;base64,AAAA"}, "ref_audio"),
    ],
)
async def test_what_cannot_be_is_refused_at_the_door(
    port: int, fields: dict[str, Any], words: str
) -> None:
    async with session(port, **fields) as (_, answer):
        assert answer["type"] == "error"
        assert words in answer["error"]["message"]


async def test_voice_and_role_cannot_change_once_it_listens(port: int) -> None:
    async with session(port, voice="alloy") as (socket, created):
        assert created["session"]["audio"]["output"]["voice"] == "NATF0"
        await socket.send(append(2))
        await until(socket, "response.listen")
        for change in ({"voice": "VARM0"}, {"instructions": "Be someone else."}):
            update = {"type": "session.update", "session": {"type": "realtime", **change}}
            await socket.send(json.dumps(update))
            refused = (await until(socket, "error"))[-1]["error"]
            assert "update" in refused["code"]


async def test_a_full_house_is_said_before_anybody_waits_in_silence(port: int) -> None:
    """Two slots by default."""
    async with session(port), session(port), session(port) as (_, third):
        assert third["type"] == "error"
        assert "session" in third["error"]["message"]
