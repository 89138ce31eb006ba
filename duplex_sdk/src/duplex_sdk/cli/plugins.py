"""``duplex plugins``: what is installed, what it says of itself, whether it is sound."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from duplex_sdk.discovery import Report
    from duplex_sdk.discovery.entries import InstalledEntry
    from duplex_sdk.plugin import PluginSpec

__all__ = ["app", "print_report"]

app = typer.Typer(help="Installed plugins.", no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


@app.command("list")
def list_plugins(as_json: AsJson = False) -> None:
    """List the installed plugins. Imports none of them."""
    from dataclasses import asdict

    from duplex_sdk.discovery.registry import installed

    found = installed()
    if as_json:
        _print_json(
            {
                "plugins": [asdict(plugin) for plugin in found.plugins],
                "problems": [asdict(problem) for problem in found.problems],
            }
        )
        return
    rows = [(plugin.name, plugin.distribution, plugin.version) for plugin in found.plugins]
    _print_columns([("NAME", "PACKAGE", "VERSION"), *rows] if rows else [])
    if not rows:
        typer.echo("no plugins are installed")
    wrong = [(plugin.name, plugin.trouble) for plugin in found.plugins if plugin.trouble]
    wrong += [(problem.distribution, problem.reason) for problem in found.problems]
    for name, reason in wrong:
        typer.echo(f"warning: {name}: {reason} (see: duplex plugins doctor)", err=True)


@app.command()
def inspect(
    name: Annotated[str, typer.Argument(help="The plugin's name.")], as_json: AsJson = False
) -> None:
    """Show a plugin's descriptor. Imports that descriptor, no model."""
    from duplex_sdk.discovery.registry import find_entry, read_descriptor

    entry = find_entry(name)
    facts = _facts(entry, read_descriptor(entry))
    if as_json:
        _print_json(facts)
        return
    options = facts.pop("options")
    _print_columns([(key, _words(value)) for key, value in facts.items()])
    for option in options:
        typer.echo(f"\n{option['flag']}  ({_option_kind(option)})")
        if option["help"]:
            typer.echo(f"    {option['help']}")


@app.command()
def doctor(
    name: Annotated[str | None, typer.Argument(help="One plugin; without it, all.")] = None,
    as_json: AsJson = False,
    timeout_s: Annotated[
        float, typer.Option("--timeout-s", min=0.1, help="Longest a package may take to import.")
    ] = 15.0,
) -> None:
    """Check plugins, each in a fresh interpreter. Exit code 1 when something is wrong."""
    from duplex_sdk.discovery import examine, examine_hooks, load_hooks
    from duplex_sdk.discovery.registry import require_known

    if name is not None:
        require_known(name)
    reports = examine(name, timeout_s=timeout_s)
    if name is None:
        reports = (*reports, examine_hooks(load_hooks(timeout_s)))
    if as_json:
        _print_json({"reports": [report.as_dict() for report in reports]})
    else:
        for report in reports:
            print_report(report)
    if not all(report.ok for report in reports):
        raise typer.Exit(1)


def _facts(entry: InstalledEntry, spec: PluginSpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "summary": spec.summary,
        "distribution": entry.distribution,
        "version": entry.version,
        "api": spec.api,
        "factory": spec.factory,
        "licence": spec.licence,
        "input_sample_rate": spec.input_sample_rate,
        "output_sample_rate": spec.output_sample_rate,
        "capabilities": sorted(spec.capabilities),
        "voices": list(spec.voices),
        "max_sessions": spec.max_sessions,
        "memory_bytes": spec.memory_bytes,
        "options": [
            {
                "name": option.name,
                "flag": option.flag,
                "type": option.type.__name__,
                "default": option.default,
                "choices": list(option.choices),
                "help": option.help,
            }
            for option in spec.options
        ],
    }


def _option_kind(option: dict[str, Any]) -> str:
    kind = " | ".join(option["choices"]) or option["type"]
    return kind if option["default"] is None else f"{kind}, default {option['default']}"


def _words(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(value) or "-"
    return str(value) if value not in ("", None) else "-"


def print_report(report: Report) -> None:
    """Say what was checked, line by line."""
    typer.echo(report.subject)
    for check in report.checks:
        mark = "ok   " if check.ok else "WRONG"
        typer.echo(f"  {mark} {check.name}" + (f": {check.detail}" if check.detail else ""))
        if check.hint and not check.ok:
            typer.echo(f"        hint: {check.hint}")


def _print_columns(rows: Sequence[Sequence[str]]) -> None:
    """Print rows with aligned columns; the last one may be of any length."""
    widths = [max(map(len, column)) for column in _columns(rows)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)]
        typer.echo("  ".join([*cells, row[-1]]))


def _columns(rows: Sequence[Sequence[str]]) -> Iterable[tuple[str, ...]]:
    return zip(*rows, strict=True)


def _print_json(value: object) -> None:
    typer.echo(json.dumps(value, indent=2))
