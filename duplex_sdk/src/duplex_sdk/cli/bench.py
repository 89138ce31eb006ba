"""`duplex bench`: how many sessions a server carries in real time, and how quick it is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("bench")(bench)


def bench(
    url: Annotated[
        str | None,
        typer.Argument(help="Server, as ws://HOST:PORT; without it one is started."),
    ] = None,
    sessions: Annotated[
        str, typer.Option(help="How many talk at the same time: one step per number.")
    ] = "1,4,16",
    seconds: Annotated[float, typer.Option(help="Length of each step.")] = 10.0,
    wav: Annotated[
        Path | None,
        typer.Option(help="What is said, for models that want speech; a tone without it."),
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Write the figures there too.")] = None,
    api_key: Annotated[
        str | None, typer.Option(envvar="DUPLEX_API_KEY", help="The server's key.")
    ] = None,
    plugin: Annotated[
        str | None, typer.Option(help="Plugin of the server that is started.")
    ] = None,
) -> None:
    """Measure a server under sessions that talk, interrupt and are answered."""
    # What measuring needs is imported only by who measures: `duplex --help` stays quick.
    from .bench_command import BenchOptions, run_bench

    carried = run_bench(
        BenchOptions(
            url=url,
            sessions=_numbers(sessions),
            seconds=seconds,
            wav=wav,
            json=json,
            api_key=api_key,
            plugin=plugin,
        )
    )
    raise typer.Exit(0 if carried else 1)


def _numbers(text: str) -> tuple[int, ...]:
    try:
        numbers = tuple(int(number) for number in text.split(","))
    except ValueError:
        numbers = ()
    if not numbers or min(numbers) < 1:
        raise typer.BadParameter(f"not numbers of sessions: {text!r}", param_hint="--sessions")
    return numbers
