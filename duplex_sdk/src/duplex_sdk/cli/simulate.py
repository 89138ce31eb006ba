"""`duplex simulate`: random lives of sessions, until a law is broken or enough have run."""

from __future__ import annotations

import os
import secrets
import shlex
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from duplex_sdk.testing.simulation import Soak, SoakResult

__all__ = ["register"]

_USUAL = 5000
_INTERRUPTED = 130
"""What shells call a command that Ctrl-C ended."""

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
    plugin_option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="An option of the plugin, or @FILE for its value; may be repeated.",
        ),
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
    """Run sessions in virtual time with random commands and faults.

    Exit code 1: a law broke; 130: you pressed Ctrl-C. Pressed twice nothing is waited for.
    """
    # Said before numpy is imported: its threads would spin where every processor simulates already.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # What a simulation needs is imported only by who simulates: `duplex --help` stays quick.
    from duplex_sdk.testing.simulation import Soak

    options = _options(plugin, plugin_option or ())
    first = secrets.randbelow(1 << 31) if seed is None else seed
    if trace:
        schedules = 1
    elif schedules is None and minutes is None:
        schedules = _USUAL
    what = Soak(
        seed=first,
        schedules=schedules,
        seconds=None if minutes is None else minutes * 60,
        plugin=plugin,
        options=options,
        processes=1 if trace else processes,
    )
    if trace:
        _show(what)
    _run(what, f"duplex simulate{_again(plugin, plugin_option or ())}")


def _run(what: Soak, command: str) -> None:
    """Run them all and say how it went; ``command`` runs them again but for the seed."""
    from duplex_sdk.testing.simulation import Interruption, soak

    interruption = Interruption()
    with _on_ctrl_c(interruption.ask):
        typer.echo(f"seed {what.seed}")
        result = soak(what, interruption=interruption)
    rate = result.schedules / max(result.seconds, 1e-9)
    typer.echo(f"{result.schedules} schedules in {result.seconds:.1f} s, {rate:.0f} a second")
    _tell_laws(result)
    if result.failed is not None:
        _tell_failure(result, command)
        raise typer.Exit(1)
    typer.echo("every law held")
    if result.interrupted:
        typer.echo(f"interrupted; go on with: {command} --seed {result.next_seed}")
        raise typer.Exit(_INTERRUPTED)


@contextmanager
def _on_ctrl_c(ask: Callable[[], None]) -> Iterator[None]:
    """The first Ctrl-C asks; the second has its usual effect."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    usual = signal.getsignal(signal.SIGINT)

    def first(*_: object) -> None:
        signal.signal(signal.SIGINT, usual)
        ask()

    signal.signal(signal.SIGINT, first)
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(_INTERRUPTED) from None
    finally:
        signal.signal(signal.SIGINT, usual)


def _tell_laws(result: SoakResult) -> None:
    """How much the laws had to look at."""
    from duplex_sdk.testing.invariants import LAWS

    numbers = sorted({law.number for law in LAWS})
    idle = [number for number in numbers if not result.looked[number]]
    looks = (
        f"{len(numbers) - len(idle)} of {len(numbers)} laws looked {result.looked.total()} times"
    )
    typer.echo(looks + (f"; nothing to look at for {', '.join(map(str, idle))}" if idle else ""))


def _tell_failure(result: SoakResult, command: str) -> None:
    """The law, the shortest script that breaks it, its end, and how to run it again."""
    assert result.failed is not None
    schedule, failure = result.failed
    typer.echo(f"seed {result.seed} broke {failure.message}\n\nthe shortest script that does:")
    typer.echo(schedule.script())
    typer.echo("\nwhat happened then, the last steps:")
    typer.echo("\n".join(result.trace[-_STEPS:]))
    typer.echo(f"\nrun it again: {command} --seed {result.seed} --schedules 1")


def _options(plugin: str | None, pairs: Sequence[str]) -> dict[str, str]:
    """The plugin's options as they were given."""
    if pairs and plugin is None:
        raise typer.BadParameter("--plugin-option needs --plugin")
    wrong = [pair for pair in pairs if not pair.partition("=")[0] or "=" not in pair]
    if wrong:
        raise typer.BadParameter(f"--plugin-option takes KEY=VALUE, not {wrong[0]!r}")
    parts = (pair.partition("=") for pair in pairs)
    return {key.replace("-", "_"): _content(value) for key, _, value in parts}


def _content(value: str) -> str:
    """What was given, or for ``@FILE`` what the file holds."""
    if not value.startswith("@"):
        return value
    try:
        return Path(value[1:]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"--plugin-option: cannot read {value[1:]!r}: {error}") from error


def _again(plugin: str | None, pairs: Sequence[str]) -> str:
    """The words that ask for the same sessions."""
    if plugin is None:
        return ""
    options = [f" --plugin-option {shlex.quote(pair)}" for pair in pairs]
    return f" --plugin {plugin}" + "".join(options)


def _show(what: Soak) -> None:
    """The script of a seed, and every step of its run."""
    from duplex_sdk.testing.simulation import draw, run

    kinds = what.kinds()
    schedule = draw(what.seed, kinds)
    typer.echo(schedule.script())
    run(schedule, kinds, note=typer.echo)
