"""A spoken conversation with a server: what is said goes in, what is answered is played."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable

from duplex_sdk.clients import BoundedStream, DuplexClientBase, PlaybackQueue
from duplex_sdk.protocol.duplex import DuplexEvent

from .talk_dialogue import Dialogue
from .talk_level import LevelMeter

__all__ = ["Loudspeaker", "SpokenSource", "TalkSession"]

CHUNK_MS = 20
OUTPUT_RATE_HZ = 24_000


class SpokenSource(ABC):
    """Where the words come from. Belongs to the session's loop."""

    rate_hz: int

    @abstractmethod
    def chunks(self) -> AsyncIterator[bytes]:
        """Mono PCM16 at ``rate_hz``, given out at the speed of speech, silence included."""


class Loudspeaker(ABC):
    """Where the answers go: mono PCM16 at 24 kHz, one call per 20 ms, silence included."""

    @abstractmethod
    def play(self, pcm: bytes) -> None:
        """Take the next 20 ms; returns at once."""


class TalkSession:
    """Couples one client with a source and a loudspeaker until the source ends.

    Attributes:
        dialogue: what was said, and how fast it was answered.
        input_level: of what is said, 0 to 1.
        output_level: of what is played, 0 to 1.
        played_ms: audio that went to the loudspeaker, silence apart.
    """

    def __init__(
        self, client: DuplexClientBase, source: SpokenSource, loudspeaker: Loudspeaker
    ) -> None:
        self._client = client
        self._source = source
        self._loudspeaker = loudspeaker
        self._queue = PlaybackQueue()
        self._on_change: Callable[[], None] = _nothing
        self._changed = asyncio.Event()
        self.dialogue = Dialogue()
        self.input_level = LevelMeter()
        self.output_level = LevelMeter()
        self.played_ms = 0.0

    @property
    def quiet(self) -> bool:
        """Whether no answer is in the making and none is left to play."""
        return not self.dialogue.answering and self._queue.waiting_ms == 0

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` after every event and every piece of audio."""
        self._on_change = callback

    async def until(self, reached: Callable[[], bool]) -> None:
        """Return once ``reached()`` holds; it is asked after every change."""
        while not reached():
            self._changed.clear()
            await self._changed.wait()

    async def quiet_for(self, seconds: float) -> None:
        """Return once nothing was answered or played for so long."""
        loop = asyncio.get_running_loop()
        since = loop.time()

        def undisturbed() -> bool:
            nonlocal since
            if not self.quiet:
                since = loop.time()
            return loop.time() - since >= seconds

        await self.until(undisturbed)

    async def run(self) -> None:
        """Talk until the source ends; the client must be open, and stays open.

        Raises:
            ClientError: the session or the connection ended before.
        """
        events = self._client.events()
        self._client.attach(self._queue)
        await self._configure()
        async with asyncio.TaskGroup() as tasks:
            beside = [
                tasks.create_task(self._listen(events)),
                tasks.create_task(self._play()),
            ]
            await self._speak()
            events.close()
            for task in beside:
                task.cancel()

    def _note_change(self) -> None:
        self._changed.set()
        self._on_change()

    async def _configure(self) -> None:
        capabilities = self._client.capabilities
        turns = {"type": "server_vad"} if capabilities.get("supports_barge_in") else None
        updating = await self._client.update(
            {
                "audio": {
                    "input": {
                        "format": {"type": "audio/pcm", "rate": self._source.rate_hz},
                        "turn_detection": turns,
                    },
                    "output": {"format": {"type": "audio/pcm", "rate": OUTPUT_RATE_HZ}},
                },
                "auto_response": bool(capabilities.get("supports_model_native_turn_policy")),
            }
        )
        await updating.acknowledged()

    async def _speak(self) -> None:
        loop = asyncio.get_running_loop()
        async for chunk in self._source.chunks():
            if self.input_level.feed(chunk):
                self.dialogue.end_of_speech = loop.time()
            await self._client.append_audio(chunk)
            self._note_change()

    async def _listen(self, events: BoundedStream[DuplexEvent]) -> None:
        loop = asyncio.get_running_loop()
        async for event in events:
            self.dialogue.feed(event, loop.time())
            self._note_change()

    async def _play(self) -> None:
        loop = asyncio.get_running_loop()
        size = OUTPUT_RATE_HZ * 2 * CHUNK_MS // 1000
        due = loop.time()
        while True:
            piece = self._next_piece(size)
            self.played_ms += len(piece) * CHUNK_MS / size
            self.output_level.feed(piece)
            self._loudspeaker.play(piece.ljust(size, b"\0"))
            due += CHUNK_MS / 1000
            await asyncio.sleep(max(0.0, due - loop.time()))

    def _next_piece(self, size: int) -> bytes:
        piece = b""
        while len(piece) < size and (more := self._queue.read(size - len(piece))):
            piece += more
        return piece


def _nothing() -> None:
    return None
