"""One session of a benchmark: it talks, waits for the answer, interrupts it, and times all that."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque
from dataclasses import dataclass, field

from duplex_sdk.clients import BoundedStream, ClientError, ClientProtocolError, DuplexClientBase
from duplex_sdk.protocol.duplex import (
    AudioDelta,
    DuplexEvent,
    ResponseDone,
    SessionHeartbeatAck,
)

__all__ = ["Caller", "Timings"]

UNIT_MS = 80
ANSWER_TIMEOUT_S = 15.0
LISTEN_S = 0.5
PAUSE_S = 0.3
QUEUE_SIZE = 8192


@dataclass(slots=True)
class Timings:
    """What the sessions of one step measured, in ms.

    Attributes:
        opening: from the call to the session.
        round_trip: of a heartbeat, through the session and back, while everybody talks.
        first_audio: from the end of what was said to the first audio of the answer.
        cancel: from the cancel to the end of the response.
        lateness: how late the units of input left; the load generator's own fault.
        turns: answers heard.
        late_audio: pieces of audio that came after the end of their response.
        failures: what went wrong, and how often.
    """

    opening: list[float] = field(default_factory=list)
    round_trip: list[float] = field(default_factory=list)
    first_audio: list[float] = field(default_factory=list)
    cancel: list[float] = field(default_factory=list)
    lateness: list[float] = field(default_factory=list)
    turns: int = 0
    late_audio: int = 0
    failures: Counter[str] = field(default_factory=Counter)


class Caller:
    """Talks over one client, which it opens and closes.

    Args:
        client: not opened.
        speech: one turn, mono PCM16.
        rate_hz: of the speech.
        timings: where the figures go.
    """

    def __init__(
        self, client: DuplexClientBase, speech: bytes, rate_hz: int, timings: Timings
    ) -> None:
        self._client = client
        self._speech = speech
        self._rate_hz = rate_hz
        self._timings = timings
        self._beats: deque[float] = deque()
        self._asked_at: float | None = None
        self._answered = asyncio.Event()
        self._ended: set[str] = set()
        self._loop = asyncio.get_running_loop()

    async def run(self, seconds: float) -> None:
        """Take turns for so long. Never raises: what goes wrong is counted."""
        try:
            start = self._loop.time()
            async with self._client:
                self._timings.opening.append((self._loop.time() - start) * 1000)
                listening = asyncio.create_task(self._listen(self._client.events(size=QUEUE_SIZE)))
                try:
                    await self._take_turns(self._loop.time() + seconds)
                finally:
                    listening.cancel()
                    await asyncio.gather(listening, return_exceptions=True)
        except ClientProtocolError as error:
            self._timings.failures[error.code] += 1
        except (ClientError, TimeoutError) as error:
            self._timings.failures[type(error).__name__] += 1

    async def _take_turns(self, until: float) -> None:
        while self._loop.time() < until:
            await self._say(self._speech)
            await self._be_answered()
            await self._say(bytes(_size(self._rate_hz, LISTEN_S)))
            await self._cancel()
            await self._say(bytes(_size(self._rate_hz, PAUSE_S)))

    async def _say(self, pcm: bytes) -> None:
        unit = _size(self._rate_hz, UNIT_MS / 1000)
        due = self._loop.time()
        for at in range(0, len(pcm), unit):
            due += UNIT_MS / 1000
            await asyncio.sleep(max(0.0, due - self._loop.time()))
            self._timings.lateness.append(max(0.0, self._loop.time() - due) * 1000)
            await self._client.append_audio(pcm[at : at + unit])
            self._beats.append(self._loop.time())
            await self._client.send({"type": "session.heartbeat"})

    async def _be_answered(self) -> None:
        self._answered.clear()
        self._asked_at = self._loop.time()
        await self._client.commit(response_create=True)
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                await self._answered.wait()
        except TimeoutError:
            self._timings.failures["no answer"] += 1
        self._asked_at = None

    async def _cancel(self) -> None:
        start = self._loop.time()
        receipt = await self._client.cancel_response()
        # An answer that was over already has nothing to cancel.
        with contextlib.suppress(ClientProtocolError):
            await receipt.acknowledged()
            self._timings.cancel.append((self._loop.time() - start) * 1000)

    async def _listen(self, events: BoundedStream[DuplexEvent]) -> None:
        async for event in events:
            match event:
                case AudioDelta():
                    self._hear(event)
                case SessionHeartbeatAck() if self._beats:
                    sent = self._beats.popleft()
                    self._timings.round_trip.append((self._loop.time() - sent) * 1000)
                case ResponseDone():
                    self._ended.add(event.response_id)
                case _:
                    pass

    def _hear(self, event: AudioDelta) -> None:
        self._timings.late_audio += event.response_id in self._ended
        if self._asked_at is not None and not self._answered.is_set():
            self._timings.first_audio.append((self._loop.time() - self._asked_at) * 1000)
            self._timings.turns += 1
            self._answered.set()


def _size(rate_hz: int, seconds: float) -> int:
    return int(rate_hz * seconds) * 2
