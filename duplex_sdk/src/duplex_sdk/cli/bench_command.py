"""Runs a benchmark from its options to its table."""

from __future__ import annotations

import asyncio
import json
import platform
from contextlib import AsyncExitStack
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from duplex_sdk.audio import PcmChunk, float_to_pcm16
from duplex_sdk.clients import DuplexClient

from .bench_caller import Caller, Timings
from .server_process import ServerProcess
from .talk_audio import load_pcm16

__all__ = ["BenchOptions", "run_bench"]

TONE_RATE_HZ = 16_000
TONE_S = 1.0
REAL_TIME_MS = 20.0
"""A step is carried in real time when 99 of 100 round trips stay below this, and none fails."""
OWN_LATENESS_MS = 20.0


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """What `duplex bench` was told.

    Attributes:
        url: the server; None starts one.
        sessions: how many talk at the same time, per step.
        seconds: length of a step.
        wav: what is said; None for a tone.
        json: where the figures go, too.
        api_key: the server's key.
        plugin: of the server that is started; None takes its default.
    """

    url: str | None
    sessions: tuple[int, ...]
    seconds: float
    wav: Path | None
    json: Path | None
    api_key: str | None
    plugin: str | None


@dataclass(frozen=True, slots=True)
class Step:
    """One number of sessions, and what came of it."""

    sessions: int
    timings: Timings

    @property
    def in_real_time(self) -> bool:
        """Whether the server kept up with everybody."""
        figures = self.timings
        return (
            bool(figures.round_trip)
            and not figures.failures
            and percentile(figures.round_trip, 99) <= REAL_TIME_MS
        )

    @property
    def trustworthy(self) -> bool:
        """Whether this process kept up itself: else it measures its own weakness."""
        late = self.timings.lateness
        return not late or percentile(late, 99) <= OWN_LATENESS_MS


def run_bench(options: BenchOptions) -> bool:
    """Measure and show; True when at least one step was carried in real time.

    Raises:
        DuplexError: there is no server, or no recording.
    """
    console = Console()
    if not console.is_terminal:
        console = Console(width=140)
    return asyncio.run(_bench(options, console))


def percentile(values: list[float], share: float) -> float:
    """The value below which ``share`` percent of ``values`` lie; NaN of none."""
    return float(np.percentile(values, share)) if values else float("nan")


async def _bench(options: BenchOptions, console: Console) -> bool:
    speech, rate = load_pcm16(options.wav) if options.wav is not None else _tone()
    async with AsyncExitStack() as stack:
        url = options.url or await _start_server(options, stack, console)
        steps = []
        for sessions in options.sessions:
            with console.status(f"{sessions} sessions for {options.seconds:g} s ..."):
                steps.append(await _measure(url, sessions, speech, rate, options))
            if not steps[-1].timings.opening:
                await _say_why_nobody_got_in(url, options)
    _show(console, url, steps)
    if options.json is not None:
        _write(options.json, url, steps, options)
        console.print(f"JSON: {options.json}")
    return any(step.in_real_time for step in steps)


async def _start_server(options: BenchOptions, stack: AsyncExitStack, console: Console) -> str:
    plugin = ("--plugin", options.plugin) if options.plugin else ()
    room = ("--max-sessions", str(max(options.sessions)))
    with console.status("starting a server ..."):
        server = await stack.enter_async_context(ServerProcess(*plugin, *room))
    return server.url


async def _say_why_nobody_got_in(url: str, options: BenchOptions) -> None:
    """Knock once more: a table of nothing would not say that there is no server.

    Raises:
        ClientError: what keeps callers out.
    """
    async with DuplexClient(url, api_key=options.api_key):
        pass


async def _measure(
    url: str, sessions: int, speech: bytes, rate: int, options: BenchOptions
) -> Step:
    timings = Timings()
    session = {
        "audio": {"input": {"format": {"type": "audio/pcm", "rate": rate}}},
        "turn_detection": None,
    }
    callers = [
        Caller(
            DuplexClient(url, session, api_key=options.api_key, trace_size=0), speech, rate, timings
        )
        for _ in range(sessions)
    ]
    async with asyncio.TaskGroup() as tasks:
        for caller in callers:
            tasks.create_task(caller.run(options.seconds))
            # Not in step: real callers do not begin to speak all at the same moment.
            await asyncio.sleep(min(0.05, 1.0 / sessions))
    return Step(sessions, timings)


def _show(console: Console, url: str, steps: list[Step]) -> None:
    table = Table(title=f"{url}, times in ms", title_justify="left", title_style="bold")
    for column in ("sessions", "turns", "opening", "round trip", "first audio", "cancel"):
        table.add_column(column, justify="right")
    table.add_column("audio after the end", justify="right")
    table.add_column("")
    for step in steps:
        figures = step.timings
        table.add_row(
            str(step.sessions),
            str(figures.turns),
            _p50_and_p99(figures.opening),
            _p50_and_p99(figures.round_trip),
            _p50_and_p99(figures.first_audio),
            _p50_and_p99(figures.cancel),
            str(figures.late_audio),
            _verdict(step),
        )
    console.print(table)
    console.print("[dim]each: median / 99 % below. Both ends share this machine's cores.[/dim]")
    carried = [step.sessions for step in steps if step.in_real_time]
    if carried:
        console.print(f"in real time: {max(carried)} sessions")


def _p50_and_p99(values: list[float]) -> str:
    if not values:
        return "-"
    return f"{percentile(values, 50):.1f} / {percentile(values, 99):.1f}"


def _verdict(step: Step) -> str:
    if step.timings.failures:
        failed = ", ".join(f"{n} x {what}" for what, n in step.timings.failures.most_common())
        return f"[red]{failed}[/red]"
    if not step.trustworthy:
        return "[yellow]this side was too slow to tell[/yellow]"
    return "[green]in real time[/green]" if step.in_real_time else "[red]too slow[/red]"


def _write(path: Path, url: str, steps: list[Step], options: BenchOptions) -> None:
    content: dict[str, Any] = {
        "url": url,
        "python": platform.python_version(),
        "machine": platform.platform(),
        "seconds": options.seconds,
        "steps": [
            {
                "sessions": step.sessions,
                "in_real_time": step.in_real_time,
                "trustworthy": step.trustworthy,
                **{f.name: _summary(getattr(step.timings, f.name)) for f in fields(step.timings)},
            }
            for step in steps
        ],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n")


def _summary(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    shares = {"p50": 50, "p95": 95, "p99": 99}
    return {"n": len(value)} | (
        {name: percentile(value, share) for name, share in shares.items()} if value else {}
    )


def _tone() -> tuple[bytes, int]:
    time = np.arange(int(TONE_RATE_HZ * TONE_S), dtype=np.float32) / TONE_RATE_HZ
    wave = 0.3 * np.sin(2 * np.pi * 220 * time, dtype=np.float32)
    return float_to_pcm16(PcmChunk.of(wave, TONE_RATE_HZ).numpy()), TONE_RATE_HZ
