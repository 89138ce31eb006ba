"""A player that is read from: the loudspeaker asks for the next piece."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from duplex_sdk.protocol.duplex import AudioDelta

from .player import PlayedAudio, Player, audio_rate

__all__ = ["PlaybackQueue"]


@dataclass(slots=True)
class _Track:
    response_id: str
    item_id: str
    bytes_per_ms: float
    waiting: deque[bytes]
    played_bytes: int = 0
    ended: bool = False

    def report(self, *, cut: bool) -> PlayedAudio:
        played_ms = int(self.played_bytes / self.bytes_per_ms)
        return PlayedAudio(self.response_id, self.item_id, played_ms, cut)


class PlaybackQueue(Player):
    """Audio of all responses in order, handed out in the pieces a loudspeaker takes.

    What was handed out counts as heard. PCM16 and G.711 only. Not thread-safe.
    """

    def __init__(self) -> None:
        super().__init__()
        self._tracks: deque[_Track] = deque()
        self._reports: list[PlayedAudio] = []

    @property
    def waiting_ms(self) -> float:
        """Audio that was received and not yet handed out."""
        return sum(sum(map(len, track.waiting)) / track.bytes_per_ms for track in self._tracks)

    @property
    def silent(self) -> bool:
        """Whether nothing plays, and nothing waits to be played."""
        return not self._tracks

    def read(self, size: int) -> bytes:
        """Take up to ``size`` bytes of the response now playing; empty when there is silence."""
        while self._tracks:
            track = self._tracks[0]
            if track.waiting:
                return _take(track, size)
            if not track.ended:
                return b""
            self._reports.append(track.report(cut=False))
            self._tracks.popleft()
        return b""

    def play(self, audio: AudioDelta) -> None:
        """Take the next piece of a response."""
        track = self._find(audio.response_id)
        if track is None:
            bytes_per_ms = audio_rate(audio) * (1 if audio.format.startswith("g711") else 2) / 1000
            track = _Track(audio.response_id, audio.item_id, bytes_per_ms, deque())
            self._tracks.append(track)
        track.waiting.append(audio.delta)

    def end(self, response_id: str) -> None:
        """No more audio of this response follows; what is there still plays."""
        track = self._find(response_id)
        if track is not None:
            track.ended = True

    def stop(self, response_id: str | None) -> None:
        """Fall silent now and forget what was not heard of a response; None for all of them."""
        for track in list(self._tracks):
            if response_id in (None, track.response_id):
                self._reports.append(track.report(cut=True))
                self._tracks.remove(track)

    def reports(self) -> tuple[PlayedAudio, ...]:
        """What ended or was silenced since the last call, and how far what plays has come."""
        done, self._reports = tuple(self._reports), []
        playing = tuple(t.report(cut=False) for t in self._tracks if t.played_bytes)
        return done + playing

    def _find(self, response_id: str) -> _Track | None:
        return next((t for t in self._tracks if t.response_id == response_id), None)


def _take(track: _Track, size: int) -> bytes:
    piece = track.waiting.popleft()
    if len(piece) > size:
        track.waiting.appendleft(piece[size:])
        piece = piece[:size]
    track.played_bytes += len(piece)
    return piece
