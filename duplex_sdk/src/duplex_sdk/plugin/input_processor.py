"""A filter in front of the ear, such as an echo canceller."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duplex_sdk.audio import PcmChunk

__all__ = ["InputProcessor"]


class InputProcessor(ABC):
    """Works on one session's input before the speech detector hears it.

    At most one call is under way at a time. An exception switches it off for the session.
    """

    @abstractmethod
    def process(self, audio: PcmChunk) -> PcmChunk:
        """The input, cleaned; of the same length and rate."""

    @abstractmethod
    def played(self, audio: PcmChunk, start_ms: float) -> None:
        """The client plays this from ``start_ms`` of the session's input clock on."""
