"""Laws of requests that need no session: chat completions, and servers of turns."""

from __future__ import annotations

from duplex_sdk.plugin.read_only import read_only
from duplex_sdk.stage import StagePrompt

from .bench import StageBench
from .breach import does_not_apply, require
from .conversation import hear, no_failures
from .subject import Subject

__all__ = ["RequestLaws"]

ASKED = ({"role": "user", "content": "What is seven plus five?"},)
BEFORE = ({"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hello."})


class RequestLaws:
    """To the first stage such a request is a session with a single prompt."""

    def test_a_written_request_is_answered(self, conformance: Subject) -> None:
        """All messages come in one ``final`` prompt of kind ``conversation``."""
        _needs_requests(conformance)
        prompt = StagePrompt(kind="conversation", messages=read_only(ASKED), final=True)
        _answered(conformance, "a written request", prompt)

    def test_a_spoken_request_is_answered(self, conformance: Subject) -> None:
        """The last turn comes as sound, whole, and as messages what was said before."""
        _needs_requests(conformance)
        if not conformance.pipeline.spoken_requests:
            does_not_apply("the pipeline takes written requests only (spoken_requests)")
        prompt = StagePrompt(
            audio=conformance.turn(0), messages=read_only(BEFORE), is_speech=True, final=True
        )
        _answered(conformance, "a spoken request", prompt)


def _needs_requests(subject: Subject) -> None:
    if not subject.pipeline.turn_requests:
        does_not_apply("the pipeline serves sessions only (turn_requests)")


def _answered(subject: Subject, what: str, prompt: StagePrompt) -> None:
    with StageBench(subject) as bench:
        session = bench.open("request")
        bench.prompt(session, 0, prompt)
        bench.run(subject.settings.answers_within_s)
        failed = no_failures(session)
        said = hear(session)
        require(
            not failed and said.says_something,
            f"{what} is not answered: {failed or 'no output'}",
            "a pipeline with turn_requests answers a `final` prompt that is all there is of its"
            " session: the model may count on nothing that went before",
        )
        require(
            said.ends or bench.at_rest,
            f"{what} has no end",
            "say end_of_turn in the last output, or come to rest: the request is closed then",
        )
