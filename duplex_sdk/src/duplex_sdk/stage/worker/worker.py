"""The worker: takes the engine's messages and hands them to the step thread."""

from __future__ import annotations

import hmac
import importlib.metadata
import logging
import os
import platform
from collections.abc import Callable
from typing import Any, NoReturn

from duplex_sdk.stage.api_version import API_VERSION

from .engine_link import EngineLink, LinkLostError
from .engine_thread import EngineThread
from .framing import FrameError
from .host_thread import HostThread
from .messages import (
    PROTOCOL,
    Call,
    Cancel,
    Close,
    Hello,
    HelloReply,
    Hold,
    Load,
    Open,
    Ping,
    Pong,
    Shutdown,
    ToWorker,
    Units,
    Update,
    same_major,
)
from .process_memory import device_memory, resident_bytes
from .step_thread import StepThread

__all__ = ["BROKEN", "DONE", "REFUSED", "Worker"]

logger = logging.getLogger(__name__)

DONE, BROKEN, REFUSED = 0, 70, 77
"""Exit codes: ended as told; broke down; would not work for who called."""

_GRACE_WITHOUT_ENGINE_S = 1.0


class Worker:
    """One connection to one engine. The thread that calls ``run`` reads; the model has its own."""

    def __init__(self, link: EngineLink, secret: str) -> None:
        """``secret``: what the engine must present."""
        self._link = link
        self._secret = secret
        self._steps: HostThread | None = None
        self._handlers: dict[type, Callable[[Any], None]] = {
            Load: self._load,
            Open: lambda m: self._post(lambda host: host.open(m.session)),
            Units: lambda m: self._post(lambda host: host.units(m.units)),
            Update: lambda m: self._post(lambda host: host.update(m.session)),
            Cancel: lambda m: self._post(
                lambda host: host.cancel(m.session_id, m.epoch, m.heard_ms)
            ),
            Hold: lambda m: self._post(lambda host: host.hold(m.session_id, m.held)),
            Close: lambda m: self._post(lambda host: host.close(m.session_id)),
            Call: lambda m: self._require_steps().answer(m),
            Ping: self._pong,
        }

    def run(self) -> int:
        """Work until the engine says ``Shutdown`` or is gone.

        Returns:
            The exit code of the process.
        """
        try:
            return self._serve()
        except LinkLostError:
            # An orphan has nobody to work for.
            self._end(_GRACE_WITHOUT_ENGINE_S)
            return DONE
        except FrameError as error:
            logger.error("the engine cannot be understood: %s", error)
            return BROKEN

    def _serve(self) -> int:
        greeted = False
        while True:
            for message in self._link.receive():
                if not greeted:
                    if not self._greet(message):
                        return REFUSED
                    greeted = True
                elif isinstance(message, Shutdown):
                    self._end(message.grace_s)
                    return DONE
                elif isinstance(message, Hello):
                    raise FrameError("greeted twice")
                else:
                    self._handlers[type(message)](message)

    def _greet(self, first: ToWorker) -> bool:
        """Answer the first frame; false: not for this engine, or not with this version."""
        if not isinstance(first, Hello):
            return False
        if not hmac.compare_digest(first.secret.encode(), self._secret.encode()):
            return False
        version = importlib.metadata.version("duplex-sdk")
        self._link.send(
            HelloReply(PROTOCOL, API_VERSION, version, platform.python_version(), os.getpid())
        )
        return first.protocol == PROTOCOL and same_major(API_VERSION, first.api)

    def _load(self, load: Load) -> None:
        if self._steps is not None:
            raise FrameError("told to load twice")
        kind = StepThread if load.model is not None else EngineThread
        self._steps = kind(self._link, load, on_broken=lambda: _leave(BROKEN))
        self._steps.start()

    def _post(self, call: Callable[[Any], None]) -> None:
        self._require_steps().post(call)

    def _require_steps(self) -> HostThread:
        if self._steps is None:
            raise FrameError("told to work before it was told to load")
        return self._steps

    def _pong(self, ping: Ping) -> None:
        busy_ms = 0.0 if self._steps is None else self._steps.busy_ms
        self._link.send(Pong(ping.n, busy_ms, resident_bytes(), device_memory()))

    def _end(self, grace_s: float) -> None:
        if self._steps is not None:
            self._steps.end(grace_s)


def _leave(code: int) -> NoReturn:
    """End the process from any thread, whatever the others do."""
    logging.shutdown()
    os._exit(code)
