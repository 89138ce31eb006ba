"""`duplex talk`: speak to a server, by microphone or from a recording."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("talk")(talk)


def talk(
    url: Annotated[
        str | None,
        typer.Argument(help="Server, as ws://HOST:PORT; without it one is started."),
    ] = None,
    wav: Annotated[
        Path | None, typer.Option(help="Speak this recording instead of the microphone.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Where to write the answers as WAV.")] = None,
    api_key: Annotated[
        str | None, typer.Option(envvar="DUPLEX_API_KEY", help="The server's key.")
    ] = None,
    plugin: Annotated[
        str | None, typer.Option(help="Plugin of the server that is started.")
    ] = None,
) -> None:
    """Speak to a model and hear it answer; shows both transcripts and the answer times."""
    # What talking needs is imported only by who talks: `duplex --help` stays quick.
    from .talk_command import TalkOptions, run_talk

    spoken = run_talk(TalkOptions(url=url, wav=wav, out=out, api_key=api_key, plugin=plugin))
    raise typer.Exit(0 if spoken else 1)
