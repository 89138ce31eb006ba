"""Talk to a full-duplex speech server: sessions, events, responses, playback.

Importing this package loads neither numpy nor anything of the server or the plugin side.
"""

from __future__ import annotations

from .base import DuplexClientBase
from .connection_events import ConnectionLost, ConnectionResumed
from .errors import (
    ClientAddressError,
    ClientConnectionError,
    ClientError,
    ClientProtocolError,
    ClientSessionClosedError,
    ResumeRefusedError,
    SubscriberOverflowError,
)
from .playback import PlaybackQueue
from .player import ApplicationPlayer, ClockPlayer, PlayedAudio, Player, audio_ms
from .receipts import Receipt
from .responses import ResponseHandle, ResponseStream
from .resume import Reconnect
from .socket import Socket
from .streams import BoundedStream, OverflowPolicy
from .trace import Direction, TracedFrame, WireTrace
from .websocket import DuplexClient

__all__ = [
    "ApplicationPlayer",
    "BoundedStream",
    "ClientAddressError",
    "ClientConnectionError",
    "ClientError",
    "ClientProtocolError",
    "ClientSessionClosedError",
    "ClockPlayer",
    "ConnectionLost",
    "ConnectionResumed",
    "Direction",
    "DuplexClient",
    "DuplexClientBase",
    "OverflowPolicy",
    "PlaybackQueue",
    "PlayedAudio",
    "Player",
    "Receipt",
    "Reconnect",
    "ResponseHandle",
    "ResponseStream",
    "ResumeRefusedError",
    "Socket",
    "SubscriberOverflowError",
    "TracedFrame",
    "WireTrace",
    "audio_ms",
]
