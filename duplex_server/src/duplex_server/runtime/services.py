"""What every runner of one engine shares."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duplex_sdk.plugin import DuplexModelPlugin, DuplexStagePort
    from duplex_sdk.session.effects import AnswerControl
    from duplex_sdk.session.ids import IdSource

    from .detection import Detection
    from .lateness import Lateness
    from .offload import Offload
    from .timers import Timers

__all__ = ["EngineServices", "RunnerOwner"]


@dataclass(frozen=True, slots=True)
class EngineServices:
    """The engine's loop, clock and helpers; all of them are used from the loop only.

    Attributes:
        loop: the engine's.
        clock: seconds, the only clock of the session layer.
        timers: deadlines on that clock.
        offload: threads for slow synchronous work.
        detection: rates what the sessions hear.
        port: the stages.
        plugin: the model's light half.
        ids: where ids come from.
        lateness: how far models are behind, for people.
        call_timeout_s: how long an effect may take before its outcome is "timed out".
    """

    loop: asyncio.AbstractEventLoop
    clock: Callable[[], float]
    timers: Timers
    offload: Offload
    detection: Detection
    port: DuplexStagePort
    plugin: DuplexModelPlugin
    ids: IdSource
    lateness: Lateness
    call_timeout_s: float


class RunnerOwner(ABC):
    """Hears what a session says about its own life. Called on the loop, from inside ``feed``."""

    @abstractmethod
    def control_answered(self, session_id: str, answer: AnswerControl) -> None:
        """The session answered a lease operation."""

    @abstractmethod
    def session_closing(self, session_id: str) -> None:
        """The session takes no more commands."""

    @abstractmethod
    def session_ended(self, session_id: str, released: bool, request_ids: tuple[str, ...]) -> None:
        """The terminal event is out; without ``released`` its stage cleanup is still owed."""
