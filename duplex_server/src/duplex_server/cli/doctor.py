"""What the server adds to ``duplex doctor``: could ``duplex serve`` start here, as it is set up?"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from duplex_sdk.discovery import Check, Report, read_environment
from duplex_sdk.errors import DuplexError

from duplex_server.settings import ResolvedSettings, resolve_settings
from duplex_server.settings.model import ServingSettings

from .lent_machines import machine_checks
from .listening_socket import ListenError, bind_socket
from .stage_checks import stage_checks

__all__ = ["examine_server"]


def examine_server(environment: Mapping[str, str] = os.environ) -> Report:
    """Look at settings, port, speech detection, the models' own environment and machines."""
    return Report("server", tuple(_checks(environment)))


def _checks(environment: Mapping[str, str]) -> Iterator[Check]:
    serving = ServingSettings()
    worker_python: Path | None = None
    try:
        resolved = resolve_settings({}, environment)
    except DuplexError as error:
        yield Check("settings", False, str(error), error.hint)
    else:
        yield Check("settings", True, f"`duplex serve` would serve {resolved.spec.name}")
        serving = resolved.settings.serving
        worker_python = resolved.settings.worker_python
        yield from _stages(resolved)
    yield _port(serving.host, serving.port)
    yield _speech_detection()
    if worker_python is not None:
        yield _models_environment(worker_python)


def _stages(resolved: ResolvedSettings) -> Iterator[Check]:
    """What the stages need, on this machine and on others."""
    try:
        yield from stage_checks(resolved)
        yield from machine_checks(resolved)
    except DuplexError as error:
        detail = f"{resolved.spec.name} cannot be served: {error}"
        yield Check("stages", False, detail, error.hint)


def _port(host: str, port: int) -> Check:
    try:
        bind_socket(host, port).close()
    except ListenError as error:
        return Check("port", False, str(error), error.hint)
    return Check("port", True, f"{host} port {port} is free")


def _speech_detection() -> Check:
    """Loads the detector, as the first session would."""
    from duplex_server.runtime.vad import VadProvider

    try:
        VadProvider().backend()
    except DuplexError as error:
        return Check("speech detection", False, str(error), error.hint)
    return Check("speech detection", True, "its model loads")


def _models_environment(python: Path) -> Check:
    try:
        other = read_environment(python)
    except DuplexError as error:
        return Check("worker_python", False, str(error), error.hint)
    plugins = ", ".join(other.names) or "no plugins"
    detail = f"{python}: Python {other.version}, duplex-sdk {other.sdk}, {plugins}"
    return Check("worker_python", True, detail)
