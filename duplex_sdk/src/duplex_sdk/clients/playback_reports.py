"""Tells the server how far a player came, so that the conversation holds what was heard."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable

from duplex_sdk.protocol.duplex import AudioDelta, DuplexEvent, OutputAudioCleared, ResponseDone

from .errors import ClientError
from .player import PlayedAudio, Player

__all__ = ["PlaybackReporter"]

_log = logging.getLogger(__name__)


class PlaybackReporter:
    """Feeds one player and reports its position: at intervals while it plays, at once on a stop.

    The first report of a response says 0: from then on the server knows that only what is
    reported was heard, also when the first words are interrupted. Belongs to the client's loop.

    Args:
        player: fed with every event.
        tell: called with every progress, in order; a ``ClientError`` of it ends the reports.
        interval_s: between two reports while something plays.
    """

    def __init__(
        self,
        player: Player,
        tell: Callable[[PlayedAudio], Awaitable[object]],
        *,
        interval_s: float,
    ) -> None:
        self.player = player
        self._tell = tell
        self._interval_s = interval_s
        self._told_ms: dict[str, int] = {}
        self._unheard: dict[str, PlayedAudio] = {}
        self._due = asyncio.Event()
        self._stopped = asyncio.Event()
        self._telling = asyncio.Lock()
        self._muted: set[str] = set()
        self._failed = False

    def take(self, event: DuplexEvent) -> None:
        """Pass an event on to the player; a player that fails is fed no more. Never raises."""
        if self._failed or self._is_muted(event):
            return
        try:
            self.player.feed(event)
        except Exception:
            self._give_up_player()
            return
        if isinstance(event, AudioDelta):
            self._began(event)
        elif isinstance(event, ResponseDone | OutputAudioCleared):
            self._due.set()
            self._stopped.set()

    def silence(self, unfinished: Iterable[str]) -> None:
        """Stop the player now; what still comes of ``unfinished`` responses is not played."""
        self._muted.update(unfinished)
        self.player.stop(None)

    async def run(self) -> None:
        """Report until cancelled, or until nobody listens any more."""
        with contextlib.suppress(ClientError):
            while True:
                await self._due.wait()
                self._due.clear()
                self._stopped.clear()
                await self.tell()
                if not self.player.silent:
                    self._due.set()
                    await self._pause()

    async def tell(self) -> None:
        """Report what is new.

        Raises:
            ClientError: nobody can be told any more.
        """
        async with self._telling:
            unheard, self._unheard = self._unheard, {}
            for report in (*unheard.values(), *self._new_reports()):
                if report.played_ms > self._told_ms.get(report.response_id, -1):
                    self._told_ms[report.response_id] = report.played_ms
                    await self._tell(report)
            if self.player.silent:
                self._told_ms.clear()

    def _new_reports(self) -> tuple[PlayedAudio, ...]:
        if self._failed:
            return ()
        try:
            return self.player.reports()
        except Exception:
            self._give_up_player()
            return ()

    def _give_up_player(self) -> None:
        self._failed = True
        _log.exception("a player failed and gets no more audio")

    def _is_muted(self, event: DuplexEvent) -> bool:
        if isinstance(event, ResponseDone):
            self._muted.discard(event.response_id)
        return isinstance(event, AudioDelta) and event.response_id in self._muted

    async def _pause(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._interval_s):
                await self._stopped.wait()

    def _began(self, event: AudioDelta) -> None:
        if event.response_id not in self._told_ms and event.response_id not in self._unheard:
            self._unheard[event.response_id] = PlayedAudio(
                event.response_id, event.item_id, 0, cut=False
            )
            self._due.set()
