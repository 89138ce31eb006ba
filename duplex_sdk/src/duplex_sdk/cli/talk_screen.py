"""The picture of a talk in a terminal: both levels, both transcripts, the answer times."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from .talk_dialogue import Dialogue, Line
from .talk_session import TalkSession

__all__ = ["show_talk", "styled_line"]

REFRESH_PER_SECOND = 10
METER_WIDTH = 24
_STYLES = {"you": "cyan", "model": "green", "error": "red"}
_SHOWN_LINES = 12


@asynccontextmanager
async def show_talk(talk: TalkSession, console: Console) -> AsyncIterator[None]:
    """Show the talk while the block runs; where there is no terminal, print lines as they end."""
    if not console.is_terminal:
        printer = _Printer(talk.dialogue, console)
        talk.on_change(printer.print_new)
        yield
        printer.print_rest()
        return
    with Live(console=console, refresh_per_second=REFRESH_PER_SECOND, transient=True) as live:
        painter = asyncio.create_task(_paint(talk, live))
        try:
            yield
        finally:
            painter.cancel()
    for line in talk.dialogue.lines:
        console.print(styled_line(line))


def styled_line(line: Line) -> Text:
    """One utterance as a line of text."""
    text = Text(f"{line.speaker:>5}  ", style=f"bold {_STYLES[line.speaker]}")
    text.append(line.text or "...", style="" if line.final else "dim")
    if line.interrupted:
        text.append("  -- interrupted", style="yellow")
    if line.latency_ms is not None:
        text.append(f"  ({line.latency_ms:.0f} ms)", style="dim")
    return text


async def _paint(talk: TalkSession, live: Live) -> None:
    while True:
        live.update(_picture(talk))
        await asyncio.sleep(1 / REFRESH_PER_SECOND)


def _picture(talk: TalkSession) -> RenderableType:
    meters = Text.assemble(
        ("you   ", "cyan"), _meter(talk.input_level.level), "\n",
        ("model ", "green"), _meter(talk.output_level.level),
    )  # fmt: skip
    lines = [styled_line(line) for line in talk.dialogue.lines[-_SHOWN_LINES:]]
    return Group(meters, *lines)


def _meter(level: float) -> str:
    filled = round(min(1.0, level) * METER_WIDTH)
    return "█" * filled + "·" * (METER_WIDTH - filled)


class _Printer:
    def __init__(self, dialogue: Dialogue, console: Console) -> None:
        self._dialogue = dialogue
        self._console = console
        self._printed = 0
        self._interruptions = 0

    def print_new(self) -> None:
        """Print the lines that ended, up to the first that did not."""
        while self._printed < len(self._dialogue.lines):
            line = self._dialogue.lines[self._printed]
            if not line.final:
                break
            self._print(line)
        self._print_interruptions()

    def print_rest(self) -> None:
        """Print what is left, ended or not."""
        for line in self._dialogue.lines[self._printed :]:
            self._print(line)

    def _print(self, line: Line) -> None:
        self._console.print(styled_line(line), soft_wrap=True)
        self._printed += 1
        self._interruptions += line.interrupted

    def _print_interruptions(self) -> None:
        # Speech is made faster than it is heard: a line can be complete, and printed, long before
        # somebody speaks over it.
        shown = self._dialogue.lines[: self._printed]
        interrupted = sum(line.interrupted for line in shown)
        if interrupted > self._interruptions:
            self._interruptions = interrupted
            self._console.print(Text("       -- interrupted", style="yellow"))
