"""Stage models that break one law each."""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Iterable
from tempfile import TemporaryFile
from typing import Any

import numpy as np
from duplex_sdk.audio import PcmChunk
from duplex_sdk.stage import (
    LoadContext,
    StageInfo,
    StageOutput,
    StagePrompt,
    StageSession,
    ToolCall,
)
from msgspec.structs import replace
from right_plugin import (
    RATE,
    WORD_MS,
    RightBesideModel,
    RightCallingModel,
    RightModel,
    RightNativeModel,
    RightVoiceModel,
    Talk,
    Unit,
    sound,
)

__all__ = [
    "RightBesideModel",
    "RightCallingModel",
    "RightModel",
    "RightNativeModel",
    "RightVoiceModel",
]

TABLE: list[Talk] = []
OVER: list[threading.Event] = []
FILES: list[Any] = []


class DoesNotLoad(RightModel):
    def load(self, context: LoadContext) -> StageInfo:
        return None  # type: ignore[return-value]


class PrefillsForever(RightModel):
    def prefill(self, state: Talk, now: float) -> float | None:
        return 0.0


class AnswersNothing(RightModel):
    def step_unit(self, unit: Unit, now: float) -> Iterable[StageOutput]:
        return ()


class RaisesInAStep(RightModel):
    def step_unit(self, unit: Unit, now: float) -> Iterable[StageOutput]:
        raise RuntimeError("out of memory")


class NeverRests(RightModel):
    def say(self, unit: Unit, word: str) -> StageOutput:
        unit.state.words.append(word)
        return super().say(unit, word)


class Spins(RightModel):
    def step_unit(self, unit: Unit, now: float) -> Iterable[StageOutput]:
        yield unit.output(again_ms=0)


class WrongRate(RightModel):
    def say(self, unit: Unit, word: str) -> StageOutput:
        said = super().say(unit, word)
        assert said.audio is not None
        return replace(said, audio=PcmChunk(said.audio.data, RATE * 2))


class NoNumbers(RightModel):
    def say(self, unit: Unit, word: str) -> StageOutput:
        return replace(
            super().say(unit, word), audio=PcmChunk.of(np.full(RATE // 10, np.nan), RATE)
        )


class TooLoud(RightModel):
    def say(self, unit: Unit, word: str) -> StageOutput:
        loud = np.full(RATE // 10, 9000.0, np.float32)
        return replace(super().say(unit, word), audio=PcmChunk(loud.tobytes(), RATE))


class SendsEverythingTwice(RightModel):
    def step_unit(self, unit: Unit, now: float) -> Iterable[StageOutput]:
        for output in super().step_unit(unit, now):
            yield output
            yield output


class RepeatsItsText(RightModel):
    def say(self, unit: Unit, word: str) -> StageOutput:
        so_far: list[str] = unit.state.__dict__.setdefault("so_far", [])
        so_far.append(word)
        return replace(super().say(unit, word), text="".join(so_far), marks=())


class RepeatsItsAudio(RightModel):
    def say(self, unit: Unit, word: str) -> StageOutput:
        said = super().say(unit, word)
        assert said.audio is not None
        so_far: list[PcmChunk] = unit.state.__dict__.setdefault("so_far", [])
        so_far.append(said.audio)
        return replace(said, audio=PcmChunk.join(so_far))


class EndsTwice(RightModel):
    def step_unit(self, unit: Unit, now: float) -> Iterable[StageOutput]:
        for output in super().step_unit(unit, now):
            yield output
            if output.end_of_turn:
                yield unit.output(end_of_turn=True)


class TalksAfterTheEnd(RightModel):
    def say(self, unit: Unit, word: str) -> StageOutput:
        return replace(super().say(unit, word), end_of_turn=len(unit.state.words) == 1)


class MarksTheWholeAnswer(RightModel):
    def say(self, unit: Unit, word: str) -> StageOutput:
        return replace(super().say(unit, word), marks=((len(word) + 40, WORD_MS),))


class NeedsHalfASecond(RightModel):
    def step_unit(self, unit: Unit, now: float) -> Iterable[StageOutput]:
        audio = unit.prompt.audio
        if audio is not None and audio.duration_ms < 500:
            raise IndexError("no frame in this turn")
        return super().step_unit(unit, now)


class CannotRead(RightModel):
    def reply(self, talk: Talk, prompt: StagePrompt, length: str) -> list[str]:
        return [] if prompt.kind == "conversation" else super().reply(talk, prompt, length)


class RefusesUpdates(RightModel):
    def update(self, state: Talk, session: StageSession) -> None:
        raise NotImplementedError("instructions cannot change")


class TakesItsTime(RightModel):
    def step_unit(self, unit: Unit, now: float) -> Iterable[StageOutput]:
        time.sleep(0.01)
        return super().step_unit(unit, now)


class AlwaysAnswers(RightModel):
    def step_unit(self, unit: Unit, now: float) -> Iterable[StageOutput]:
        wished = replace(unit, prompt=replace(unit.prompt, respond=True))
        return super().step_unit(wished, now)


class KeepsDiscardedInput(RightModel):
    def step_unit(self, unit: Unit, now: float) -> Iterable[StageOutput]:
        return () if unit.prompt.kind == "discard" else super().step_unit(unit, now)


class RollsDice(RightModel):
    def reply(self, talk: Talk, prompt: StagePrompt, length: str) -> list[str]:
        return [str(random.SystemRandom().random()), " ", "or ", "so"]


class ReadsTheClock(RightModel):
    def reply(self, talk: Talk, prompt: StagePrompt, length: str) -> list[str]:
        return [f"It is {time.monotonic_ns()}"]


class CountsItsTurns(RightModel):
    turns = 0

    def reply(self, talk: Talk, prompt: StagePrompt, length: str) -> list[str]:
        self.turns += 1
        return [f"turn {self.turns}"]


class MixesSessions(RightModel):
    """The words belong to the model, so whoever is stepped next says them."""

    def open(self, session: StageSession) -> Talk:
        self.words: deque[str] = deque()
        return super().open(session)

    def step_unit(self, unit: Unit, now: float) -> Iterable[StageOutput]:
        unit.state.words = self.words
        return super().step_unit(unit, now)


class AddsTheBatch(RightModel):
    """A batch is padded to its longest input, and the padding is heard."""

    def step(self, units: Any, now: float) -> Iterable[StageOutput]:
        longest = max((u.prompt.audio.duration_ms for u in units if u.prompt.audio), default=0)
        for unit in units:
            if unit.prompt.audio is not None:
                unit.state.heard_ms = longest - unit.prompt.audio.duration_ms
            yield from super().step_unit(unit, now)


class IgnoresCancel(RightModel):
    def cancel(self, state: Talk, epoch: int, heard_ms: float) -> None:
        pass


class TalksOnAfterACancel(RightNativeModel):
    def cancel(self, state: Talk, epoch: int, heard_ms: float) -> None:
        pass


class MixesUnits(RightNativeModel):
    last_heard_ms = 0.0

    def step_unit(self, unit: Unit, now: float) -> Iterable[StageOutput]:
        if unit.prompt.is_speech:
            self.last_heard_ms = unit.state.heard_ms + WORD_MS
        return super().step_unit(unit, now)

    def reply(self, talk: Talk, prompt: StagePrompt, length: str) -> list[str]:
        return super().reply(talk, prompt, f"{self.last_heard_ms:.0f} ms")


class DiesOfACancel(RightModel):
    def cancel(self, state: Talk, epoch: int, heard_ms: float) -> None:
        del state.words


class RaisesInCancel(RightModel):
    def cancel(self, state: Talk, epoch: int, heard_ms: float) -> None:
        raise RuntimeError("nothing to cancel")


class RaisesInClose(RightModel):
    def close(self, state: Talk) -> None:
        raise KeyError("no such row")


class ClosesTheWrongRow(RightModel):
    closed = False

    def close(self, state: Talk) -> None:
        self.closed = True

    def step_unit(self, unit: Unit, now: float) -> Iterable[StageOutput]:
        if self.closed:
            raise RuntimeError("the cache is gone")
        return super().step_unit(unit, now)


class LeaksAfterClose(RightModel):
    def load(self, context: LoadContext) -> StageInfo:
        self.by_session: dict[str, Talk] = {}
        return super().load(context)

    def open(self, session: StageSession) -> Talk:
        self.by_session[session.session_id] = super().open(session)
        return self.by_session[session.session_id]


class KeepsStates(RightModel):
    def open(self, session: StageSession) -> Talk:
        talk = super().open(session)
        TABLE.append(talk)
        return talk


class ThreeRows(RightModel):
    """Keeps every law, and has no room for a session that the kit forgot to close."""

    def load(self, context: LoadContext) -> StageInfo:
        self.taken = 0
        return StageInfo(max_sessions=3)

    def open(self, session: StageSession) -> Talk:
        if self.taken == 3:
            raise RuntimeError("all rows are taken")
        self.taken += 1
        return super().open(session)

    def close(self, state: Talk) -> None:
        self.taken -= 1


class LeavesThreads(RightModel):
    def open(self, session: StageSession) -> Talk:
        over = threading.Event()
        OVER.append(over)
        threading.Thread(target=over.wait, daemon=True).start()
        return super().open(session)


class LeavesFiles(RightModel):
    def open(self, session: StageSession) -> Talk:
        FILES.append(TemporaryFile())  # noqa: SIM115 -- that is what is wrong
        return super().open(session)


class ForgetsAtAnUpdate(RightModel):
    def update(self, state: Talk, session: StageSession) -> None:
        state.words.clear()
        state.heard_ms = 0.0


class HearsTwice(RightModel):
    def step_unit(self, unit: Unit, now: float) -> Iterable[StageOutput]:
        for output in super().step_unit(unit, now):
            yield output
            if output.user_text_final:
                yield unit.output(user_text=output.user_text, user_text_final=True)


class HearsFromTheBeginning(RightModel):
    """Each piece of what it heard holds all pieces before it, as a recogniser tells them."""

    def step_unit(self, unit: Unit, now: float) -> Iterable[StageOutput]:
        if unit.prompt.audio is not None:
            heard = unit.state.__dict__["heard"] = unit.state.__dict__.get("heard", "") + "so "
            yield unit.output(user_text=heard)
        yield from super().step_unit(unit, now)


class NeedsAConversation(RightModel):
    """Answers only who was there before."""

    def reply(self, talk: Talk, prompt: StagePrompt, length: str) -> list[str]:
        assert not (prompt.final and prompt.messages), "this session has no history"
        return super().reply(talk, prompt, length)


class NeverFallsSilent(RightNativeModel):
    """Leaves it to its listener to find out that it has said all."""

    def step_unit(self, unit: Unit, now: float) -> Iterable[StageOutput]:
        for output in super().step_unit(unit, now):
            yield replace(output, listen=False, end_of_turn=False)


class SkipsLateWords(RightModel):
    """Keeps in time by leaving out what should have been said by now."""

    def step_unit(self, unit: Unit, now: float) -> Iterable[StageOutput]:
        last = unit.state.__dict__.get("last", now)
        unit.state.__dict__["last"] = now
        if unit.prompt.kind == "tick" and now - last > 0.15 and len(unit.state.words) > 1:
            unit.state.words.popleft()
        return super().step_unit(unit, now)


class ChokesOnPictures(RightModel):
    def step_unit(self, unit: Unit, now: float) -> Iterable[StageOutput]:
        if unit.prompt.images:
            raise NotImplementedError("no vision tower in this checkpoint")
        return super().step_unit(unit, now)


class ReadsWordsOnly(RightModel):
    def step_unit(self, unit: Unit, now: float) -> Iterable[StageOutput]:
        for message in unit.prompt.messages:
            for part in message["content"]:
                assert part["type"] == "text", "no vision tower in this checkpoint"
        return super().step_unit(unit, now)


class SaysAllInOneLine(RightModel):
    """What it still has to say is one line, whoever asked for it."""


class NeedsResidue(RightModel):
    def step_unit(self, unit: Unit, now: float) -> Iterable[StageOutput]:
        if unit.prompt.final:
            assert unit.prompt.audio is not None
        return super().step_unit(unit, now)


class ChokesOnPadding(RightModel):
    def step_unit(self, unit: Unit, now: float) -> Iterable[StageOutput]:
        assert not unit.prompt.padding, "half a unit"
        return super().step_unit(unit, now)


class HandsOutTensors(RightModel):
    def say(self, unit: Unit, word: str) -> StageOutput:
        return replace(super().say(unit, word), data={"hidden": np.zeros(3)})  # type: ignore[dict-item]


class DiesOfALateCancel(RightModel):
    def cancel(self, state: Talk, epoch: int, heard_ms: float) -> None:
        state.words.pop()
        super().cancel(state, epoch, heard_ms)


class DiesOfASecondCancel(RightModel):
    def cancel(self, state: Talk, epoch: int, heard_ms: float) -> None:
        state.__dict__["stopped"] = state.__dict__.get("stopped", 0) + 1
        assert state.__dict__["stopped"] < 2, "the stream was closed by the first cancel"
        super().cancel(state, epoch, heard_ms)


class ClosesOnlyWhatSpoke(RightModel):
    def step_unit(self, unit: Unit, now: float) -> Iterable[StageOutput]:
        unit.state.__dict__["stream"] = True
        return super().step_unit(unit, now)

    def close(self, state: Talk) -> None:
        del state.__dict__["stream"]


class HasThreeRows(RightModel):
    """Does not say when it loads that it has no more."""

    def load(self, context: LoadContext) -> StageInfo:
        self.taken = 0
        return StageInfo()

    def open(self, session: StageSession) -> Talk:
        if self.taken == 3:
            raise RuntimeError("all rows are taken")
        self.taken += 1
        return super().open(session)

    def close(self, state: Talk) -> None:
        self.taken -= 1


class OneAtATime(RightModel):
    """While it answers one session another one fails."""

    talking = ""

    def step_unit(self, unit: Unit, now: float) -> Iterable[StageOutput]:
        assert self.talking in ("", unit.session_id), "the generator is already running"
        self.talking = unit.session_id
        yield from super().step_unit(unit, now)
        if not unit.state.words:
            self.talking = ""


class Pours(RightModel):
    """Hands out ten minutes of speech before anybody could hear the first."""

    def reply(self, talk: Talk, prompt: StagePrompt, length: str) -> list[str]:
        return [length] * 6000

    def say(self, unit: Unit, word: str) -> StageOutput:
        left = bool(unit.state.words)
        return unit.output(audio=sound(word), end_of_turn=not left, again_ms=0 if left else None)


class GivesUpOnSilence(RightModel):
    def step_unit(self, unit: Unit, now: float) -> Iterable[StageOutput]:
        last = unit.state.__dict__.get("last", now)
        unit.state.__dict__["last"] = now
        if now - last > 11:
            raise TimeoutError("the caller has hung up")
        return super().step_unit(unit, now)


class NeverCalls(RightCallingModel):
    def calls(self, talk: Talk) -> bool:
        return False


class IgnoresToolResults(RightCallingModel):
    def step_unit(self, unit: Unit, now: float) -> Iterable[StageOutput]:
        if unit.prompt.data.get("results"):
            return ()
        return super().step_unit(unit, now)


class CallsWhatNobodyDeclared(RightCallingModel):
    def call(self, talk: Talk) -> ToolCall:
        return replace(super().call(talk), name="format_disk")


class CallsInPython(RightCallingModel):
    def call(self, talk: Talk) -> ToolCall:
        return replace(super().call(talk), arguments="{'place': 'here'}")


class CallsUnderOneId(RightCallingModel):
    def calls(self, talk: Talk) -> bool:
        return True

    def call(self, talk: Talk) -> ToolCall:
        return replace(super().call(talk), call_id="call_0")


class VoiceIgnoresCancel(RightVoiceModel):
    def cancel(self, state: Talk, epoch: int, heard_ms: float) -> None:
        pass


class VoiceDiesOfACancel(RightVoiceModel):
    def cancel(self, state: Talk, epoch: int, heard_ms: float) -> None:
        del state.words


class RaisesInUnload(RightModel):
    def unload(self) -> None:
        raise RuntimeError("already freed")
