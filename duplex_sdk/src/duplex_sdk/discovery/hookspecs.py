"""What a package may add to duplex besides models.

Implement a hook in a module that an entry point of the group ``duplex.hooks`` names::

    from duplex_sdk.discovery import hookimpl

    @hookimpl
    def duplex_register_commands(app): ...

Hooks are called once, at start-up, and return objects that do the work; an implementation may
leave out arguments it does not need. Import a library inside the hook, not at the module's top.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pluggy

from .report import Report

if TYPE_CHECKING:
    from typer import Typer

__all__ = ["Authenticator", "Hookspecs", "Observer", "hookimpl", "hookspec"]

hookspec = pluggy.HookspecMarker("duplex")
hookimpl = pluggy.HookimplMarker("duplex")

# A hook that is named in the contract before anything calls it must not be a silent one.
_NOT_CALLED_YET = FutureWarning("no released server calls this hook yet")


class Observer(ABC):
    """Sees every event of every session, on the server's loop; an exception switches it off."""

    @abstractmethod
    def session_event(self, session_id: str, event: Mapping[str, Any]) -> None:
        """One event as its client gets it. Must not block; the mapping is not to be changed."""


class Authenticator(ABC):
    """Decides who may connect, in place of the server's own keys."""

    @abstractmethod
    async def admit(self, key: str | None, headers: Mapping[str, str]) -> bool:
        """Whether this client may connect. An exception counts as no."""


class Hookspecs:
    """The hooks. ``settings`` are the server's resolved settings as JSON values."""

    @hookspec(warn_on_impl=_NOT_CALLED_YET)
    def duplex_observers(self, settings: Mapping[str, Any]) -> Iterable[Observer]:
        """Return observers that see every session event."""
        raise NotImplementedError

    @hookspec(firstresult=True, warn_on_impl=_NOT_CALLED_YET)
    def duplex_authenticator(self, settings: Mapping[str, Any]) -> Authenticator | None:
        """Return the object that admits clients; the first package to answer wins."""

    @hookspec
    def duplex_register_commands(self, app: Typer) -> None:
        """Add commands to ``duplex``."""

    @hookspec(warn_on_impl=_NOT_CALLED_YET)
    def duplex_register_routes(self, settings: Mapping[str, Any]) -> Iterable[Any]:
        """Return Starlette routes that the server offers after its own."""
        raise NotImplementedError

    @hookspec(firstresult=True)
    def duplex_test_harness(self) -> Any:
        """Return the harness that lends the conformance kit a running engine, or None."""

    @hookspec(firstresult=True)
    def duplex_verify_checkpoint(self, name: str) -> Callable[[Path], Report] | None:
        """Return what checks a checkpoint of the plugin ``name``, or None for other plugins."""

    @hookspec(firstresult=True)
    def duplex_bench_model(self, name: str) -> Callable[[Mapping[str, Any]], Report] | None:
        """Return what times the model of the plugin ``name``, or None for other plugins."""
