"""What a loudspeaker has to know: what to play, when to fall silent, how much was heard."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from duplex_sdk.protocol.duplex import (
    AudioDelta,
    DuplexEvent,
    OutputAudioCleared,
    ResponseDone,
)

__all__ = ["PlaybackQueue", "PlayedAudio", "audio_ms"]

_WAV_HEADER_BYTES = 44
_DEFAULT_RATE_HZ = {"g711_ulaw": 8000, "g711_alaw": 8000}
_BYTES_PER_SAMPLE = {"g711_ulaw": 1, "g711_alaw": 1}


def audio_ms(event: AudioDelta) -> float:
    """Length of a delta's audio in ms, from its bytes, format and rate (24 kHz when unstated)."""
    rate = event.sample_rate_hz or _DEFAULT_RATE_HZ.get(event.format, 24_000)
    size = len(event.delta) - (_WAV_HEADER_BYTES if event.format == "wav" else 0)
    return max(0, size) / _BYTES_PER_SAMPLE.get(event.format, 2) * 1000 / rate


@dataclass(frozen=True, slots=True)
class PlayedAudio:
    """How far a response was played.

    Attributes:
        response_id: the response.
        item_id: its message item, as ``playback.ack`` and ``conversation.item.truncate`` want it.
        played_ms: ms of its audio that went to the loudspeaker.
        cut: true when it was silenced before its end.
    """

    response_id: str
    item_id: str
    played_ms: int
    cut: bool


@dataclass(slots=True)
class _Track:
    response_id: str
    item_id: str
    bytes_per_ms: float
    waiting: deque[bytes]
    played_bytes: int = 0
    ended: bool = False


class PlaybackQueue:
    """Audio of all responses in order, handed out in the pieces a loudspeaker takes.

    Feed it every event; it keeps the stop rules of the protocol: a cancelled response and a
    cleared output fall silent at once, and audio that belongs to an epoch before the newest one
    seen is never played. PCM16 and G.711 only. Not thread-safe.
    """

    def __init__(self) -> None:
        self._tracks: deque[_Track] = deque()
        self._epoch = 0
        self._reports: list[PlayedAudio] = []

    @property
    def waiting_ms(self) -> float:
        """Audio that was received and not yet handed out."""
        return sum(sum(map(len, track.waiting)) / track.bytes_per_ms for track in self._tracks)

    def feed(self, event: DuplexEvent) -> None:
        """Note an event of the session."""
        stale = event.epoch is not None and event.epoch < self._epoch
        if event.epoch is not None:
            self._epoch = max(self._epoch, event.epoch)
        match event:
            case AudioDelta() if not stale:
                self._add(event)
            case ResponseDone() if event.response.status == "cancelled":
                self._stop(event.response_id)
            case ResponseDone():
                self._end(event.response_id)
            case OutputAudioCleared():
                self._stop(event.response_id)
            case _:
                pass

    def read(self, size: int) -> bytes:
        """Take up to ``size`` bytes of the response now playing; empty when there is silence."""
        while self._tracks:
            track = self._tracks[0]
            if track.waiting:
                return self._take(track, size)
            if not track.ended:
                return b""
            self._report(track, cut=False)
            self._tracks.popleft()
        return b""

    def reports(self) -> tuple[PlayedAudio, ...]:
        """What ended or was silenced since the last call, and how far what plays has come."""
        done, self._reports = tuple(self._reports), []
        playing = tuple(_played(track, cut=False) for track in self._tracks if track.played_bytes)
        return done + playing

    def _add(self, event: AudioDelta) -> None:
        track = self._find(event.response_id)
        if track is None:
            rate = event.sample_rate_hz or _DEFAULT_RATE_HZ.get(event.format, 24_000)
            track = _Track(
                event.response_id,
                event.item_id,
                rate * _BYTES_PER_SAMPLE.get(event.format, 2) / 1000,
                deque(),
            )
            self._tracks.append(track)
        track.waiting.append(event.delta)

    def _take(self, track: _Track, size: int) -> bytes:
        piece = track.waiting.popleft()
        if len(piece) > size:
            track.waiting.appendleft(piece[size:])
            piece = piece[:size]
        track.played_bytes += len(piece)
        return piece

    def _end(self, response_id: str) -> None:
        track = self._find(response_id)
        if track is not None:
            track.ended = True

    def _stop(self, response_id: str | None) -> None:
        for track in list(self._tracks):
            if response_id in (None, track.response_id):
                self._report(track, cut=True)
                self._tracks.remove(track)

    def _report(self, track: _Track, *, cut: bool) -> None:
        self._reports.append(_played(track, cut=cut))

    def _find(self, response_id: str) -> _Track | None:
        return next((t for t in self._tracks if t.response_id == response_id), None)


def _played(track: _Track, *, cut: bool) -> PlayedAudio:
    return PlayedAudio(
        track.response_id,
        track.item_id,
        int(track.played_bytes / track.bytes_per_ms),
        cut,
    )
