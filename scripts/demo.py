"""`make demo`: a conversation with the local plugin in three acts, checked by ear.

A synthetic voice asks a question, a recorded person reads a passage, and the story that is told
next is interrupted. The answers go to a WAV, which is then recognised to see that they can be
understood. Exit code 0 when all of it went as it should.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from duplex_plugin_local.moonshine import Moonshine
from duplex_plugin_local.numerals import comparable
from duplex_plugin_local.recordings import TWO_CITIES_TEXT, two_cities
from duplex_plugin_local.speech import say
from duplex_sdk.audio import PcmChunk, float_to_pcm16, read_wav, resample
from duplex_sdk.cli.server_process import ServerProcess
from duplex_sdk.cli.talk_audio import RecordedSpeech, Recorder
from duplex_sdk.cli.talk_screen import show_talk
from duplex_sdk.cli.talk_session import TalkSession
from duplex_sdk.clients import DuplexClient
from duplex_sdk.errors import DuplexError
from numpy.typing import NDArray
from rich.console import Console

RATE_HZ = 16_000
OUT = Path("out/demo.wav")
QUESTION = "What is seven plus five?"
REQUEST = "Tell me a story, please."
INTERRUPTION = "Stop. That is quite enough for me, thank you."
PASSAGE_S = 9.0
# A person who reads pauses longer than one who asks.
READING_PAUSE_MS = 1200
INTERRUPT_AFTER_MS = 2500
ANSWER_TIMEOUT_S = 20.0
SILENT_WITHIN_S = 3.0
QUIET_S = 0.6
ENOUGH_WORDS = 0.8


@dataclass(frozen=True, slots=True)
class Check:
    """Something the demo promises."""

    promise: str
    kept: bool
    detail: str = ""


async def main(console: Console) -> bool:
    """Play the three acts and check them; True when every promise was kept."""
    console.print("[bold]duplex demo[/bold]: a question, a reading, and an interruption\n")
    passage = recorded_passage()
    recorder = Recorder()
    async with ServerProcess("--plugin", "local") as server:
        console.print(f"[dim]server at {server.url}[/dim]")
        async with DuplexClient(server.url) as client:
            source = RecordedSpeech(RATE_HZ)
            talk = TalkSession(client, source, recorder)
            async with show_talk(talk, console), asyncio.TaskGroup() as tasks:
                tasks.create_task(talk.run())
                silenced_s = await three_acts(client, talk, source, passage)
                source.close()
    recorder.save(OUT)
    checks = [*heard_well(talk), *answered_well(talk, silenced_s), understood(talk)]
    report(console, talk, checks)
    return all(check.kept for check in checks)


async def three_acts(
    client: DuplexClient, talk: TalkSession, source: RecordedSpeech, passage: bytes
) -> float:
    """Ask, read, interrupt. Returns the seconds from the interruption to silence."""
    await source.say(spoken(QUESTION))
    await answer_to(talk, 1)
    await talk.quiet_for(QUIET_S)

    turn_detection = {"silence_duration_ms": READING_PAUSE_MS}
    await client.update({"audio": {"input": {"turn_detection": turn_detection}}})
    await source.say(passage)
    await answer_to(talk, 2)
    await talk.quiet_for(QUIET_S)
    await client.update({"audio": {"input": {"turn_detection": {"silence_duration_ms": 350}}}})

    await source.say(spoken(REQUEST))
    await answer_to(talk, 3)
    told_from = talk.played_ms
    await talk.until(lambda: talk.played_ms >= told_from + INTERRUPT_AFTER_MS)
    silenced_s = await interrupt(talk, source)
    await talk.quiet_for(QUIET_S)
    return silenced_s


async def answer_to(talk: TalkSession, turns: int) -> None:
    """Wait until the answer to so many turns is heard."""
    async with asyncio.timeout(ANSWER_TIMEOUT_S):
        await talk.until(lambda: len(talk.dialogue.latencies_ms) >= turns)


async def interrupt(talk: TalkSession, source: RecordedSpeech) -> float:
    """Speak over the story. Returns the seconds until it fell silent."""
    loop = asyncio.get_running_loop()
    start = loop.time()
    saying = asyncio.create_task(source.say(spoken(INTERRUPTION)))
    try:
        async with asyncio.timeout(SILENT_WITHIN_S):
            await talk.until(lambda: talk.dialogue.interruptions > 0)
    except TimeoutError:
        pass  # the checks report it
    silent = loop.time() - start
    await saying
    await answer_to(talk, 4)
    return silent


def spoken(text: str) -> bytes:
    """PCM16 of a sentence, at the rate the demo speaks in."""
    samples, rate = say(text)
    return float_to_pcm16(resample(PcmChunk.of(samples, rate), RATE_HZ).numpy())


def recorded_passage() -> bytes:
    """The beginning of the recording, up to a pause between two words."""
    recording = resample(read_wav(two_cities()), RATE_HZ).numpy()
    return float_to_pcm16(recording[: quiet_point(recording, PASSAGE_S)])


def quiet_point(samples: NDArray[np.float32], about_s: float) -> int:
    """Where it is quietest within a second of ``about_s``."""
    frame = RATE_HZ // 20
    first = int((about_s - 1) * RATE_HZ) // frame
    frames = samples[first * frame : (first + 40) * frame].reshape(-1, frame)
    return int((first + int(np.square(frames).mean(axis=1).argmin())) * frame + frame // 2)


def heard_well(talk: TalkSession) -> list[Check]:
    """Whether the question and the reading were recognised."""
    heard = " ".join(talk.dialogue.said_by("you"))
    asked = recall(QUESTION, heard)
    passage = [line for line in talk.dialogue.said_by("you") if len(comparable(line)) > 12]
    read = precision(" ".join(passage), TWO_CITIES_TEXT)
    return [
        Check("the question was recognised", asked >= ENOUGH_WORDS, f"{asked:.0%} of its words"),
        Check("the reading was recognised", read >= ENOUGH_WORDS, f"{read:.0%} right"),
    ]


def answered_well(talk: TalkSession, silenced_s: float) -> list[Check]:
    """Whether there was an answer, and one that could be interrupted."""
    answers = " ".join(talk.dialogue.said_by("model"))
    cut = talk.dialogue.interruptions
    return [
        Check("the sum is right", "12" in comparable(answers), ""),
        Check(
            "speech over the story stopped it",
            cut == 1 and silenced_s < SILENT_WITHIN_S,
            f"{silenced_s:.2f} s after the first word",
        ),
    ]


def understood(talk: TalkSession) -> Check:
    """Whether the recorded answers, recognised, give back their words."""
    complete = (
        line.text
        for line in talk.dialogue.lines
        if line.speaker == "model" and not line.interrupted
    )
    share = recall(" ".join(complete), recognised(OUT))
    return Check(f"{OUT} says what was answered", share >= ENOUGH_WORDS, f"{share:.0%} recognised")


def recognised(path: Path) -> str:
    """What the recogniser hears in a recording, phrase by phrase."""
    samples = resample(read_wav(path), RATE_HZ).numpy()
    recogniser = Moonshine()
    return " ".join(recogniser.transcribe(phrase) for phrase in phrases(samples))


def phrases(samples: NDArray[np.float32]) -> list[NDArray[np.float32]]:
    """The stretches between silences of a fifth of a second and more."""
    frame, gap = RATE_HZ // 50, 10
    loud = np.abs(samples[: len(samples) // frame * frame]).reshape(-1, frame).max(axis=1) > 0.01
    found: list[NDArray[np.float32]] = []
    start, quiet = None, 0
    for index, is_loud in enumerate([*loud, *[False] * gap]):
        if is_loud:
            start, quiet = index if start is None else start, 0
            continue
        quiet += 1
        if start is not None and quiet >= gap:
            found.append(samples[max(0, start - 3) * frame : (index - gap + 4) * frame])
            start = None
    return found


def recall(wanted: str, found: str) -> float:
    """Which share of the wanted words was found."""
    expected = Counter(comparable(wanted))
    return (expected & Counter(comparable(found))).total() / max(1, expected.total())


def precision(found: str, truth: str) -> float:
    """Which share of the found words is true."""
    return recall(found, truth) if found else 0.0


def report(console: Console, talk: TalkSession, checks: list[Check]) -> None:
    """Say what happened, and which promises were kept."""
    shown = ", ".join(f"{ms:.0f}" for ms in talk.dialogue.latencies_ms)
    console.print(f"\nend of speech to first audio: {shown} ms")
    console.print(f"the answers, as they were heard: {OUT.resolve()}\n")
    for check in checks:
        mark = "[green]yes[/green]" if check.kept else "[red]NO [/red]"
        console.print(
            f"  {mark}  {check.promise}" + (f"  ({check.detail})" if check.detail else "")
        )


if __name__ == "__main__":
    terminal = Console()
    try:
        sys.exit(0 if asyncio.run(main(terminal)) else 1)
    except DuplexError as problem:
        terminal.print(f"[red]error:[/red] {problem}")
        if problem.hint:
            terminal.print(f"hint: {problem.hint}")
        sys.exit(1)
