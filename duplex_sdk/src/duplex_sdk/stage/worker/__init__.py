"""A stage's model in a process of its own: what engine and worker say to each other.

``python -m duplex_sdk.stage.worker --connect ADDRESS`` is the worker; the other end lives in the
server. Both speak ``messages`` in the frames of ``framing``. Importing this package loads neither
numpy nor asyncio.
"""

from __future__ import annotations

from .framing import FrameError, FrameReader, FrameWriter
from .messages import (
    PROTOCOL,
    SECRET_VARIABLE,
    Call,
    CallResult,
    Cancel,
    Close,
    Closed,
    Failed,
    FromWorker,
    Hello,
    HelloReply,
    Hold,
    Load,
    LoadFailed,
    Log,
    Open,
    Opened,
    Outputs,
    Ping,
    Pong,
    Progress,
    Ready,
    Shutdown,
    ToWorker,
    Units,
    Update,
    same_major,
)

__all__ = [
    "PROTOCOL",
    "SECRET_VARIABLE",
    "Call",
    "CallResult",
    "Cancel",
    "Close",
    "Closed",
    "Failed",
    "FrameError",
    "FrameReader",
    "FrameWriter",
    "FromWorker",
    "Hello",
    "HelloReply",
    "Hold",
    "Load",
    "LoadFailed",
    "Log",
    "Open",
    "Opened",
    "Outputs",
    "Ping",
    "Pong",
    "Progress",
    "Ready",
    "Shutdown",
    "ToWorker",
    "Units",
    "Update",
    "same_major",
]
