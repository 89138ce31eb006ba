"""The in-process API: engines, sessions and clients without a socket.

Names are loaded when first used, so that the turn-based half stays free of everything that has to
do with sessions.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duplex_server.engine.errors import RequestFailedError
    from duplex_server.engine.turn_requests import AnswerPiece
    from duplex_server.runtime.errors import DuplexSessionError

    from .async_omni import AsyncOmni
    from .duplex_omni import DuplexOmni
    from .engine_health import EngineHealth, StageHealth
    from .inline_client import InlineDuplexClient
    from .omni import Omni
    from .omni_base import AsyncOmniBase, OmniBase
    from .question import Question
    from .session_handle import DuplexSessionHandle
    from .turn_model import TurnModel
    from .warmup import warm_up, warm_up_turns

__all__ = [
    "AnswerPiece",
    "AsyncOmni",
    "AsyncOmniBase",
    "DuplexOmni",
    "DuplexSessionError",
    "DuplexSessionHandle",
    "EngineHealth",
    "InlineDuplexClient",
    "Omni",
    "OmniBase",
    "Question",
    "RequestFailedError",
    "StageHealth",
    "TurnModel",
    "warm_up",
    "warm_up_turns",
]

_HOMES = {
    "AnswerPiece": "duplex_server.engine.turn_requests",
    "AsyncOmni": ".async_omni",
    "AsyncOmniBase": ".omni_base",
    "DuplexOmni": ".duplex_omni",
    "DuplexSessionError": "duplex_server.runtime.errors",
    "DuplexSessionHandle": ".session_handle",
    "EngineHealth": ".engine_health",
    "InlineDuplexClient": ".inline_client",
    "Omni": ".omni",
    "OmniBase": ".omni_base",
    "Question": ".question",
    "RequestFailedError": "duplex_server.engine.errors",
    "StageHealth": ".engine_health",
    "TurnModel": ".turn_model",
    "warm_up": ".warmup",
    "warm_up_turns": ".warmup",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home, __package__), name)
