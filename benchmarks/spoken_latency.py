"""End of speech to first audio of the ``local`` plugin, through real sockets."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass

import numpy as np
from duplex_sdk.audio import PcmChunk, float_to_pcm16, resample
from duplex_sdk.cli.server_process import ServerProcess
from duplex_sdk.clients import BoundedStream, DuplexClient, audio_ms
from duplex_sdk.protocol.duplex import AudioDelta, DuplexEvent, ErrorEvent, ResponseDone

from .figure import Figure, quantile
from .machine import process_cpu_seconds
from .workload import Spoken

__all__ = ["measure_spoken_latency"]

RATE_HZ = 16_000
P50_TARGET_MS = {1: 450.0}
P95_TARGET_MS = {16: 700.0}
ANSWER_TIMEOUT_S = 20.0
# Speech ends with its last sample above the level the protocol takes for silence.
LOUD = 0.003
SESSION = {
    "audio": {
        "input": {
            "format": {"type": "audio/pcm", "rate": RATE_HZ},
            "turn_detection": {"type": "server_vad"},
        },
        "output": {"format": {"type": "audio/pcm", "rate": 24_000}},
    },
}


@dataclass(frozen=True, slots=True)
class Utterance:
    """What is asked, and when its last loud sample is over."""

    pcm: bytes
    loud_s: float


async def measure_spoken_latency(workload: Spoken, seed: int) -> list[Figure]:
    """Run each number of sessions against a server of its own.

    Raises:
        ServerStartError: the server does not start.
        TimeoutError: a question was not answered.
    """
    question = _spoken(workload.question)
    figures: list[Figure] = []
    for sessions in workload.sessions:
        figures += await _run(workload, question, sessions, random.Random(seed))
    return figures


async def _run(
    workload: Spoken, question: Utterance, sessions: int, source: random.Random
) -> list[Figure]:
    loop = asyncio.get_running_loop()
    async with ServerProcess("--plugin", "local", "--max-sessions", str(sessions)) as server:
        talkers = [
            _Talker(server.url, workload, question, random.Random(source.random()))
            for _ in range(sessions)
        ]
        start, cpu = loop.time(), process_cpu_seconds(server.pid)
        async with asyncio.TaskGroup() as tasks:
            for talker in talkers:
                tasks.create_task(talker.run())
        lasted = loop.time() - start
        cpu = process_cpu_seconds(server.pid) - cpu
    latencies = [latency for talker in talkers for latency in talker.latencies_ms]
    late = [lateness for talker in talkers for lateness in talker.lateness_ms]
    named = f"{sessions} session{'s' if sessions > 1 else ''}"
    return [
        Figure(
            f"end of speech to first audio, {named}, p50",
            quantile(latencies, 0.5),
            "ms",
            P50_TARGET_MS.get(sessions),
        ),
        Figure(
            f"end of speech to first audio, {named}, p95",
            quantile(latencies, 0.95),
            "ms",
            P95_TARGET_MS.get(sessions),
        ),
        Figure(f"answered turns, {named}", len(latencies), "turns"),
        Figure(f"server CPU per session, {named}", cpu / lasted / sessions * 100, "% of a core"),
        Figure(f"load's own lateness, {named}, p99", quantile(late, 0.99), "ms"),
    ]


class _Talker:
    """Asks, listens to the end of the answer, pauses, asks again."""

    def __init__(
        self, url: str, workload: Spoken, question: Utterance, source: random.Random
    ) -> None:
        self._url = url
        self._workload = workload
        self._question = question
        self._random = source
        self._say: asyncio.Queue[Utterance] = asyncio.Queue()
        self._speech_end: asyncio.Future[float] | None = None
        self.latencies_ms: list[float] = []
        self.lateness_ms: list[float] = []

    async def run(self) -> None:
        async with DuplexClient(self._url, SESSION, queue_size=8192) as client:
            microphone = asyncio.create_task(self._microphone(client))
            try:
                for _ in range(self._workload.turns):
                    await asyncio.sleep(self._random.uniform(*self._workload.pause_s))
                    async with asyncio.timeout(ANSWER_TIMEOUT_S):
                        await self._ask(client)
            finally:
                microphone.cancel()

    async def _ask(self, client: DuplexClient) -> None:
        loop = asyncio.get_running_loop()
        events = client.events()
        self._speech_end = loop.create_future()
        self._say.put_nowait(self._question)
        first_audio, heard_ms = await _answer(events, loop)
        events.close()
        self.latencies_ms.append((first_audio - await self._speech_end) * 1000)
        # What was generated ahead still plays in the user's ear.
        await asyncio.sleep(max(0.0, first_audio + heard_ms / 1000 - loop.time()))

    async def _microphone(self, client: DuplexClient) -> None:
        loop = asyncio.get_running_loop()
        period = self._workload.append_ms / 1000
        size = RATE_HZ * 2 * self._workload.append_ms // 1000
        speech, due = b"", loop.time()
        while True:
            if not speech and not self._say.empty():
                utterance = self._say.get_nowait()
                speech = utterance.pcm
                if self._speech_end is not None:
                    self._speech_end.set_result(due + utterance.loud_s)
            chunk, speech = speech[:size].ljust(size, b"\0"), speech[size:]
            due += period
            await asyncio.sleep(max(0.0, due - loop.time()))
            self.lateness_ms.append((loop.time() - due) * 1000)
            await client.append_audio(chunk)


async def _answer(
    events: BoundedStream[DuplexEvent], loop: asyncio.AbstractEventLoop
) -> tuple[float, float]:
    first, heard_ms = None, 0.0
    async for event in events:
        if isinstance(event, AudioDelta):
            first = loop.time() if first is None else first
            heard_ms += audio_ms(event)
        elif isinstance(event, ResponseDone) and first is not None:
            return first, heard_ms
        elif isinstance(event, ErrorEvent):
            raise RuntimeError(f"{event.error.code}: {event.error.message}")
    raise RuntimeError("the session ended before the answer did")


def _spoken(text: str) -> Utterance:
    # Only here: the other measurements need no voice.
    from duplex_plugin_local.speech import say

    samples, rate = say(text)
    speech = resample(PcmChunk.of(samples, rate), RATE_HZ).numpy()
    loud = int(np.flatnonzero(np.abs(speech) > LOUD)[-1]) + 1
    return Utterance(float_to_pcm16(speech), loud / RATE_HZ)
