"""A session on the bench with the loaded model, and conversations with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from duplex_sdk.audio import float_to_pcm16
from duplex_sdk.errors import DuplexError
from duplex_sdk.protocol.duplex import (
    AudioDelta,
    Commit,
    CreateResponse,
    DuplexEvent,
    ErrorEvent,
    FunctionCallArgumentsDone,
    ResponseDone,
    TextDelta,
    TranscriptDelta,
)
from duplex_sdk.session import inputs
from duplex_sdk.stage import StageOutput
from duplex_sdk.testing.invariants import SessionWatch
from duplex_sdk.testing.shared_lab import SharedLab

from .breach import LawBrokenError, breach, require
from .subject import Subject

__all__ = ["ModelLab", "completed", "no_errors", "says_something"]

_ANSWERS = (AudioDelta, TextDelta, TranscriptDelta, FunctionCallArgumentsDone)

_BREAKS = (
    "the traceback above says where; text must be whole characters, and what a hook returns what"
    " its docstring says"
)

_LEDGERS = (
    "the session core keeps these ledgers by what the model hands out: look for outputs that belong"
    " to another session or turn; if there are none the fault is ours, please report it"
)


class ModelLab(SharedLab):
    """The real session core around a model that is loaded already, under watch.

    Attributes:
        watched: holds the laws of the session core against every step.
        outputs: of the stages, those that are for the client, in order.
        said_at: when the last of them had words or sound, seconds of the lab's clock.
    """

    def __init__(
        self, subject: Subject, session: Mapping[str, Any] | None = None, **options: Any
    ) -> None:
        self._subject = subject
        self.outputs: list[StageOutput] = []
        self.said_at = 0.0
        wanted = {**subject.usual_session, **(session or {})}
        try:
            super().__init__(subject.models, subject.plugin, wanted, **options)
        except DuplexError as error:
            breach(
                f"a session does not open: {error}",
                "a session without any wishes must be welcome: the hooks that are asked at its"
                " opening may not count on what the client says",
            )
        self.watched = SessionWatch(self)

    def __enter__(self) -> ModelLab:
        return self

    def __exit__(self, *raised: object) -> None:
        super().__exit__(*raised)
        error = raised[1]
        if isinstance(error, LawBrokenError) or not isinstance(error, Exception):
            return
        if isinstance(error, AssertionError):
            problem = f"a ledger of the session does not add up: {error}"
            raise LawBrokenError(problem, _LEDGERS) from error
        problem = f"a session breaks: {type(error).__name__}: {error}"
        raise LawBrokenError(problem, _BREAKS) from error

    def feed(self, item: inputs.Input) -> None:
        """As ``SessionLab`` does it; outputs are noted."""
        if isinstance(item, inputs.StageOutputReceived) and (
            item.is_last or item.shown or item.decision is not None
        ):
            self.outputs.append(item.output)
            if item.output.text or item.output.audio:
                self.said_at = self.now
        super().feed(item)

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

    def wait_for_audio(self, pieces: int = 1) -> bool:
        """Time passes until so much audio was heard; false when no more comes."""
        for _ in range(round(self._subject.settings.answers_within_s / 0.02)):
            if sum(isinstance(event, AudioDelta) for event in self.events) >= pieces:
                return True
            self.wait(0.02)
        return False

    def detach(self) -> None:
        """The client's connection breaks."""
        self.feed(inputs.LeaseDetached("detach", self.session.state.lease.generation))

    def resume(self) -> None:
        """The client comes back."""
        self.feed(inputs.LeaseResumed("resume", self.session.state.lease.generation))

    @property
    def failed(self) -> str:
        """What the models failed of, in words."""
        return "; ".join(f"{error.code}: {error.message}" for error in self.stages.failures)

    @property
    def statuses(self) -> list[str]:
        """How the responses ended, in order."""
        return [event.response.status for event in self.events if isinstance(event, ResponseDone)]


def completed(statuses: Sequence[str], turns: int) -> bool:
    """Whether so many turns were answered well; a turn in which a function is called has more."""
    return len(statuses) >= turns and set(statuses) <= {"completed"}


def says_something(events: Iterable[DuplexEvent]) -> bool:
    """Whether there was anything to hear, read or do."""
    return any(isinstance(event, _ANSWERS) for event in events)


def no_errors(lab: ModelLab) -> None:
    """The client was told of no error."""
    errors = [event.error.message for event in lab.events if isinstance(event, ErrorEvent)]
    require(
        not errors,
        f"the client was told of errors: {'; '.join(map(str, errors))}",
        "the log above has the traceback; what one unit cannot be is unit.failed(), and no call of"
        " the model or hook of the plugin raises",
    )
