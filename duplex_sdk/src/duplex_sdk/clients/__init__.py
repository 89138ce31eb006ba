"""Talk to a full-duplex speech server: sessions, events, responses, playback.

Importing this package loads neither numpy nor anything of the server or the plugin side.
"""

from __future__ import annotations

from .base import DuplexClientBase
from .errors import (
    ClientConnectionError,
    ClientError,
    ClientProtocolError,
    ClientSessionClosedError,
    SubscriberOverflowError,
)
from .playback import PlaybackQueue, PlayedAudio, audio_ms
from .responses import ResponseHandle, ResponseStream
from .streams import BoundedStream, OverflowPolicy
from .websocket import DuplexClient, Socket

__all__ = [
    "BoundedStream",
    "ClientConnectionError",
    "ClientError",
    "ClientProtocolError",
    "ClientSessionClosedError",
    "DuplexClient",
    "DuplexClientBase",
    "OverflowPolicy",
    "PlaybackQueue",
    "PlayedAudio",
    "ResponseHandle",
    "ResponseStream",
    "Socket",
    "SubscriberOverflowError",
    "audio_ms",
]
