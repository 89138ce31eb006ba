"""A session on the bench with the loaded model, and conversations with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from duplex_sdk.audio import float_to_pcm16
from duplex_sdk.protocol.duplex import AudioDelta, Commit, CreateResponse, ResponseDone
from duplex_sdk.testing.invariants import SessionWatch
from duplex_sdk.testing.shared_lab import SharedLab

from .subject import Subject

__all__ = ["ModelLab"]


class ModelLab(SharedLab):
    """The real session core around a model that is loaded already, under watch.

    Attributes:
        watched: holds the laws of the session core against every step.
    """

    def __init__(self, subject: Subject, session: Mapping[str, Any] | None = None) -> None:
        self._subject = subject
        wanted = {**subject.settings.session, **(session or {})}
        super().__init__(subject.models, subject.plugin, wanted)
        self.watched = SessionWatch(self)

    def __enter__(self) -> ModelLab:
        return self

    def begin_turn(self, number: int) -> None:
        """The user speaks; in turn mode the turn is committed and an answer asked for."""
        self.append(float_to_pcm16(self._subject.turn(number).numpy()))
        if not self._subject.native:
            self.send(Commit(), CreateResponse())

    def wait(self, seconds: float) -> None:
        """Time passes; to a native model its user is silent meanwhile."""
        if self._subject.native:
            self.pause(seconds * 1000)
        else:
            self.run(seconds * 1000)

    def take_turn(self, number: int) -> None:
        """The user speaks and waits for the answer."""
        self.begin_turn(number)
        self.wait(self._subject.settings.answers_within_s)

    def wait_for_audio(self) -> bool:
        """Time passes until some audio of an answer was heard; false when none comes."""
        for _ in range(round(self._subject.settings.answers_within_s / 0.02)):
            if any(isinstance(event, AudioDelta) for event in self.events):
                return True
            self.wait(0.02)
        return False

    @property
    def statuses(self) -> list[str]:
        """How the responses ended, in order."""
        return [event.response.status for event in self.events if isinstance(event, ResponseDone)]
