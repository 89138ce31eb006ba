"""``duplex new-plugin``: a project that works, to be changed into a plugin of one's own."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Annotated

import typer

from duplex_sdk.scaffold import (
    Kind,
    PluginNameError,
    ProjectName,
    render_project,
    write_project,
)

from .messages import print_error

__all__ = ["register"]

_WRONG_USAGE = 2


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("new-plugin")(new_plugin)


def new_plugin(
    name: Annotated[
        str,
        typer.Argument(help="The plugin's name, such as acme-voice; also that of the new folder."),
    ],
    kind: Annotated[
        Kind,
        typer.Option(
            help="minimal: the smallest that works; turn: hears turns, streams replies;"
            " frame: hears and speaks at once, 80 ms at a time, in torch."
        ),
    ] = Kind.MINIMAL,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be written; write nothing.")
    ] = False,
) -> None:
    """Write a new plugin project into a folder of its name. It works at once."""
    try:
        project = ProjectName(name)
    except PluginNameError as error:
        print_error(error)
        raise typer.Exit(_WRONG_USAGE) from error
    _refuse_installed(project)
    files = render_project(project, kind)
    if dry_run:
        typer.echo(f"{project.plugin}/")
        for line in _tree(files):
            typer.echo(line)
        return
    write_project(files, Path.cwd() / project.plugin)
    typer.echo(f"wrote {project.plugin}/ ({len(files)} files); next:")
    for command in _next_commands(project):
        typer.echo(f"  {command}")


def _refuse_installed(project: ProjectName) -> None:
    from duplex_sdk.discovery.registry import installed
    from duplex_sdk.errors import PluginConflictError

    for plugin in installed().plugins:
        if plugin.name == project.plugin:
            raise PluginConflictError(
                f"a plugin called '{plugin.name}' is installed already, by {plugin.distribution}",
                hint=f"choose another name, or: pip uninstall {plugin.distribution}",
            )


def _next_commands(project: ProjectName) -> tuple[str, ...]:
    return (
        f'pip install -e "{project.plugin}[dev]"',
        f"pytest {project.plugin}",
        f"duplex serve --plugin {project.plugin}",
    )


def _tree(files: Iterable[PurePosixPath]) -> Iterable[str]:
    """The files as an indented tree; each folder once, before what is in it."""
    shown: set[PurePosixPath] = set()
    for path in files:
        for folder in reversed(path.parents[:-1]):
            if folder not in shown:
                shown.add(folder)
                yield f"{'  ' * len(folder.parts)}{folder.name}/"
        yield f"{'  ' * len(path.parts)}{path.name}"
