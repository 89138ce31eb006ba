"""The stage that speaks: a sentence in, its audio out, cut at the ends of words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from duplex_sdk.audio import PcmChunk
from duplex_sdk.stage import (
    Json,
    LoadContext,
    StageInfo,
    StageModel,
    StageOutput,
    StageSession,
    StageUnit,
)

from .routing import REHEARSE, wants_text_only
from .voice import SpokenSentence, Voice

__all__ = ["Speaker", "SpeechStage", "whole_words"]

# The host lets no output hold more than a second.
_MAX_PIECE_MS = 1000.0


@dataclass(slots=True)
class Speaker:
    """What the stage knows of one session.

    Attributes:
        speed: how fast it speaks.
        mute: only the words are wanted. A session's never get here; a request's do.
        begun: this turn has begun.
        rehearsed: a sentence that was spoken ahead, its speed and its speech.
    """

    speed: float
    mute: bool = False
    begun: bool = False
    rehearsed: tuple[str, float, SpokenSentence] | None = None


@dataclass(frozen=True, slots=True)
class _Piece:
    """Part of a sentence: characters and milliseconds from, to; and the words that end inside."""

    characters: tuple[int, int]
    ms: tuple[float, float]
    ends: tuple[tuple[int, float], ...]


class SpeechStage(StageModel[Speaker]):
    """Speaks one sentence per unit.

    So a cancel drops all that was not begun, and no session waits for another's whole answer.
    """

    def __init__(self, voice: Voice | None = None) -> None:
        """``voice``: used instead of loading the package's."""
        self._voice = voice

    def load(self, context: LoadContext) -> StageInfo:
        """Check and load the voice, and let it speak once.

        Raises:
            StageLoadError: the voice is missing or wrong.
        """
        if self._voice is None:
            context.progress(0.0, "checking the voice")
            self._voice = Voice()
        context.progress(1.0, "voice ready")
        return StageInfo(memory_bytes=100 << 20)

    def open(self, session: StageSession) -> Speaker:
        """A session that said nothing yet."""
        return Speaker(_speed(session.config), wants_text_only(session.config))

    def update(self, state: Speaker, session: StageSession) -> None:
        """Take another speed with the next sentence."""
        state.speed = _speed(session.config)
        state.mute = wants_text_only(session.config)

    def cancel(self, state: Speaker, epoch: int, heard_ms: float) -> None:
        """The turn is over; sentences that wait are gone already."""
        state.begun = False

    def step_unit(self, unit: StageUnit[Speaker], now: float) -> Iterable[StageOutput]:
        """Speak a sentence; the last one of a turn ends it."""
        state, final = unit.state, unit.prompt.final
        sentence = (unit.prompt.text or "").strip()
        if REHEARSE in unit.prompt.data:
            state.rehearsed = (sentence, state.speed, self._spoken(sentence, state))
            return []
        outputs: list[StageOutput] = []
        if sentence:
            space = " " if state.begun else ""
            if state.mute:
                outputs.append(unit.output(text=space + sentence, marks=()))
            else:
                spoken = self._spoken(sentence, state)
                outputs.extend(_outputs(unit, space, sentence, spoken))
            state.begun = True
        if final:
            state.begun = False
            state.rehearsed = None
            outputs.append(unit.output(end_of_turn=True))
        return outputs

    def _spoken(self, sentence: str, state: Speaker) -> SpokenSentence:
        if state.rehearsed is not None and state.rehearsed[:2] == (sentence, state.speed):
            return state.rehearsed[2]
        assert self._voice is not None, "load comes first"
        return self._voice.speak(sentence, state.speed)


def _outputs(
    unit: StageUnit[Speaker], space: str, sentence: str, spoken: SpokenSentence
) -> Iterator[StageOutput]:
    if not spoken.word_ends:
        # Nothing in it can be pronounced: it is shown, with no audio to align it to.
        yield unit.output(text=space + sentence, marks=())
        return
    total_ms = len(spoken.samples) * 1000 / Voice.rate
    for piece in _pieces(spoken.word_ends, total_ms):
        first, last = piece.characters
        lead = space if first == 0 else ""
        start, end = (round(ms * Voice.rate / 1000) for ms in piece.ms)
        audio = PcmChunk.of(spoken.samples[start:end], Voice.rate)
        marks = whole_words(
            (len(lead) + character - first, min(ms - piece.ms[0], audio.duration_ms))
            for character, ms in piece.ends
        )
        yield unit.output(
            audio=audio,
            text=(lead + sentence[first:last]) or None,
            # A piece inside a long word shows no text: what was shown ended where it begins.
            marks=marks or ((0, 0.0),),
        )


def whole_words(ends: Iterable[tuple[int, float]]) -> tuple[tuple[int, float], ...]:
    """Marks under which a word counts once it was heard to its end, and no letter of it before.

    Between marks the engine interpolates; a step just before each end keeps it from cutting an
    interrupted answer inside a word.
    """
    marks: list[tuple[int, float]] = []
    before = 0
    for character, at_ms in ends:
        marks += [(before, max(0.0, at_ms - 1)), (character, at_ms)]
        before = character
    return tuple(marks)


def _pieces(word_ends: tuple[tuple[int, float], ...], total_ms: float) -> Iterator[_Piece]:
    """Cut at the last word end within a second, or after a second inside a longer word."""
    start_character, start_ms = 0, 0.0
    ends = list(word_ends)
    while start_ms < total_ms:
        limit = start_ms + _MAX_PIECE_MS
        inside = [end for end in ends if end[1] <= limit]
        ends = ends[len(inside) :]
        end_character = inside[-1][0] if inside else start_character
        end_ms = inside[-1][1] if inside else limit
        if total_ms <= limit:
            end_ms = total_ms
        yield _Piece((start_character, end_character), (start_ms, end_ms), tuple(inside))
        start_character, start_ms = end_character, end_ms


def _speed(config: Mapping[str, Json]) -> float:
    audio = config.get("audio")
    output = audio.get("output") if isinstance(audio, Mapping) else None
    speed = output.get("speed") if isinstance(output, Mapping) else None
    if not isinstance(speed, (int, float)) or isinstance(speed, bool):
        return 1.0
    return min(2.0, max(0.5, float(speed)))
