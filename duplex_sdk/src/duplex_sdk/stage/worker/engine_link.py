"""The worker's end of the stream, with blocking calls."""

from __future__ import annotations

import socket
import threading

from .framing import FrameReader, FrameWriter
from .messages import FromWorker, ToWorker

__all__ = ["EngineLink", "LinkLostError"]


class LinkLostError(Exception):
    """The engine is gone."""


class EngineLink:
    """A stream to the engine. ``send`` may be called from any thread, ``receive`` from one."""

    def __init__(self, stream: socket.socket) -> None:
        self._stream = stream
        self._reader: FrameReader[ToWorker] = FrameReader(ToWorker)
        self._writer = FrameWriter()
        self._lock = threading.Lock()

    def send(self, *messages: FromWorker) -> None:
        """Send messages in one piece; waits while the engine does not read.

        Raises:
            LinkLostError: the engine is gone.
            FrameError: one is too long; none is sent.
            TypeError: one holds what msgpack does not carry; none is sent.
            OverflowError: the same.
        """
        with self._lock:
            try:
                for message in messages:
                    self._writer.add(message)
            except Exception:
                self._writer.take()
                raise
            try:
                self._stream.sendall(self._writer.take())
            except OSError as error:
                raise LinkLostError(str(error)) from error

    def receive(self) -> list[ToWorker]:
        """Wait for bytes; the messages they complete, maybe none yet.

        Raises:
            LinkLostError: the engine is gone.
            FrameError: it talks nonsense.
        """
        try:
            count = self._stream.recv_into(self._reader.room())
        except OSError as error:
            raise LinkLostError(str(error)) from error
        if not count:
            raise LinkLostError("the engine closed the stream")
        return self._reader.received(count)

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()
