"""`duplex verify-checkpoint` and `duplex bench-model`: done by the plugin, called by its hook."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duplex_sdk.errors import DuplexError

from .plugins import print_report

if TYPE_CHECKING:
    from duplex_sdk.discovery import Report
    from duplex_sdk.discovery.report import FigureRow

__all__ = ["register"]

Name = Annotated[str, typer.Argument(help="The plugin's name.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def register(app: typer.Typer) -> None:
    """Add both commands to the application."""
    app.command("verify-checkpoint")(verify_checkpoint)
    app.command("bench-model")(bench_model)


def verify_checkpoint(
    name: Name,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The checkpoint's folder.")],
    as_json: AsJson = False,
) -> None:
    """Check a checkpoint: files, tensors, values. Exit code 1 when something is wrong."""
    verify = _offered("duplex_verify_checkpoint", name, "checks no checkpoints")
    _finish(verify(folder), as_json=as_json)


def bench_model(
    name: Name,
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="What to measure, in the plugin's own words."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Time a plugin's model by batch size. Exit code 1 when no session runs in real time."""
    wanted = _pairs(settings or ())
    bench = _offered("duplex_bench_model", name, "times no model")
    _finish(bench(wanted), as_json=as_json)


def _offered(hook: str, name: str, otherwise: str) -> Any:
    """What the plugin offers by a hook.

    Raises:
        PluginNotFoundError: no such plugin is installed.
        DuplexError: it offers nothing of the kind.
    """
    from duplex_sdk.discovery import load_hooks
    from duplex_sdk.discovery.registry import require_known

    require_known(name)
    failures = []
    for answer in load_hooks().ask(hook, name=name):
        if answer.value is not None:
            return answer.value
        if answer.failure is not None:
            failures.append(f"{answer.package} failed of {hook}: {answer.failure}")
    raise DuplexError("; ".join([f"the plugin '{name}' {otherwise}", *failures]))


def _pairs(settings: Sequence[str]) -> dict[str, str]:
    pairs = dict(text.partition("=")[::2] for text in settings)
    wrong = [key for key, value in pairs.items() if not key or not value]
    if wrong:
        raise typer.BadParameter(f"expected KEY=VALUE, got {wrong[0]!r}")
    return pairs


def _finish(report: Report, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(report.as_dict(), indent=2))
    else:
        _print_rows(report.rows)
        print_report(report)
    if not report.ok:
        raise typer.Exit(1)


def _print_rows(rows: Sequence[FigureRow]) -> None:
    if not rows:
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, padding=(0, 0, 0, 2), header_style="bold")
    for name in rows[0]:
        table.add_column(name.replace("_", "\n"), justify="right", overflow="fold")
    for row in rows:
        table.add_row(*map(_cell, row.values()))
    Console(highlight=False).print(table)


def _cell(value: str | int | float | bool) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | str):
        return str(value)
    # Three digits tell all that a measurement knows.
    return f"{value:.{max(0, 2 - len(str(int(value))) + 1)}f}"
