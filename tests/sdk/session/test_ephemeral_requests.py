"""Models that take one request per turn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from duplex_sdk.plugin import DuplexCapabilities, DuplexConfigError, OutputContext
from duplex_sdk.protocol.duplex import (
    AckPlayback,
    AudioDelta,
    CancelResponse,
    Commit,
    UpdateSession,
)
from duplex_sdk.session import effects, inputs
from duplex_sdk.stage import StageOutput
from duplex_sdk.testing.scripted.model import Scripted
from duplex_sdk.testing.session_lab import SessionLab


class Ephemeral(Scripted):
    """Forgets its request after each turn."""

    def capabilities(self, *, max_sessions: int) -> DuplexCapabilities:
        known = super().capabilities(max_sessions=max_sessions)
        return replace(known, supports_core_resumable_request=False)


def test_it_cannot_answer_unasked_whenever_that_is_asked_for() -> None:
    plugin, asked = Ephemeral({"script": {"turns": "commit"}}), {"auto_response": True}
    with pytest.raises(DuplexConfigError) as refused:
        SessionLab(plugin, asked)
    assert (refused.value.code, refused.value.param) == ("unsupported", "auto_response")
    lab = SessionLab(plugin)
    lab.send(UpdateSession(session=asked, event_id="c1"))
    (error,) = (event.to_realtime()["error"] for event in lab.events if event.type == "error")
    assert (error["code"], error["param"], error["event_id"]) == (
        "unsupported",
        "auto_response",
        "c1",
    )
    assert not lab.session.config.auto_response
    lab.send(UpdateSession(session=asked), lenient=True)
    assert lab.types()[-1] == "session.updated"
    assert not SessionLab(plugin, asked, lenient=True).session.config.auto_response


def test_a_request_is_released_with_its_turn() -> None:
    lab = SessionLab(Ephemeral({"script": {"turns": "commit"}}))
    released: list[tuple[str, ...]] = []

    def release(effect: effects.ReleaseRequests) -> Any:
        released.append(effect.request_ids)
        return inputs.RequestsAborted(effect.op)

    lab.faults[effects.ReleaseRequests] = release
    for _ in range(5):
        lab.speak(300)
        lab.send(Commit(response_create=True))
        lab.run(5000)
    used = [submission.context.request_id for submission in lab.submitted]
    assert len(set(used)) == 5
    assert released == [(each,) for each in used]
    submitted, reserved = lab.session.state.requests.ids()
    assert submitted == ()
    assert len(reserved) <= 1
    assert lab.types().count("response.done") == 5


class Overlapping(Ephemeral):
    """Can begin the next turn as soon as it has said the second word of this one."""

    def capabilities(self, *, max_sessions: int) -> DuplexCapabilities:
        known = super().capabilities(max_sessions=max_sessions)
        return replace(known, supports_concurrent_turn_requests=True)

    def release_concurrent_turn_requests(self, output: StageOutput, context: OutputContext) -> bool:
        assert context.is_last
        assert context.response_id is not None
        return bool(output.text and "two" in output.text)

    def draining_stage_ids(self, stage_count: int) -> tuple[int, ...]:
        return tuple(range(stage_count))


class Undrained(Overlapping):
    """Has no stage that may go on."""

    def draining_stage_ids(self, stage_count: int) -> tuple[int, ...]:
        return ()


ANSWER = {"text": "one two three four", "ms": 4000, "delay_ms": 0}


def overlapping(
    *, at_ms: float, kind: type[Overlapping] = Overlapping
) -> tuple[SessionLab, list[str]]:
    """Somebody commits a second turn so long into the answer to the first."""
    lab = SessionLab(kind({"script": {"turns": "commit", "answers": [ANSWER]}}))
    lab.speak(300)
    lab.send(Commit(response_create=True))
    lab.run(at_ms - 800)
    lab.speak(800)
    lab.send(Commit(response_create=True))
    created = [e.to_realtime()["response_id"] for e in lab.events if e.type == "response.created"]
    return lab, created


def statuses(lab: SessionLab) -> dict[str, str]:
    ends = [e.to_realtime() for e in lab.events if e.type == "response.done"]
    return {end["response_id"]: end["response"]["status"] for end in ends}


def heard_ms(lab: SessionLab, response_id: str) -> float:
    deltas = [e for e in lab.events if isinstance(e, AudioDelta)]
    return sum(each.duration_ms for each in deltas if each.response_id == response_id)


def test_the_next_turn_begins_while_the_last_one_still_speaks() -> None:
    lab, (first, second) = overlapping(at_ms=2500)
    assert statuses(lab) == {}
    seen = len(lab.events)
    lab.run(1000)
    speaking = {e.response_id for e in lab.events[seen:] if isinstance(e, AudioDelta)}
    assert speaking == {first, second}
    lab.run(10_000)
    assert statuses(lab) == {first: "completed", second: "completed"}
    assert (heard_ms(lab, first), heard_ms(lab, second)) == (4000, 4000)
    roles = [message["role"] for message in lab.session.state.history.messages()]
    assert roles == ["user", "assistant", "user", "assistant"]
    used = [submission.context.request_id for submission in lab.submitted]
    assert len({*used}) == len(used) == 2
    submitted, _ = lab.session.state.requests.ids()
    assert submitted == ()


@pytest.mark.parametrize(("at_ms", "kind"), [(1500, Overlapping), (2500, Undrained)])
def test_before_that_or_where_nothing_may_drain_the_next_turn_waits(
    at_ms: float, kind: type[Overlapping]
) -> None:
    lab, (first,) = overlapping(at_ms=at_ms, kind=kind)
    lab.run(20_000)
    assert [*statuses(lab).values()] == ["completed", "completed"]
    types = [e.type for e in lab.events]
    assert types.index("response.done") < len(types) - 1 - types[::-1].index("response.created")
    assert heard_ms(lab, first) == 4000


def test_an_interruption_ends_both_and_each_keeps_what_was_heard_of_it() -> None:
    lab, (first, second) = overlapping(at_ms=2500)
    lab.run(1000)
    lab.send(AckPlayback(response_id=first, played_ms=2000))
    lab.send(CancelResponse())
    assert statuses(lab) == {first: "cancelled", second: "cancelled"}
    texts = [m["content"][0].get("text") for m in lab.session.state.history.messages()]
    assert texts == [None, "one two", None, "one"]
    seen = len(lab.events)
    lab.run(5000)
    assert lab.types(seen) == []


def test_the_one_that_drains_can_be_cancelled_by_its_name() -> None:
    lab, (first, second) = overlapping(at_ms=2500)
    lab.send(CancelResponse(response_id=first))
    assert statuses(lab) == {first: "cancelled"}
    lab.run(10_000)
    assert statuses(lab) == {first: "cancelled", second: "completed"}
    assert heard_ms(lab, first) < 4000
