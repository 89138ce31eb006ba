"""A frame as the socket delivers it, read by the codec."""

from __future__ import annotations

from duplex_sdk.protocol.duplex import ClientFrame, RealtimeProtocolError, decode_command

__all__ = ["decode_client_frame"]


def decode_client_frame(frame: str | bytes, *, max_bytes: int, first: bool = False) -> ClientFrame:
    """Decode a text frame.

    Args:
        frame: as received; binary ones are bytes.
        max_bytes: longest frame, in bytes of UTF-8.
        first: it is the first frame of its socket.

    Raises:
        RealtimeProtocolError: it is binary, or the codec refuses it.
    """
    if isinstance(frame, bytes):
        raise RealtimeProtocolError("bad_event", "frames are JSON text, not binary")
    return decode_command(frame, first=first, max_bytes=max_bytes)
