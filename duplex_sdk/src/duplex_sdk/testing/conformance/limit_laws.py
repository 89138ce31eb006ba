"""Laws of how much a plugin takes and gives at once."""

from __future__ import annotations

from duplex_sdk.protocol.duplex import AudioDelta

from .bench import StageBench
from .breach import does_not_apply, require
from .conversation import no_failures, take_turns_together
from .lab import ModelLab
from .subject import Subject

__all__ = ["LimitLaws"]

MOST_SESSIONS = 16
PAUSE_S = 2.0


class LimitLaws:
    """What is claimed has room, and what is said fits through the way to the client."""

    def test_as_many_sessions_fit_as_are_claimed(self, conformance: Subject) -> None:
        """``max_sessions``, or fewer where a stage says so when it loads."""
        conformance.needs("multi_session")
        claimed = conformance.spec.max_sessions
        for loaded, stage in zip(conformance.stages, conformance.pipeline.stages, strict=True):
            if loaded.info.max_sessions is not None:
                claimed = min(claimed, loaded.info.max_sessions * stage.replicas)
        names = [f"claimed {number}" for number in range(min(claimed, MOST_SESSIONS))]
        with StageBench(conformance) as bench:
            for name in names:
                bench.open(name)
            take_turns_together(conformance, bench, dict.fromkeys(names, 0))
            failed = {name: no_failures(bench.sessions[name]) for name in names}
        broken = [f"{name}: {failure}" for name, failure in failed.items() if failure]
        require(
            not broken,
            f"{len(broken)} of {len(names)} sessions at once fail: {'; '.join(broken[:3])}",
            "return StageInfo(max_sessions=...) from load(), as many as the memory holds, or lower"
            " max_sessions of the PluginSpec: the server then admits no more",
        )

    def test_a_slow_reader_gets_the_whole_answer(self, conformance: Subject) -> None:
        """A client that reads nothing for a while loses nothing, with the usual limits."""
        if conformance.native:
            does_not_apply("a native model speaks in real time, unit by unit")
        prompt, slow = (_heard_ms(conformance, reads) for reads in (True, False))
        require(
            slow == prompt,
            f"a client that read nothing for {PAUSE_S:.0f} s got {_told(slow)} instead of"
            f" {_told(prompt)}",
            "what is said before it can be heard piles up until the session fails: hand out a"
            " sentence at a time, and ask for the next turn with again_ms=<ms of audio>",
        )


Heard = tuple[list[str], float]


def _heard_ms(subject: Subject, reads: bool) -> Heard:
    """How a turn ended for a client, and how much audio it got."""
    with ModelLab(subject) as lab:
        lab.begin_turn(0)
        lab.reading = reads
        lab.wait(PAUSE_S)
        lab.reading = True
        lab.read_all()
        lab.wait(subject.settings.answers_within_s)
        heard = sum(event.duration_ms for event in lab.events if isinstance(event, AudioDelta))
        return lab.statuses, heard


def _told(heard: Heard) -> str:
    statuses, ms = heard
    return f"{ms:.0f} ms of audio, {' and '.join(statuses) or 'no end'}"
