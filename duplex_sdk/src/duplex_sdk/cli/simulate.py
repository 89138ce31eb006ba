"""`duplex simulate`: random lives of sessions, until a law is broken or enough have run."""

from __future__ import annotations

import secrets
from typing import Annotated

import typer

__all__ = ["register"]

_USUAL = 5000
_STEPS = 25
"""So many lines of a trace are read; the failure is at its end."""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("simulate")(simulate)


def simulate(
    plugin: Annotated[
        str | None,
        typer.Option(help="Whose sessions; without it scripted ones of every manner."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Of the first schedule; without it a fresh one.")
    ] = None,
    schedules: Annotated[
        int | None, typer.Option(min=1, help=f"How many; {_USUAL} without --minutes.")
    ] = None,
    minutes: Annotated[float | None, typer.Option(min=0, help="How long.")] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, help="How many at once; one for each processor.")
    ] = None,
    trace: Annotated[
        bool,
        typer.Option("--trace", help="Show script and steps of the first schedule alone."),
    ] = False,
) -> None:
    """Run sessions in virtual time with random commands and faults. Exit code 1: a law broke."""
    # What a simulation needs is imported only by who simulates: `duplex --help` stays quick.
    from duplex_sdk.testing.simulation import Soak, soak

    first = secrets.randbelow(1 << 31) if seed is None else seed
    if trace:
        schedules = 1
        _show(first, plugin)
    elif schedules is None and minutes is None:
        schedules = _USUAL
    what = Soak(
        seed=first,
        schedules=schedules,
        seconds=None if minutes is None else minutes * 60,
        plugin=plugin,
        processes=1 if trace else processes,
    )
    typer.echo(f"seed {first}")
    result = soak(what)
    rate = result.schedules / max(result.seconds, 1e-9)
    typer.echo(f"{result.schedules} schedules in {result.seconds:.1f} s, {rate:.0f} a second")
    if result.failed is None:
        typer.echo("every law held")
        return
    schedule, failure = result.failed
    typer.echo(f"seed {result.seed} broke {failure.message}\n\nthe shortest script that does:")
    typer.echo(schedule.script())
    typer.echo("\nwhat happened then, the last steps:")
    typer.echo("\n".join(result.trace[-_STEPS:]))
    again = "" if plugin is None else f" --plugin {plugin}"
    typer.echo(f"\nrun it again: duplex simulate{again} --seed {result.seed} --schedules 1")
    raise typer.Exit(1)


def _show(seed: int, plugin: str | None) -> None:
    """The script of a seed, and every step of its run."""
    from duplex_sdk.discovery import find, load_plugin
    from duplex_sdk.testing.simulation import SCRIPTED_KINDS, draw, kinds_of, run

    kinds = SCRIPTED_KINDS if plugin is None else kinds_of(load_plugin(find(plugin), {}))
    schedule = draw(seed, kinds)
    typer.echo(schedule.script())
    run(schedule, kinds, note=typer.echo)
