"""A run as a table for people and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from .figure import Figure

__all__ = ["print_figures", "write_json"]


def print_figures(console: Console, title: str, figures: Sequence[Figure]) -> None:
    """Show the figures of one part."""
    table = Table(title=title, title_justify="left", title_style="bold")
    for column, justify in (
        ("figure", "left"),
        ("measured", "right"),
        ("to reach", "right"),
        ("floor", "right"),
        ("", "left"),
    ):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    for figure in figures:
        table.add_row(
            figure.name,
            f"{_number(figure.value)} {figure.unit}",
            _target(figure),
            "" if figure.floor is None else f"{_number(figure.floor)} {figure.unit}",
            {True: "[green]reached[/green]", False: "[red]missed[/red]", None: ""}[figure.reached],
        )
    console.print(table)


def write_json(
    path: Path,
    figures: Sequence[Figure],
    *,
    workload: dict[str, object],
    machine: dict[str, object],
    seed: int,
) -> None:
    """Write everything that is needed to compare this run with another."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "machine": machine,
        "seed": seed,
        "workload": workload,
        "figures": [asdict(figure) | {"reached": figure.reached} for figure in figures],
    }
    path.write_text(json.dumps(content, indent=2) + "\n")


def _target(figure: Figure) -> str:
    if figure.target is None:
        return ""
    return f"{'>=' if figure.at_least else '<='} {_number(figure.target)} {figure.unit}"


def _number(value: float) -> str:
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
