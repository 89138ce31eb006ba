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
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pluggy

from .metrics_sink import MetricsSink
from .report import Report

if TYPE_CHECKING:
    from typer import Typer

__all__ = ["Authenticator", "Hookspecs", "Observer", "hookimpl", "hookspec"]

hookspec = pluggy.HookspecMarker("duplex")
hookimpl = pluggy.HookimplMarker("duplex")


class Observer(ABC):
    """Sees the events of all realtime sessions, on a thread of its own.

    It may take its time: sessions never wait for it. One that stays behind misses events, which
    the server's log tells; one that raises is switched off.
    """

    @abstractmethod
    def session_event(self, session_id: str, event: Mapping[str, Any]) -> None:
        """One event of a session, in the order it was told.

        Args:
            session_id: of the session.
            event: the whole event as JSON values, before a profile leaves anything out of it.
        """

    def close(self) -> None:  # noqa: B027 - there may be nothing to close
        """The server ends; nothing is told after this. Called on the same thread."""


class Authenticator(ABC):
    """Decides who may use the server, beside the keys that its settings name."""

    @abstractmethod
    def admit(self, key: str | None, headers: Mapping[str, str]) -> bool | Awaitable[bool]:
        """Whether this client may come in. What raises, or takes 10 s, counts as no.

        An ``async def`` runs on the server's loop and must not block it; a plain function runs on
        a thread, and several at once.

        Args:
            key: what the client presented as its API key; None: nothing.
            headers: of the request, names in lower case.
        """


class Hookspecs:
    """The hooks. ``settings`` are the server's resolved settings as JSON values, without keys."""

    @hookspec
    def duplex_observers(self, settings: Mapping[str, Any]) -> Iterable[Observer]:
        """Return observers that see every session event."""
        raise NotImplementedError

    @hookspec(firstresult=True)
    def duplex_authenticator(self, settings: Mapping[str, Any]) -> Authenticator | None:
        """Return the object that admits clients; the first package to answer wins.

        If this raises, nobody is admitted but who has a key of the settings.
        """

    @hookspec
    def duplex_metrics_sinks(self, settings: Mapping[str, Any]) -> Iterable[MetricsSink]:
        """Return sinks that are handed the server's figures from time to time."""
        raise NotImplementedError

    @hookspec
    def duplex_register_commands(self, app: Typer) -> None:
        """Add commands to ``duplex``."""

    @hookspec
    def duplex_register_routes(self, settings: Mapping[str, Any]) -> Iterable[Any]:
        """Return Starlette routes that the server offers beside its own.

        Their paths begin with a folder of the package's choice, such as ``/acme/...``, which is
        none of the server's and of no other package. Whoever needs a key for the server needs it
        for them.
        """
        raise NotImplementedError

    @hookspec
    def duplex_doctor_reports(self) -> Iterable[Report]:
        """Return what ``duplex doctor`` shows besides the machine and the plugins."""
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
