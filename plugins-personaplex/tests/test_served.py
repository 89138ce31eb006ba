"""Eight callers at once, through sockets, with the unmodified ``openai`` client."""

from __future__ import annotations

import asyncio
import base64
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from duplex_sdk.audio import float_to_pcm16, pcm16_to_float, read_wav, resample
from model_runs import Bench, speech
from numpy.typing import NDArray
from openai import AsyncOpenAI
from serving import serve

from duplex_plugin_personaplex.figures import FRAME_MS, FRAME_SAMPLES, RATE
from duplex_plugin_personaplex.utterances import UtteranceGate

CALLERS = 8
FRAMES = 40
VOICES = ("NATF0", "NATF2", "NATM1", "VARM4")
LIMIT_S = 60.0
# Of which the start of the server may take most, where several things are tried at once.
pytestmark = pytest.mark.timeout(300)
HUMAN = Path("/usr/share/pocketsphinx/test/data/librivox")


@pytest.fixture(scope="module")
def port(checkpoint: Path) -> Iterator[int]:
    # So much lag is allowed that a busy machine drops nothing: what is said depends on what is
    # heard, and each caller's part is compared to the last token.
    with serve(
        "--checkpoint", str(checkpoint), "--slots", str(CALLERS), "--max-sessions", str(CALLERS),
        "--max-unit-lag-ms", "600000",
    ) as port:  # fmt: skip
        yield port


@dataclass
class Heard:
    """What a caller heard."""

    words: str = ""
    sound: bytearray = field(default_factory=bytearray)
    done: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)


def pcm(number: int) -> bytes:
    """A person reading, each caller another passage; noise where the recordings are missing."""
    recordings = sorted(HUMAN.glob("*.wav"))
    if not recordings:
        return float_to_pcm16(speech(FRAMES, seed=100 + number).ravel())
    voice = np.concatenate([resample(read_wav(path), RATE).numpy() for path in recordings])
    start = number * FRAMES * FRAME_SAMPLES
    return float_to_pcm16(np.roll(voice, -start)[: FRAMES * FRAME_SAMPLES])


def session(number: int) -> dict[str, Any]:
    return {
        "type": "realtime",
        "instructions": f"You are teacher {number}.",
        "audio": {"output": {"voice": VOICES[number % 4]}},
        "extra_body": {"seed": number},
    }


async def call(port: int, number: int, wanted: int) -> Heard:
    """Say one's part, then listen until so many bytes of sound have come."""
    client = AsyncOpenAI(api_key="none", base_url=f"http://127.0.0.1:{port}/v1")
    heard = Heard()
    async with client.realtime.connect(model="personaplex") as connection:
        await connection.session.update(session=session(number))  # type: ignore[arg-type]
        said = pcm(number)
        for start in range(0, len(said), 9600):
            chunk = base64.b64encode(said[start : start + 9600]).decode()
            await connection.input_audio_buffer.append(audio=chunk)
        async for event in connection:
            _note(heard, event)
            if len(heard.sound) >= wanted:
                break
    await client.close()
    return heard


def _note(heard: Heard, event: Any) -> None:
    heard.kinds.append(event.type)
    match event.type:
        case "response.output_audio.delta":
            heard.sound += base64.b64decode(event.delta)
        case "response.output_audio_transcript.delta":
            heard.words += event.delta
        case "response.done":
            heard.done.append(event.response.status)
        case "error":
            pytest.fail(event.error.message)


@dataclass
class Expected:
    """What a caller is to hear to what it says, worked out without any server."""

    words: str
    sound: NDArray[np.float32]


@pytest.fixture(scope="module")
def expected(checkpoint: Path) -> list[Expected]:
    bench = Bench(checkpoint, slots=1)
    found = []
    for number in range(CALLERS):
        role, voice = f"You are teacher {number}.", VOICES[number % 4]
        bench.open("one", seed=number, voice=voice, role=role)
        frames = pcm16_to_float(pcm(number)).reshape(FRAMES, FRAME_SAMPLES)
        gate = UtteranceGate()
        results = [
            result
            for output in bench.talk("one", frames)
            if output.audio is not None
            for result in gate.frame(output.audio, output.text or "")
        ]
        words = "".join(result.text or "" for result in results)
        sounds = [result.audio.numpy() for result in results if result.audio is not None]
        found.append(Expected(words, np.concatenate([*sounds, np.zeros(0, np.float32)])))
        bench.close("one")
    bench.host.shutdown()
    return found


async def test_eight_callers_hear_their_own_stream_and_nobody_elses(
    port: int, expected: list[Expected]
) -> None:
    assert len({part.words for part in expected}) == CALLERS
    assert sum(part.sound.size > 0 for part in expected) >= CALLERS - 1
    async with asyncio.timeout(LIMIT_S):
        heard = await asyncio.gather(
            *(call(port, number, part.sound.size * 2) for number, part in enumerate(expected))
        )
    for caller, part in zip(heard, expected, strict=True):
        sound = pcm16_to_float(bytes(caller.sound))[: part.sound.size]
        assert np.abs(sound - part.sound).max(initial=0.0) <= 2 / 32768
        # The words of the last frame may come behind its sound.
        assert part.words.startswith(caller.words) or caller.words.startswith(part.words)
        assert abs(len(caller.words) - len(part.words)) < 12
        assert "response.created" in caller.kinds or not part.words


async def test_silence_is_no_response(port: int) -> None:
    """A stock client hears utterances, and nothing of what lies between them."""
    client = AsyncOpenAI(api_key="none", base_url=f"http://127.0.0.1:{port}/v1")
    async with client.realtime.connect(model="personaplex") as connection:
        await connection.session.update(session=session(1))  # type: ignore[arg-type]
        await connection.input_audio_buffer.append(audio=base64.b64encode(pcm(1)).decode())
        heard = Heard()
        async with asyncio.timeout(LIMIT_S):
            async for event in connection:
                _note(heard, event)
                if event.type == "response.done":
                    break
    await client.close()
    assert heard.done == ["completed"]
    assert "response.listen" not in heard.kinds
    # An utterance ends with the pause that shows that it has ended, not with more.
    assert len(heard.sound) % (2 * FRAME_SAMPLES) == 0


async def test_a_cancel_mutes_and_the_next_utterance_is_heard(port: int) -> None:
    client = AsyncOpenAI(api_key="none", base_url=f"http://127.0.0.1:{port}/v1")
    heard = Heard()
    async with client.realtime.connect(model="personaplex") as connection:
        await connection.session.update(session=session(2))  # type: ignore[arg-type]
        microphone = asyncio.create_task(_speak_on(connection, pcm(2)))
        cancelled: str | None = None
        async with asyncio.timeout(LIMIT_S):
            async for event in connection:
                _note(heard, event)
                if event.type == "response.output_audio.delta":
                    assert cancelled is None or event.response_id != cancelled or not heard.done
                    if cancelled is None:
                        cancelled = event.response_id
                        await connection.response.cancel()
                if heard.kinds.count("response.created") == 2:
                    break
        microphone.cancel()
    await client.close()
    assert heard.done[0] == "cancelled"


async def _speak_on(connection: Any, said: bytes) -> None:
    """As a microphone does: one frame after the other, without end."""
    size = 2 * FRAME_SAMPLES
    for start in itertools.cycle(range(0, len(said), size)):
        chunk = base64.b64encode(said[start : start + size]).decode()
        await connection.input_audio_buffer.append(audio=chunk)
        await asyncio.sleep(FRAME_MS / 1000)


async def test_a_stock_client_is_told_the_voice_it_really_hears(port: int) -> None:
    """OpenAI's names are ours of another sound; one nobody knows, or too late, changes nothing."""
    client = AsyncOpenAI(api_key="none", base_url=f"http://127.0.0.1:{port}/v1")
    told: list[str] = []
    async with client.realtime.connect(model="personaplex") as connection:

        async def update(voice: str) -> None:
            wanted: Any = {"type": "realtime", "audio": {"output": {"voice": voice}}}
            await connection.session.update(session=wanted)

        for voice in ("alloy", "marin", "VARM1", "nobody"):
            await update(voice)
        sound = base64.b64encode(pcm(1)[: 4 * FRAME_SAMPLES]).decode()
        await connection.input_audio_buffer.append(audio=sound)
        await update("VARM4")
        async with asyncio.timeout(LIMIT_S):
            async for event in connection:
                assert event.type != "error"
                if event.type in ("session.created", "session.updated"):
                    told.append(event.session.audio.output.voice)
                if len(told) == 6:
                    break
    await client.close()
    assert told == ["NATF2", "NATF0", "NATF2", "VARM1", "VARM1", "VARM1"]
