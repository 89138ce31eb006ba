"""Whole turns on the bench, as most laws need them."""

from __future__ import annotations

from duplex_sdk.stage import Json

from .bench import BenchSession, StageBench
from .said import Answer, answer
from .subject import Subject

__all__ = ["hear", "no_failures", "run_alone", "take_turn", "take_turns_together"]


def hear(session: BenchSession, since: int = 0) -> Answer:
    """What a session was answered, from output number ``since`` on."""
    return answer(session.said[since:])


def take_turn(subject: Subject, bench: StageBench, session_id: str, number: int) -> Answer:
    """The user says turn ``number`` of the suite, then waits for the answer."""
    session = bench.sessions[session_id]
    since = len(session.said)
    bench.say(session_id, subject.turn(number))
    bench.listen(subject.settings.answers_within_s, session_id)
    session.turn_id += 1
    return hear(session, since)


def take_turns_together(
    subject: Subject, bench: StageBench, turns: dict[str, int]
) -> dict[str, Answer]:
    """The users of several sessions each say a turn of the suite, at the same time."""
    since = {session_id: len(bench.sessions[session_id].said) for session_id in turns}
    bench.say_all({session_id: subject.turn(number) for session_id, number in turns.items()})
    bench.listen(subject.settings.answers_within_s, *turns)
    for session_id in turns:
        bench.sessions[session_id].turn_id += 1
    return {session_id: hear(bench.sessions[session_id], at) for session_id, at in since.items()}


def run_alone(
    subject: Subject, session_id: str, *numbers: int, late_s: float = 0.0, **changes: Json
) -> list[Answer]:
    """A session of its own takes some turns and is closed; each step is ``late_s`` too late."""
    with StageBench(subject, late_s=late_s) as bench:
        bench.open(session_id, **changes)
        return [take_turn(subject, bench, session_id, number) for number in numbers]


def no_failures(session: BenchSession) -> str | None:
    """What failed in a session, in words; None: nothing."""
    return "; ".join(f"{error.code}: {error.message}" for error in session.errors) or None
