"""OpenAI's Realtime API as it stands: events, commands, formats, items, the error envelope.

For those who speak nothing else. Whoever speaks to a full-duplex session imports
``duplex_sdk.protocol.duplex`` instead, which hands out all of this and what is added to it.
"""

from __future__ import annotations

from .commands import REALTIME_COMMANDS, RealtimeCommand
from .decode import decode_command, decode_event
from .errors import ErrorType, RealtimeProtocolError
from .events import REALTIME_EVENTS, RealtimeEvent

__all__ = [
    "REALTIME_COMMANDS",
    "REALTIME_EVENTS",
    "ErrorType",
    "RealtimeCommand",
    "RealtimeEvent",
    "RealtimeProtocolError",
    "decode_command",
    "decode_event",
]
