"""What a person is told while models load."""

from __future__ import annotations

import logging

__all__ = ["LoadingLog"]

_STEP = 0.05

logger = logging.getLogger(__name__)


class LoadingLog:
    """Logs progress: each new thing that is loaded, and of a long one every twentieth part.

    Called on the engine's thread with 0..1 over all stages and what is being loaded.
    """

    def __init__(self) -> None:
        self._text = ""
        self._told = 0.0

    def __call__(self, fraction: float, text: str) -> None:
        """Take news of the progress."""
        if text == self._text and fraction - self._told < _STEP:
            return
        self._text, self._told = text, fraction
        logger.info("loading: %3.0f %% %s", fraction * 100, text)
