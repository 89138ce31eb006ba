"""Sources and loudspeakers of a talk: recordings, the microphone, a WAV file, the real thing."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from importlib import import_module
from pathlib import Path
from typing import Any

from duplex_sdk.audio import PcmChunk, float_to_pcm16, pcm16_to_float, read_wav, write_wav
from duplex_sdk.errors import DuplexError

from .talk_session import CHUNK_MS, OUTPUT_RATE_HZ, Loudspeaker, SpokenSource

__all__ = ["Device", "Microphone", "RecordedSpeech", "Recorder", "load_pcm16"]

MICROPHONE_RATE_HZ = 16_000
GAP_MS = 400


def load_pcm16(path: Path) -> tuple[bytes, int]:
    """Mono PCM16 and rate of a WAV file.

    Raises:
        DuplexError: the file cannot be read, or is no WAV.
    """
    try:
        speech = read_wav(path)
    except OSError as error:
        raise DuplexError(f"cannot read {path}: {error.strerror}") from error
    return float_to_pcm16(speech.numpy()), speech.rate


class RecordedSpeech(SpokenSource):
    """Says what it is told to, in real time, and is silent in between, until it is closed."""

    def __init__(self, rate_hz: int) -> None:
        self.rate_hz = rate_hz
        self._waiting: deque[bytes] = deque()
        self._said = asyncio.Event()
        self._said.set()
        self._closed = False

    async def say(self, pcm: bytes) -> None:
        """Say this after what is still to be said; returns when it is out."""
        size = self._chunk_bytes
        self._said.clear()
        self._waiting.extend(pcm[at : at + size] for at in range(0, len(pcm), size))
        await self._said.wait()

    def close(self) -> None:
        """End the source with the current chunk."""
        self._closed = True

    async def chunks(self) -> AsyncIterator[bytes]:
        """What is to be said, or silence, 20 ms at a time."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while not self._closed:
            due += CHUNK_MS / 1000
            await asyncio.sleep(max(0.0, due - loop.time()))
            if self._waiting:
                yield self._waiting.popleft().ljust(self._chunk_bytes, b"\0")
            else:
                self._said.set()
                yield bytes(self._chunk_bytes)

    @property
    def _chunk_bytes(self) -> int:
        return self.rate_hz * CHUNK_MS // 1000 * 2


class Recorder(Loudspeaker):
    """Keeps what was played: the answers one after the other, long silences shortened."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._silent_ms = 0

    def play(self, pcm: bytes) -> None:
        """Take the next 20 ms."""
        if any(pcm):
            self._silent_ms = 0
        else:
            self._silent_ms += CHUNK_MS
        if self._silent_ms <= GAP_MS and (self._pieces or self._silent_ms == 0):
            self._pieces.append(pcm)

    @property
    def pcm(self) -> bytes:
        """All that was kept, mono PCM16 at 24 kHz."""
        return b"".join(self._pieces)

    def save(self, path: Path) -> None:
        """Write it as a WAV file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_wav(path, PcmChunk.of(pcm16_to_float(self.pcm), OUTPUT_RATE_HZ))


class Microphone(SpokenSource):
    """The machine's microphone, until the task that reads it is cancelled."""

    rate_hz = MICROPHONE_RATE_HZ

    def __init__(self) -> None:
        self._device = _sound_device()

    async def chunks(self) -> AsyncIterator[bytes]:
        """What the microphone hears, 20 ms at a time."""
        loop = asyncio.get_running_loop()
        heard: asyncio.Queue[bytes] = asyncio.Queue()

        def hear(data: Any, *_: Any) -> None:
            loop.call_soon_threadsafe(heard.put_nowait, bytes(data))

        with self._device.RawInputStream(
            samplerate=self.rate_hz,
            channels=1,
            dtype="int16",
            blocksize=self.rate_hz * CHUNK_MS // 1000,
            callback=hear,
        ):
            while True:
                yield await heard.get()


class Device(Loudspeaker):
    """The machine's loudspeaker; keeps a recording too."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._waiting: deque[bytes] = deque()
        self._stream = _sound_device().RawOutputStream(
            samplerate=OUTPUT_RATE_HZ,
            channels=1,
            dtype="int16",
            blocksize=OUTPUT_RATE_HZ * CHUNK_MS // 1000,
            callback=self._fill,
        )
        self._stream.start()

    def play(self, pcm: bytes) -> None:
        """Take the next 20 ms."""
        self._recorder.play(pcm)
        self._waiting.append(pcm)

    def _fill(self, out: Any, *_: Any) -> None:
        piece = self._waiting.popleft() if self._waiting else b""
        out[:] = piece.ljust(len(out), b"\0")[: len(out)]


def _sound_device() -> Any:
    try:
        return import_module("sounddevice")
    except (ImportError, OSError) as error:
        raise DuplexError(
            f"no microphone or loudspeaker here: {error}",
            hint="pip install sounddevice (and the system's PortAudio), or speak a file: --wav",
        ) from error
