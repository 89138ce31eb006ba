"""Frames of many sessions, rated together: one call of the detector per turn of the loop.

A call gives up the interpreter and then waits to get it back from whatever thread took it, which
on a busy server lasts far longer than the rating. Sixteen people who talk make 500 frames a second;
the busier the loop, the more of them meet in one call.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from duplex_sdk.session.inputs import AudioDecoded

from .ear import HeardAudio
from .offload import Outcome
from .vad import VadState

__all__ = ["Detection"]

logger = logging.getLogger(__name__)

MOST_AT_ONCE = 32
"""About a millisecond's worth: longer would hold up a cancel."""

Report = Callable[[Outcome[AudioDecoded]], None]


class Detection:
    """Rates what the ears of one engine have heard. Belongs to the engine's loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: list[tuple[HeardAudio, Report]] = []
        self._armed = False

    def add(self, heard: HeardAudio, report: Report) -> None:
        """Rate all frames of ``heard`` and ``report`` its outcome, in a later turn of the loop."""
        self._waiting.append((heard, report))
        self._arm()

    def _arm(self) -> None:
        if not self._armed:
            self._armed = True
            self._loop.call_soon(self._rate_some)

    def _rate_some(self) -> None:
        """One frame of each session, so that no turn of the loop gets long."""
        self._armed = False
        batch = self._waiting[:MOST_AT_ONCE]
        del self._waiting[:MOST_AT_ONCE]
        for (heard, report), outcome in zip(batch, _rate([each for each, _ in batch]), strict=True):
            if outcome is None:
                self._waiting.append((heard, report))
            else:
                report(Outcome(outcome))
        if self._waiting:
            self._arm()


def _rate(heard: Sequence[HeardAudio]) -> list[AudioDecoded | None]:
    """Rate the next frame of each; what came of those that are through, None for the others."""
    try:
        _take(heard, heard[0].backend.infer_batch([each.next_frame() for each in heard]))
    except Exception:
        logger.warning("rating %d frames together failed; each is tried alone", len(heard))
        return [each.rate_alone() for each in heard]
    return [each.outcome() for each in heard]


def _take(heard: Sequence[HeardAudio], ratings: Sequence[tuple[float, VadState]]) -> None:
    for each, (probability, state) in zip(heard, ratings, strict=True):
        each.rated(probability, state)
