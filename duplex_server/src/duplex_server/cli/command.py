"""``duplex serve`` and ``duplex dev`` as the command line sees them: names, until called."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["register_dev", "register_serve"]

# Its flags depend on the plugin, and reading them imports the settings: both only when it is
# called, so that every other command stays quick. Hence all arguments pass through untouched.
_PASS_THROUGH = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "allow_interspersed_args": False,
    "help_option_names": [],
}

_WRONG_USAGE = 2


def register_serve(app: typer.Typer) -> None:
    """Add the command to the ``duplex`` application."""

    @app.command("serve", context_settings=_PASS_THROUGH, add_help_option=False)
    def serve(
        arguments: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
    ) -> None:
        """Serve a plugin to realtime clients."""
        from duplex_sdk.cli.messages import print_error

        from duplex_server.settings import SettingsError

        from .serve import run_serve

        try:
            code = run_serve(arguments or [])
        except SettingsError as error:
            print_error(error)
            code = _WRONG_USAGE
        raise typer.Exit(code)


def register_dev(app: typer.Typer) -> None:
    """Add the command to the ``duplex`` application."""

    @app.command("dev", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
    def dev(
        context: typer.Context,
        folder: Annotated[Path, typer.Argument(help="The plugin's project.")],
        host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
        port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 8000,
    ) -> None:
        """Serve a plugin from its sources, anew after each change.

        Further options are those of ``duplex serve``.
        """
        from .dev import run_dev

        raise typer.Exit(run_dev(folder, host, port, context.args))
