"""What was said by whom, and how long the answers took, read from a session's events."""

from __future__ import annotations

from dataclasses import dataclass, field

from duplex_sdk.clients import ConnectionLost, ConnectionResumed
from duplex_sdk.protocol.duplex import (
    AudioDelta,
    DuplexEvent,
    ErrorEvent,
    InputTranscriptionCompleted,
    InputTranscriptionDelta,
    OutputAudioCleared,
    ResponseCreated,
    ResponseDone,
    SpeechStarted,
    TextDelta,
    TranscriptDelta,
)

__all__ = ["Dialogue", "Line"]

_STILL_SPEAKING_S = 0.1


@dataclass(slots=True)
class Line:
    """One utterance.

    Attributes:
        speaker: ``you``, ``model`` or ``error``.
        text: its words so far.
        final: nothing will be added.
        latency_ms: from the end of your speech to the first audio of this answer; None where
            there is nothing to measure.
        interrupted: it was cut short.
    """

    speaker: str
    text: str = ""
    final: bool = False
    latency_ms: float | None = None
    interrupted: bool = False


@dataclass(slots=True)
class Dialogue:
    """The conversation so far. Feed it every event with the time of its arrival in seconds.

    Attributes:
        lines: in the order in which they began.
        end_of_speech: when you last made a sound; set by whoever watches the input.
    """

    lines: list[Line] = field(default_factory=list)
    end_of_speech: float | None = None
    _yours: dict[str, Line] = field(default_factory=dict)
    _answers: dict[str, Line] = field(default_factory=dict)

    @property
    def latencies_ms(self) -> tuple[float, ...]:
        """Every measured answer time, in order."""
        return tuple(line.latency_ms for line in self.lines if line.latency_ms is not None)

    @property
    def answering(self) -> bool:
        """Whether a response is being generated."""
        return any(not line.final for line in self._answers.values())

    @property
    def interruptions(self) -> int:
        """How many answers were cut short."""
        return sum(line.interrupted for line in self.lines)

    def said_by(self, speaker: str) -> tuple[str, ...]:
        """What one side said, utterance by utterance."""
        return tuple(line.text for line in self.lines if line.speaker == speaker and line.text)

    def feed(self, event: DuplexEvent, now: float) -> None:
        """Note an event that arrived at ``now``."""
        match event:
            case SpeechStarted():
                self._your_line(event.item_id)
            case InputTranscriptionDelta():
                self._your_line(event.item_id).text += event.delta
            case InputTranscriptionCompleted():
                line = self._your_line(event.item_id)
                line.text, line.final = event.transcript, True
            case ResponseCreated():
                self._answers[event.response_id] = self._add(Line("model"))
            case TranscriptDelta() | TextDelta():
                if (answer := self._answers.get(event.response_id)) is not None:
                    answer.text += event.delta
            case AudioDelta():
                self._first_audio(event, now)
            case ResponseDone():
                self._answered(event)
            case OutputAudioCleared():
                self._silenced(event)
            case ErrorEvent():
                self._add(Line("error", f"{event.error.code}: {event.error.message}", final=True))
            case ConnectionLost():
                self._add(Line("error", f"{event.reason}; coming back", final=True))
            case ConnectionResumed():
                self._add(Line("error", f"back after {event.outage_s:.1f} s", final=True))
            case _:
                pass

    def _add(self, line: Line) -> Line:
        self.lines.append(line)
        return line

    def _your_line(self, item_id: str) -> Line:
        if item_id not in self._yours:
            self._yours[item_id] = self._add(Line("you"))
        return self._yours[item_id]

    def _first_audio(self, event: AudioDelta, now: float) -> None:
        line = self._answers.get(event.response_id)
        if line is None or line.latency_ms is not None or self.end_of_speech is None:
            return
        waited_s = now - self.end_of_speech
        # Sound that recent is speech going on: the answer is to an earlier pause; nobody waited.
        if waited_s >= _STILL_SPEAKING_S:
            line.latency_ms = waited_s * 1000
            # One end of speech is answered once: what follows unasked has no latency.
            self.end_of_speech = None

    def _answered(self, event: ResponseDone) -> None:
        line = self._answers.get(event.response_id)
        if line is not None:
            line.final = True
            line.interrupted = event.response.status == "cancelled"

    def _silenced(self, event: OutputAudioCleared) -> None:
        line = self._answers.get(event.response_id or "")
        if line is not None:
            line.interrupted = True
