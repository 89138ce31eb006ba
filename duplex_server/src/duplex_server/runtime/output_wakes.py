"""Readers are woken once per turn of the engine's loop, all those of one loop together."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING

from .loop_calls import call_on

if TYPE_CHECKING:
    from .output_buffer import DuplexOutputBuffer

__all__ = ["EACH_ALONE", "OutputWakes", "Wakes"]


class Wakes(ABC):
    """Who has readers woken. Safe to call from any thread."""

    @abstractmethod
    def note(self, buffer: DuplexOutputBuffer) -> None:
        """This buffer has something for its reader."""


class _EachAlone(Wakes):
    def note(self, buffer: DuplexOutputBuffer) -> None:
        loop = buffer.reader_loop
        if loop is not None:
            call_on(loop, buffer.wake_reader)


EACH_ALONE = _EachAlone()
"""For buffers that belong to no engine: each reader is woken by itself, at once."""


class OutputWakes(Wakes):
    """Collects the buffers whose readers must be woken. Safe to call from any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._noted: dict[DuplexOutputBuffer, None] = {}
        self._armed = False

    def note(self, buffer: DuplexOutputBuffer) -> None:
        """This buffer has something for its reader."""
        self._noted[buffer] = None
        if self._armed:
            return
        self._armed = True
        try:
            on_the_loop = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            on_the_loop = False
        if on_the_loop:
            self._loop.call_soon(self.flush)
        elif not self._loop.is_closed():
            call_on(self._loop, self.flush)
        else:
            self.flush()

    def flush(self) -> None:
        """Wake the readers noted so far."""
        self._armed = False
        by_loop: dict[asyncio.AbstractEventLoop, list[DuplexOutputBuffer]] = {}
        while self._noted:
            buffer, _ = self._noted.popitem()
            loop = buffer.reader_loop
            if loop is not None:
                by_loop.setdefault(loop, []).append(buffer)
        for loop, buffers in by_loop.items():
            call_on(loop, partial(_wake, buffers))


def _wake(buffers: list[DuplexOutputBuffer]) -> None:
    for buffer in buffers:
        buffer.wake_reader()
