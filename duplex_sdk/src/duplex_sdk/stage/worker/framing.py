"""Frames on a byte stream: 4 bytes of length, little endian, then one msgpack message."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import msgspec

from duplex_sdk.errors import DuplexError

__all__ = ["MAX_FRAME_BYTES", "FrameError", "FrameReader", "FrameWriter", "encoded_size"]

MAX_FRAME_BYTES = 64 * 1024 * 1024
"""The longest message a frame may carry."""

_HEADER = struct.Struct("<I")
_NO_LENGTH = bytes(_HEADER.size)
_BUFFER_BYTES = 256 * 1024

T = TypeVar("T")


class FrameError(DuplexError):
    """A frame is too long, or holds nothing that belongs here: the stream is of no further use."""


def encoded_size(message: object) -> int:
    """How many bytes a message has; raises what ``FrameWriter.add`` raises."""
    return len(msgspec.msgpack.encode(message, enc_hook=_plain))


def _plain(value: object) -> object:
    # What plugins are handed is read-only, by whatever kind of mapping; here it is a copy anyway.
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a {type(value).__name__} cannot cross between processes")


class FrameWriter:
    """Collects messages as frames, to be sent in one piece."""

    def __init__(self) -> None:
        self._encoder = msgspec.msgpack.Encoder(enc_hook=_plain)
        self._frames = bytearray()

    def add(self, message: object) -> None:
        """Append a message; one that is refused leaves no trace.

        Raises:
            FrameError: it is longer than a frame may be.
            TypeError: it holds something that msgpack does not carry.
            OverflowError: it holds a number that msgpack does not carry.
        """
        frames, start = self._frames, len(self._frames)
        frames += _NO_LENGTH
        try:
            self._encoder.encode_into(message, frames, -1)
            length = len(frames) - start - _HEADER.size
            if length > MAX_FRAME_BYTES:
                raise FrameError(f"a message of {length} bytes is longer than a frame may be")
        except Exception:
            del frames[start:]
            raise
        _HEADER.pack_into(frames, start, length)

    def take(self) -> bytearray:
        """All frames since the last call; empty: there are none."""
        frames, self._frames = self._frames, bytearray()
        return frames


class FrameReader(Generic[T]):
    """Cuts what is received into messages. The buffer is kept from one read to the next.

    Put bytes into ``room()`` and say with ``received`` how many there are. Messages hold copies,
    so they outlive the buffer.
    """

    def __init__(self, messages: Any) -> None:
        """``messages``: the union of the types that may come."""
        self._decoder: msgspec.msgpack.Decoder[T] = msgspec.msgpack.Decoder(messages)
        self._buffer = bytearray(_BUFFER_BYTES)
        self._start = 0
        self._end = 0

    def room(self) -> memoryview:
        """Where the next bytes go; never empty."""
        if self._end == len(self._buffer):
            self._make_room(self._end - self._start + _HEADER.size)
        return memoryview(self._buffer)[self._end :]

    def received(self, count: int) -> list[T]:
        """The messages that these many new bytes complete.

        Raises:
            FrameError: what was received is no such message.
        """
        self._end += count
        messages: list[T] = []
        while (length := self._next_length()) is not None:
            start = self._start + _HEADER.size
            if self._end - start < length:
                self._make_room(_HEADER.size + length)
                break
            try:
                messages.append(
                    self._decoder.decode(memoryview(self._buffer)[start : start + length])
                )
            except (msgspec.DecodeError, ValueError) as error:
                raise FrameError(f"a frame holds no message: {error}") from error
            self._start = start + length
        if self._start == self._end:
            self._forget()
        return messages

    def _next_length(self) -> int | None:
        if self._end - self._start < _HEADER.size:
            return None
        length: int = _HEADER.unpack_from(self._buffer, self._start)[0]
        if length > MAX_FRAME_BYTES:
            raise FrameError(f"a frame of {length} bytes is longer than frames may be")
        return length

    def _make_room(self, needed: int) -> None:
        """Have ``needed`` bytes from the first one on that was not read yet."""
        if len(self._buffer) - self._start >= needed and self._end < len(self._buffer):
            return
        rest = self._buffer[self._start : self._end]
        if needed > len(self._buffer):
            # Never resized in place: whoever receives may still hold a view of it.
            self._buffer = bytearray(needed)
        self._buffer[: len(rest)] = rest
        self._start, self._end = 0, len(rest)

    def _forget(self) -> None:
        self._start = self._end = 0
        if len(self._buffer) > _BUFFER_BYTES:
            # One long frame should not cost its length for ever.
            self._buffer = bytearray(_BUFFER_BYTES)
