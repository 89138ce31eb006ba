"""What the server adds to the ``duplex`` command. Light: imported at every call of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duplex_sdk.discovery import hookimpl

if TYPE_CHECKING:
    import typer
    from duplex_sdk.discovery import Report

    from duplex_server.testing import Harness

__all__ = ["duplex_doctor_reports", "duplex_register_commands", "duplex_test_harness"]


@hookimpl
def duplex_register_commands(app: typer.Typer) -> None:
    """Add ``duplex serve`` and ``duplex dev``."""
    from .command import register_dev, register_serve

    register_serve(app)
    register_dev(app)


@hookimpl
def duplex_doctor_reports() -> tuple[Report, ...]:
    """Say whether ``duplex serve`` could start."""
    from .doctor import examine_server

    return (examine_server(),)


@hookimpl
def duplex_test_harness() -> Harness:
    """Lend tests a running engine."""
    from duplex_server.testing import Harness

    return Harness()
