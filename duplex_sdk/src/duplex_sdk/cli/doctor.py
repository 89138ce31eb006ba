"""``duplex doctor``: the machine, what installed packages look after, then every plugin."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from .plugins import print_report

if TYPE_CHECKING:
    from duplex_sdk.discovery import LoadedHooks, Report

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("doctor")(doctor)


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Check this machine and all that is installed. Exit code 1 when something is wrong."""
    reports = []
    for report in _reports():
        reports.append(report)
        if not as_json:
            print_report(report)
    sound = all(report.ok for report in reports)
    if as_json:
        answer = {"ok": sound, "reports": [report.as_dict() for report in reports]}
        typer.echo(json.dumps(answer, indent=2))
    if not sound:
        raise typer.Exit(1)


def _reports() -> Iterator[Report]:
    from duplex_sdk.discovery import examine, examine_hooks, examine_machine, load_hooks

    yield examine_machine()
    hooks = load_hooks()
    yield from _of_packages(hooks)
    yield from examine(here=True)
    yield examine_hooks(hooks)


def _of_packages(hooks: LoadedHooks) -> Iterator[Report]:
    """What packages report by the hook; one that fails is reported itself."""
    from duplex_sdk.discovery import Check, Report
    from duplex_sdk.discovery.containment import ForeignCodeError, contained

    for answer in hooks.ask("duplex_doctor_reports"):
        failure = answer.failure
        if failure is None and answer.value is not None:
            try:
                yield from contained(lambda value=answer.value: tuple(value))  # type: ignore[misc]
            except ForeignCodeError as error:
                failure = str(error)
        if failure is not None:
            yield Report(answer.package, (Check("doctor", False, failure),))
