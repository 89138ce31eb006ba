"""What a plugin remembers of one session."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .buffer import PcmAppendBuffer

__all__ = ["DuplexModelSessionState"]


class DuplexModelSessionState:
    """One session's memory on the plugin's side. Subclass it for what a data plane must keep.

    Attributes:
        audio_buffer: cuts the session's input into units.
    """

    def __init__(self, audio_buffer: PcmAppendBuffer) -> None:
        self.audio_buffer = audio_buffer
