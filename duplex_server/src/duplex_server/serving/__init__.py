"""Transport only: sockets, profiles, doors and figures. No session state."""

from __future__ import annotations

from .app import DuplexApp
from .asgi import ServingOptions
from .attachments import AttachmentRegistry
from .envelope import ConnectionEnvelope
from .extensions import ServerExtensions, find_extensions
from .metrics import ServingMetrics
from .profiles import ConnectionProfile, DuplexProfile, OpenAIProfile
from .realtime import ConnectionLimits, OmniDuplexSessionHandler
from .turn_app import TurnApp
from .websocket import RealtimeSocket, SocketGone

__all__ = [
    "AttachmentRegistry",
    "ConnectionEnvelope",
    "ConnectionLimits",
    "ConnectionProfile",
    "DuplexApp",
    "DuplexProfile",
    "OmniDuplexSessionHandler",
    "OpenAIProfile",
    "RealtimeSocket",
    "ServerExtensions",
    "ServingMetrics",
    "ServingOptions",
    "SocketGone",
    "TurnApp",
    "find_extensions",
]
