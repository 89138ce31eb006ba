"""The command ``duplex``: our own commands, and those of installed packages."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from duplex_sdk.errors import DuplexError

from . import doctor, model_tools, new_plugin, plugins
from .messages import print_error, print_warning

__all__ = ["build_app", "main"]

_OURS_ALONE = ("doctor", "plugins", "new-plugin")


def main() -> None:
    """Run ``duplex`` with the process's arguments.

    Exit codes: 0 done, 1 failed, 2 wrong usage.
    """
    app = build_app(sys.argv[1:])
    try:
        app()
    except DuplexError as error:
        print_error(error)
        sys.exit(1)


def build_app(arguments: Sequence[str]) -> typer.Typer:
    """The application, with what these arguments need.

    What lists, mends and begins plugins works without importing any package of others: it must
    work when one of them is broken, and be quick.
    """
    app = typer.Typer(
        name="duplex",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        add_completion=False,
    )
    app.callback(help="Serve full-duplex speech models, and talk to them.")(_root)
    app.add_typer(plugins.app, name="plugins")
    doctor.register(app)
    new_plugin.register(app)
    model_tools.register(app)
    if not arguments or arguments[0] not in _OURS_ALONE:
        _add_client_commands(app)
        _add_commands_of_packages(app)
    return app


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"duplex-sdk {importlib.metadata.version('duplex-sdk')}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and leave.", is_eager=True, callback=_show_version
        ),
    ] = False,
) -> None:
    """Options of ``duplex`` itself."""


def _add_client_commands(app: typer.Typer) -> None:
    from . import bench, simulate, talk, worker

    talk.register(app)
    worker.register(app)
    bench.register(app)
    simulate.register(app)


def _add_commands_of_packages(app: typer.Typer) -> None:
    from duplex_sdk.discovery import load_hooks
    from duplex_sdk.discovery.hooks import HOOK_LIMIT_S

    from .package_commands import add_commands_of_packages

    loaded = load_hooks()
    left_out = [(failure.distribution, failure.reason) for failure in loaded.failures]
    left_out += add_commands_of_packages(app, loaded, HOOK_LIMIT_S)
    left_out += [(problem.distribution, problem.reason) for problem in loaded.problems]
    for distribution, reason in left_out:
        print_warning(f"{distribution} adds no commands: {reason} (see: duplex plugins doctor)")
