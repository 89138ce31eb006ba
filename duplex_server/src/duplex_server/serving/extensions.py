"""What installed hook packages add to a server: asked once, at start-up, package by package.

A package that fails is left out and named in the log. Only a failing authenticator counts: without
it nobody is admitted, for a fault must not open what somebody wanted closed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from duplex_sdk.discovery import Authenticator, LoadedHooks, Observer
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute

from .admission import AdmitsNobody

__all__ = ["ServerExtensions", "find_extensions"]

T = TypeVar("T")

_log = logging.getLogger(__name__)
_OURS = frozenset({"", "health", "metrics", "static", "v1"})


@dataclass(frozen=True, slots=True)
class ServerExtensions:
    """What is added.

    Attributes:
        authenticator: admits clients; None: only the keys of the settings count.
        observers: see the events of all sessions.
        routes: offered after the server's own.
    """

    authenticator: Authenticator | None = None
    observers: tuple[Observer, ...] = ()
    routes: tuple[BaseRoute, ...] = ()


def find_extensions(hooks: LoadedHooks, settings: Mapping[str, Any]) -> ServerExtensions:
    """Ask the installed packages. Never raises because of one.

    Args:
        hooks: as loaded.
        settings: of the server, as JSON values.
    """
    for failure in hooks.failures:
        _log.error(
            "%s adds nothing to this server: %s (see: duplex plugins doctor)",
            failure.distribution,
            failure.reason,
        )
    observers = _each(hooks, "duplex_observers", settings, _observer)
    return ServerExtensions(
        _authenticator(hooks, settings), tuple(observers), tuple(_routes(hooks, settings))
    )


def _authenticator(hooks: LoadedHooks, settings: Mapping[str, Any]) -> Authenticator | None:
    for answer in hooks.ask("duplex_authenticator", settings=settings):
        if answer.value is None and answer.failure is None:
            continue
        reason = answer.failure
        if reason is None and not isinstance(answer.value, Authenticator):
            reason = f"{type(answer.value).__name__} is no Authenticator"
        if reason is not None:
            _log.error("%s has no authenticator, nobody is admitted: %s", answer.package, reason)
            return AdmitsNobody()
        _log.info("clients are admitted by %s", answer.package)
        authenticator: Authenticator = answer.value
        return authenticator
    return None


def _routes(hooks: LoadedHooks, settings: Mapping[str, Any]) -> Iterator[BaseRoute]:
    owners = dict.fromkeys(_OURS, "the server")

    def claimed(package: str, route: object) -> BaseRoute:
        if not isinstance(route, Route | WebSocketRoute | Mount):
            raise TypeError(f"{type(route).__name__} is no route with a path")
        folder = route.path.lstrip("/").partition("/")[0]
        if "{" in folder:
            raise ValueError(f"the path {route.path!r} begins with a parameter")
        owner = owners.setdefault(folder, package)
        if owner != package:
            raise ValueError(f"the path {route.path!r} lies where {owner} has its own")
        return route

    yield from _each(hooks, "duplex_register_routes", settings, claimed)


def _observer(package: str, observer: object) -> Observer:
    if not isinstance(observer, Observer):
        raise TypeError(f"{type(observer).__name__} is no Observer")
    return observer


def _each(
    hooks: LoadedHooks,
    hook: str,
    settings: Mapping[str, Any],
    checked: Callable[[str, object], T],
) -> Iterator[T]:
    """What all packages offer by a hook; of one that fails, nothing."""
    for answer in hooks.ask(hook, settings=settings):
        reason = answer.failure
        if reason is None and answer.value is not None:
            try:
                yield from [checked(answer.package, each) for each in answer.value]
            except Exception as error:  # a generator may raise anything, as may a package's type
                reason = f"{type(error).__name__}: {error}"
        if reason is not None:
            _log.error("%s: %s is left out: %s", answer.package, hook, reason)
