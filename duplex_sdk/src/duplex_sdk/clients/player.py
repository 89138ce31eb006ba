"""Players: where the audio of a session goes, and how far it was heard."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from duplex_sdk.protocol.duplex import (
    AudioDelta,
    DuplexEvent,
    OutputAudioCleared,
    ResponseDone,
)

__all__ = ["ApplicationPlayer", "ClockPlayer", "PlayedAudio", "Player", "audio_ms", "audio_rate"]

_WAV_HEADER_BYTES = 44
_G711 = frozenset({"g711_ulaw", "g711_alaw"})


def audio_rate(event: AudioDelta) -> int:
    """Rate of a delta's audio in Hz; where it is unstated 24 kHz, and 8 kHz of G.711."""
    return event.sample_rate_hz or (8000 if event.format in _G711 else 24_000)


def audio_ms(event: AudioDelta) -> float:
    """Length of a delta's audio in ms, from its bytes, format and rate."""
    size = len(event.delta) - (_WAV_HEADER_BYTES if event.format == "wav" else 0)
    sample_bytes = 1 if event.format in _G711 else 2
    return max(0, size) / sample_bytes * 1000 / audio_rate(event)


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


class Player(ABC):
    """Plays the answers, one after the other, and knows how far they were heard.

    ``feed`` keeps the stop rules of the protocol: a cancelled response and a cleared output fall
    silent at once, and audio of an epoch before the newest one seen is never played. Attached to
    a client it is fed by it, and what it reports goes to the server, so that the conversation
    holds the words that were heard. Belongs to the client's loop; no method may wait.
    """

    def __init__(self) -> None:
        self._epoch = 0

    def feed(self, event: DuplexEvent) -> None:
        """Note an event of the session; wants all of them, in order."""
        stale = event.epoch is not None and event.epoch < self._epoch
        if event.epoch is not None:
            self._epoch = max(self._epoch, event.epoch)
        match event:
            case AudioDelta() if not stale:
                self.play(event)
            case ResponseDone() if event.response.status == "cancelled":
                self.stop(event.response_id)
            case ResponseDone():
                self.end(event.response_id)
            case OutputAudioCleared():
                self.stop(event.response_id)
            case _:
                pass

    @property
    @abstractmethod
    def silent(self) -> bool:
        """Whether nothing plays, and nothing waits to be played."""

    @abstractmethod
    def play(self, audio: AudioDelta) -> None:
        """Take the next piece of a response."""

    @abstractmethod
    def end(self, response_id: str) -> None:
        """No more audio of this response follows; what is there still plays."""

    @abstractmethod
    def stop(self, response_id: str | None) -> None:
        """Fall silent now and forget what was not heard of a response; None for all of them."""

    @abstractmethod
    def reports(self) -> tuple[PlayedAudio, ...]:
        """What ended or was silenced since the last call, and how far what plays has come."""


@dataclass(slots=True)
class _Timed:
    response_id: str
    item_id: str
    received_ms: float = 0.0
    played_ms: float = 0.0
    ended: bool = False

    def report(self, *, cut: bool) -> PlayedAudio:
        return PlayedAudio(self.response_id, self.item_id, int(self.played_ms), cut)


class ClockPlayer(Player):
    """For outputs that play in real time and do not say how far they are: goes by the clock.

    A subclass hands the audio on. What arrives is taken to begin to play at once, or after the
    response before it; when the audio runs out, time that passes is silence.

    Args:
        clock: seconds, steady.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._tracks: deque[_Timed] = deque()
        self._ended: list[PlayedAudio] = []
        self._at = clock()

    @abstractmethod
    def output(self, audio: AudioDelta) -> None:
        """Hand a piece to the output."""

    @abstractmethod
    def silence(self, response_id: str) -> None:
        """Make the output forget what it has not played of a response."""

    @property
    def silent(self) -> bool:
        """Whether nothing plays, and nothing waits to be played."""
        self._advance()
        return not self._tracks

    def play(self, audio: AudioDelta) -> None:
        """Take the next piece of a response."""
        self._advance()
        track = self._find(audio.response_id)
        if track is None:
            track = _Timed(audio.response_id, audio.item_id)
            self._tracks.append(track)
        track.received_ms += audio_ms(audio)
        self.output(audio)

    def end(self, response_id: str) -> None:
        """No more audio of this response follows; what is there still plays."""
        track = self._find(response_id)
        if track is not None:
            track.ended = True
        self._advance()

    def stop(self, response_id: str | None) -> None:
        """Fall silent now and forget what was not heard of a response; None for all of them."""
        self._advance()
        for track in [t for t in self._tracks if response_id in (None, t.response_id)]:
            self._tracks.remove(track)
            self._ended.append(track.report(cut=True))
            self.silence(track.response_id)

    def reports(self) -> tuple[PlayedAudio, ...]:
        """What ended or was silenced since the last call, and how far what plays has come."""
        self._advance()
        ended, self._ended = tuple(self._ended), []
        return ended + tuple(t.report(cut=False) for t in self._tracks if t.played_ms)

    def _advance(self) -> None:
        now = self._clock()
        passed_ms, self._at = (now - self._at) * 1000, now
        while self._tracks:
            track = self._tracks[0]
            step = min(passed_ms, track.received_ms - track.played_ms)
            track.played_ms += step
            passed_ms -= step
            if not track.ended or track.played_ms < track.received_ms:
                return
            self._tracks.popleft()
            self._ended.append(track.report(cut=False))

    def _find(self, response_id: str) -> _Timed | None:
        return next((t for t in self._tracks if t.response_id == response_id), None)


class ApplicationPlayer(Player):
    """For applications that know best: they play, and say by ``heard`` how far they are."""

    def __init__(self) -> None:
        super().__init__()
        self._tracks: dict[str, _Timed] = {}
        self._changed: dict[str, PlayedAudio] = {}

    @abstractmethod
    def output(self, audio: AudioDelta) -> None:
        """Hand a piece to the output."""

    @abstractmethod
    def silence(self, response_id: str) -> int | None:
        """Make the output forget what it has not played of a response.

        Returns:
            ms of it that were heard, or None to let the last ``heard`` stand.
        """

    def heard(self, response_id: str, played_ms: int) -> None:
        """So much of a response was heard by now; what was silenced or ended is passed over."""
        track = self._tracks.get(response_id)
        if track is None:
            return
        track.played_ms = max(track.played_ms, min(played_ms, track.received_ms))
        self._changed[response_id] = track.report(cut=False)
        self._drop_if_over(track)

    @property
    def silent(self) -> bool:
        """Whether everything that came was heard."""
        return not self._tracks

    def play(self, audio: AudioDelta) -> None:
        """Take the next piece of a response."""
        track = self._tracks.setdefault(audio.response_id, _Timed(audio.response_id, audio.item_id))
        track.received_ms += audio_ms(audio)
        self.output(audio)

    def end(self, response_id: str) -> None:
        """No more audio of this response follows; what is there still plays."""
        track = self._tracks.get(response_id)
        if track is not None:
            track.ended = True
            self._drop_if_over(track)

    def stop(self, response_id: str | None) -> None:
        """Fall silent now and forget what was not heard of a response; None for all of them."""
        for track in list(self._tracks.values()):
            if response_id in (None, track.response_id):
                del self._tracks[track.response_id]
                heard_ms = self.silence(track.response_id)
                if heard_ms is not None:
                    track.played_ms = max(track.played_ms, min(heard_ms, track.received_ms))
                self._changed[track.response_id] = track.report(cut=True)

    def reports(self) -> tuple[PlayedAudio, ...]:
        """How far what was heard of since the last call has come."""
        changed, self._changed = tuple(self._changed.values()), {}
        return changed

    def _drop_if_over(self, track: _Timed) -> None:
        if track.ended and int(track.played_ms) >= int(track.received_ms):
            del self._tracks[track.response_id]
