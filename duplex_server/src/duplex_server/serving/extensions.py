"""What installed hook packages add to a server: asked once, at start-up, package by package.

A package that fails is left out and named in the log. Only a failing authenticator counts: without
it nobody is admitted, for a fault must not open what somebody wanted closed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from duplex_sdk.discovery import Authenticator, HookAnswer, LoadedHooks, MetricsSink, Observer
from duplex_sdk.errors import DuplexError
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute

from .admission import AdmitsNobody

__all__ = ["AuthenticatorMissingError", "ServerExtensions", "find_extensions"]

T = TypeVar("T")

_log = logging.getLogger(__name__)
_OURS = frozenset({"", "health", "metrics", "static", "v1"})
_SHORTEST_INTERVAL_S = 1.0


class AuthenticatorMissingError(DuplexError):
    """The package that is to admit clients is not there, or does not. The message says why."""


@dataclass(frozen=True, slots=True)
class ServerExtensions:
    """What is added.

    Attributes:
        authenticator: admits clients; None: only the keys of the settings count.
        observers: see the events of all sessions.
        metrics_sinks: are handed the server's figures.
        routes: offered after the server's own.
    """

    authenticator: Authenticator | None = None
    observers: tuple[Observer, ...] = ()
    metrics_sinks: tuple[MetricsSink, ...] = ()
    routes: tuple[BaseRoute, ...] = ()


def find_extensions(
    hooks: LoadedHooks, settings: Mapping[str, Any], *, authenticator: str | None = None
) -> ServerExtensions:
    """Ask the installed packages. One that fails is left out.

    Args:
        hooks: as loaded.
        settings: of the server, as JSON values.
        authenticator: the package that must admit clients, by the name of its distribution or of
            its entry point; None: the first one that offers to.

    Raises:
        AuthenticatorMissingError: the one that must does not.
    """
    for failure in hooks.failures:
        _log.error(
            "%s adds nothing to this server: %s (see: duplex plugins doctor)",
            failure.distribution,
            failure.reason,
        )
    observers = _each(hooks, "duplex_observers", settings, _observer)
    return ServerExtensions(
        authenticator=(
            _authenticator(hooks, settings)
            if authenticator is None
            else _named_authenticator(hooks, settings, authenticator)
        ),
        observers=tuple(observers),
        metrics_sinks=tuple(_each(hooks, "duplex_metrics_sinks", settings, _sink)),
        routes=tuple(_routes(hooks, settings)),
    )


def _authenticator(hooks: LoadedHooks, settings: Mapping[str, Any]) -> Authenticator | None:
    for answer in hooks.ask("duplex_authenticator", settings=settings):
        if answer.value is None and answer.failure is None:
            continue
        reason = _no_authenticator(answer)
        if reason is not None:
            _log.error("%s has no authenticator, nobody is admitted: %s", answer.package, reason)
            return AdmitsNobody()
        return _admitting(answer)
    return None


def _named_authenticator(
    hooks: LoadedHooks, settings: Mapping[str, Any], name: str
) -> Authenticator:
    """The one of a certain package, which a fault must not replace by an open door."""
    for failed in hooks.failures:
        if name in (failed.distribution, failed.name):
            raise _missing(name, failed.reason)
    for answer in hooks.ask("duplex_authenticator", settings=settings):
        if name in (answer.package, *answer.package.split(":")):
            reason = "it offers none" if answer == HookAnswer(answer.package, None) else None
            reason = reason or _no_authenticator(answer)
            if reason is not None:
                raise _missing(name, reason)
            return _admitting(answer)
    raise _missing(name, "no installed package of this name has one")


def _missing(name: str, reason: str) -> AuthenticatorMissingError:
    return AuthenticatorMissingError(
        f"{name} is to admit clients, and has no authenticator: {reason}",
        hint="duplex plugins doctor (docs/hooks.md#when-a-package-fails)",
    )


def _no_authenticator(answer: HookAnswer) -> str | None:
    """Why an answer is none; None: it is one."""
    if answer.failure is None and not isinstance(answer.value, Authenticator):
        return f"{type(answer.value).__name__} is no Authenticator"
    return answer.failure


def _admitting(answer: HookAnswer) -> Authenticator:
    _log.info("clients are admitted by %s", answer.package)
    authenticator: Authenticator = answer.value
    return authenticator


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


def _sink(package: str, sink: object) -> MetricsSink:
    if not isinstance(sink, MetricsSink):
        raise TypeError(f"{type(sink).__name__} is no MetricsSink")
    if sink.interval_s < _SHORTEST_INTERVAL_S:
        raise ValueError(f"an interval of {sink.interval_s:g} s is too short")
    return sink


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
