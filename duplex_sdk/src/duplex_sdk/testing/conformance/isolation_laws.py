"""Laws of sessions side by side and one after the other, and of how they end."""

from __future__ import annotations

import gc
import threading
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

from duplex_sdk.stage import StageModel

from .bench import StageBench
from .breach import breach, does_not_apply, require
from .conversation import hear, no_failures, run_alone, take_turn, take_turns_together
from .said import Answer
from .subject import Subject

__all__ = ["IsolationLaws"]

TOGETHER = 3
AGAIN = 6


class IsolationLaws:
    """Sessions share weights and nothing else; a cancel and a close end what they should."""

    def test_the_same_run_gives_the_same_answer(self, conformance: Subject) -> None:
        """Nothing but the input and the session's seed decides what is said."""
        first = run_alone(conformance, "same", 0, 1)
        _same(
            conformance,
            first,
            run_alone(conformance, "same", 0, 1),
            "the same session, run twice, was answered differently",
            "draw random numbers from a generator made of StageSession.seed, read no clock but"
            " `now`, and keep nothing on the model between sessions",
        )

    def test_a_new_session_knows_nothing_of_an_old_one(self, conformance: Subject) -> None:
        """A reused row is as good as new."""
        first = run_alone(conformance, "fresh", 0)
        run_alone(conformance, "another", 1, 2)
        _same(
            conformance,
            first,
            run_alone(conformance, "fresh", 0),
            "a session was answered differently after another one had been there",
            "keep what belongs to a session in the state that open() returns, and make it anew"
            " there",
        )

    def test_batch_mates_change_nothing(self, conformance: Subject) -> None:
        """What a session is answered does not depend on who else is in the batch."""
        conformance.needs("multi_session")
        names = [f"mate {number}" for number in range(min(TOGETHER, conformance.spec.max_sessions))]
        turns = {name: number for number, name in enumerate(names)}
        alone = [run_alone(conformance, name, number) for name, number in turns.items()]
        with StageBench(conformance) as bench:
            for name in names:
                bench.open(name)
            together = take_turns_together(conformance, bench, turns)
            failed = [no_failures(bench.sessions[name]) for name in names]
        require(
            not any(failed),
            f"sessions side by side fail: {[each for each in failed if each]}",
            "units of several sessions may lie in one step(); states are never shared",
        )
        for before, name in zip(alone, names, strict=True):
            _same(
                conformance,
                before,
                [together[name]],
                "a session was answered differently when others were in the batch",
                "index everything by unit.state; no attribute of the model may hold what one unit"
                " brought until another one reads it",
            )

    def test_a_cancel_stops_the_answer(self, conformance: Subject) -> None:
        """What was still to be said when the cancel came is never said."""
        if conformance.capabilities.cancel_effect == "mutes":
            does_not_apply("the model says that it cannot be stopped (cancel_effect 'mutes')")
        whole = run_alone(conformance, "cancel", 0, 1)
        for point in _points(conformance):
            before, after = _cancelled(conformance, point)
            rest = _rest(whole[0], before)
            require(
                not (_goes_on(rest, after) and not _goes_on(rest, whole[1])),
                f"cancelled after step {point}, the old answer went on in the next turn",
                "drop in cancel() what the state still holds of the answer; the context of the"
                " conversation stays",
            )

    def test_a_session_goes_on_after_a_cancel(self, conformance: Subject) -> None:
        """Cancelled at any point, the next turn is served like any other."""
        expected = run_alone(conformance, "cancel", 0, 1)[1].says_something
        for point in _points(conformance):
            _, after = _cancelled(conformance, point)
            require(
                not after.errors and after.says_something >= expected,
                f"cancelled after step {point}, the next turn was not answered:"
                f" {'; '.join(after.errors) or 'no output'}",
                "cancel() ends the answer, not the session: leave the state ready for a new turn",
            )

    def test_a_closed_session_takes_nothing_down(self, conformance: Subject) -> None:
        """A close in the middle of an answer touches nobody else, and raises nothing."""
        for point in _points(conformance):
            with StageBench(conformance) as bench:
                bench.open("silent")
                bench.close("silent")
                bench.open("leaves")
                _speak_and_step(conformance, bench, "leaves", point)
                bench.close("leaves")
                bench.open("stays")
                take_turn(conformance, bench, "stays", 1)
                failed = no_failures(bench.sessions["stays"])
            require(
                not bench.close_failures,
                f"close() raised when its session ended after step {point}",
                "close() is called once for each open(), whatever the state went through",
            )
            require(
                not failed,
                f"after a close at step {point} the next session fails: {failed}",
                "close() may free what belongs to its state alone",
            )

    def test_a_closed_session_leaves_nothing_behind(self, conformance: Subject) -> None:
        """However many sessions came and went, the model is as large as after the first one."""
        run_alone(conformance, "left 0", 0)
        before = [_sizes(stage.model) for stage in conformance.stages]
        states, held = _states(conformance), _held()
        for number in range(1, AGAIN + 1):
            run_alone(conformance, f"left {number}", 0)
        for stage, old in zip(conformance.stages, before, strict=True):
            grown = [
                name
                for name, size in _sizes(stage.model).items()
                if size - old.get(name, 0) >= AGAIN
            ]
            require(
                not grown,
                f"{type(stage.model).__name__} keeps something of every closed session in"
                f" {', '.join(grown)}",
                "remove in close() what open() and the steps put there, or keep it in the state",
            )
        kept = _states(conformance) - states
        for what, count in _held().items():
            require(
                count - held[what] < AGAIN,
                f"{AGAIN} closed sessions left {count - held[what]} {what} behind",
                "end in close() what open() or the steps began: threads, files, sockets, processes",
            )
        require(
            kept < AGAIN,
            f"{kept} states of {AGAIN} closed sessions are still alive",
            "drop every reference to a state in close(): tables, closures, callbacks, threads",
        )


def _same(
    subject: Subject, wanted: list[Answer], got: list[Answer], problem: str, advice: str
) -> None:
    tolerance = subject.settings.audio_tolerance
    for number, (one, other) in enumerate(zip(wanted, got, strict=True)):
        difference = one.difference(other, tolerance)
        if difference is not None:
            breach(f"{problem} (turn {number + 1}: {difference})", advice)


def _points(subject: Subject) -> list[int]:
    """Steps of an answer, from before the first to after the last, spread over it."""
    most = max(1, subject.settings.cancel_points - 1)
    with StageBench(subject) as bench:
        bench.open("points")
        count = _speak_and_step(subject, bench, "points", None)
    return sorted({round(count * part / most) for part in range(most + 1)})


def _cancelled(subject: Subject, point: int) -> tuple[Answer, Answer]:
    """What was said before a cancel after ``point`` steps, and in the turn that follows it."""
    with StageBench(subject) as bench:
        session = bench.open("cancel")
        _speak_and_step(subject, bench, "cancel", point)
        before = hear(session)
        bench.cancel("cancel", 100.0)
        session.turn_id += 1
        return before, take_turn(subject, bench, "cancel", 1)


def _speak_and_step(subject: Subject, bench: StageBench, session_id: str, steps: int | None) -> int:
    """The user speaks, the answer goes on for so many steps; None: to its end. How many it took.

    A step of a native model is a piece of what it says: it takes many more to listen.
    """
    bench.say(session_id, subject.turn(0))
    within = subject.settings.answers_within_s
    taken = 0
    if not subject.native:
        end = bench.now + within
        while taken != steps and bench.step(end):
            taken += 1
        return taken
    unit = (subject.capabilities.chunk_period_ms or 100) / 1000
    for _ in range(int(within / unit)):
        taken = sum(each.output.audio is not None for each in bench.sessions[session_id].said)
        if steps is not None and taken >= steps:
            break
        bench.listen(unit, session_id)
    return taken


def _rest(whole: Answer, before: Answer) -> Answer:
    """What was not said yet."""
    return Answer(
        text=whole.text[len(before.text) :],
        audio=whole.audio[before.audio.size :],
        heard=(),
        calls=(),
        ends=0,
        errors=(),
    )


def _goes_on(rest: Answer, after: Answer) -> bool:
    """Whether an answer begins with what another one had left over."""
    count = min(len(rest.text), len(after.text))
    if count >= 2 and rest.text[:count] == after.text[:count]:
        return True
    size = min(rest.audio.size, after.audio.size)
    head = rest.audio[:size]
    return bool(size >= 160 and np.any(head) and np.array_equal(head, after.audio[:size]))


def _sizes(model: StageModel[Any]) -> dict[str, int]:
    """How many things each container of a model holds."""
    return {
        name: len(value)
        for name, value in getattr(model, "__dict__", {}).items()
        if isinstance(value, list | dict | set | deque | bytearray)
    }


def _held() -> dict[str, int]:
    """What this process holds of its system, as far as the system tells."""
    files = Path("/proc/self/fd")
    held = {"threads": threading.active_count()}
    return held | ({"open files": len(list(files.iterdir()))} if files.is_dir() else {})


def _states(subject: Subject) -> int:
    """How many objects of the kinds that ``open`` returns are alive."""
    kinds = set()
    for stage, told in zip(subject.stages, subject.stage_sessions("kind"), strict=True):
        state = stage.model.open(told)
        if type(state).__module__ != "builtins":
            kinds.add(type(state))
        stage.model.close(state)
        del state
    gc.collect()
    return sum(type(each) in kinds for each in gc.get_objects())
