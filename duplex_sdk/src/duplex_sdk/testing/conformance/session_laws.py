"""Laws of whole sessions in virtual time: the real session core around the author's model."""

from __future__ import annotations

from typing import Any

from duplex_sdk.protocol.duplex import (
    BargeIn,
    CancelResponse,
    CloseSession,
    ErrorEvent,
    RealtimeCommand,
    SessionClosed,
)

from .breach import breach, does_not_apply, require
from .lab import ModelLab
from .subject import Subject

__all__ = ["SessionLaws"]


class SessionLaws:
    """A client that speaks, interrupts and leaves sees what the protocol promises."""

    def test_a_conversation_keeps_the_session_sound(self, conformance: Subject) -> None:
        """Two turns, each ledger of the session watched at every step."""
        with ModelLab(conformance) as lab:
            for number in range(2):
                lab.take_turn(number)
            _no_errors(lab)
            if conformance.native:
                return
            require(
                lab.statuses == ["completed", "completed"],
                f"two turns ended {lab.statuses}",
                "let each answer come to rest; failures are told in the log of the run",
            )
            lab.watched.at_rest()

    def test_a_cancel_ends_the_response(self, conformance: Subject) -> None:
        """``response.cancel`` ends the answer, and the next turn has one of its own."""
        self._interrupted_by(conformance, CancelResponse())

    def test_a_barge_in_ends_the_response(self, conformance: Subject) -> None:
        """``barge_in`` does the same for a user who speaks over the answer."""
        conformance.needs("barge_in")
        self._interrupted_by(conformance, BargeIn())

    @staticmethod
    def _interrupted_by(subject: Subject, command: RealtimeCommand) -> None:
        if subject.native:
            does_not_apply("when a native model speaks is its own affair")
        over_time = _answers_over_time(subject)
        with ModelLab(subject) as lab:
            lab.begin_turn(0)
            if over_time:
                lab.wait_for_audio()
            lab.send(command)
            lab.wait(0.1)
            require(
                lab.statuses == ["cancelled"],
                f"an interrupted response ended {lab.statuses}",
                "nothing in cancel() may raise; say the end of a turn in the epoch it belongs to",
            )
            lab.take_turn(1)
            require(
                lab.statuses == ["cancelled", "completed"],
                f"the responses ended {lab.statuses}",
                "after cancel() the state must be ready for a new turn",
            )
            lab.watched.at_rest()

    def test_a_closed_session_is_released(self, conformance: Subject) -> None:
        """A close in the middle of an answer ends everything, and nothing follows it."""
        with ModelLab(conformance) as lab:
            lab.begin_turn(0)
            lab.wait(0.05)
            lab.send(CloseSession())
            lab.run(1000)
            require(
                bool(lab.events) and isinstance(lab.events[-1], SessionClosed),
                f"after a close the session said {lab.types()[-3:]}",
                "close() must return; what it raises is logged",
            )
            lab.watched.at_rest()

    def test_the_same_conversation_gives_the_same_events(self, conformance: Subject) -> None:
        """With the same ids and seeds everything a client reads is the same."""
        first, again = (_told(conformance) for _ in range(2))
        for number, (one, other) in enumerate(zip(first, again, strict=False)):
            if one != other:
                breach(
                    f"event {number} is {other} instead of {one}",
                    "draw random numbers from StageSession.seed, read no clock but `now`",
                )
        require(
            len(first) == len(again),
            f"{len(again)} events instead of {len(first)}",
            "draw random numbers from StageSession.seed, read no clock but `now`",
        )


def _answers_over_time(subject: Subject) -> bool:
    """Whether an answer is still under way once its first audio was heard."""
    with ModelLab(subject) as lab:
        lab.begin_turn(0)
        return lab.wait_for_audio() and not lab.statuses


def _no_errors(lab: ModelLab) -> None:
    errors = [event.error.message for event in lab.events if isinstance(event, ErrorEvent)]
    require(
        not errors,
        f"the client was told of errors: {'; '.join(map(str, errors))}",
        "the log above has the traceback",
    )


def _told(subject: Subject) -> list[Any]:
    with ModelLab(subject) as lab:
        for number in range(2):
            lab.take_turn(number)
    return [_plain(event.to_realtime()) for event in lab.events]


def _plain(event: dict[str, Any]) -> dict[str, Any]:
    """An event with sound by its length: the last bit of a sample is nobody's promise."""
    if event["type"] == "response.output_audio.delta":
        return {**event, "delta": len(event["delta"])}
    return event
