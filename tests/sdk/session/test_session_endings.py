"""How a session ends: by its client, by time, by a stage; and how its output may overflow."""

from __future__ import annotations

from typing import Any

import pytest
from duplex_sdk.plugin import DuplexSessionRuntimeConfig
from duplex_sdk.protocol.duplex import (
    CloseSession,
    Commit,
    CreateItem,
    CreateResponse,
    Heartbeat,
)
from duplex_sdk.session import effects, inputs
from duplex_sdk.testing.session_lab import SessionLab

ITEM = {"role": "user", "content": [{"type": "input_text", "text": "hello"}]}


def of(lab: SessionLab, wire_type: str) -> list[dict[str, Any]]:
    return [r for r in (e.to_realtime() for e in lab.events) if r["type"] == wire_type]


def statuses(lab: SessionLab) -> list[str]:
    return [d["response"]["status"] for d in of(lab, "response.done")]


def speaking(lab: SessionLab) -> str:
    lab.speak(500)
    lab.send(Commit(response_create=True))
    lab.run(1000)
    return str(of(lab, "response.created")[-1]["response_id"])


# closing


def test_close_cancels_what_speaks_and_its_terminal_is_last(manual_lab: SessionLab) -> None:
    speaking(manual_lab)
    seen = len(manual_lab.events)
    manual_lab.send(CloseSession(reason="bye"), Heartbeat(), CloseSession())
    types = manual_lab.types(seen)
    assert types[-2:] == ["rate_limits.updated", "session.closed"]
    details = of(manual_lab, "response.done")[0]["response"]["status_details"]
    assert details == {"type": "cancelled", "reason": "session_closed"}
    closed = of(manual_lab, "session.closed")
    assert [c["reason"] for c in closed] == ["bye"]
    assert closed[0]["event"] == {"type": "session.closed", "reason": "bye"}
    assert manual_lab.ended == [effects.Ended(True, manual_lab.ended[0].request_ids)]
    manual_lab.run(5000)
    assert manual_lab.types(seen)[-1] == "session.closed"


def test_a_hung_release_delays_the_terminal_by_the_time_allowed_and_keeps_the_slot(
    make_lab: Any,
) -> None:
    lab = make_lab(limits=DuplexSessionRuntimeConfig(close_timeout_s=2.0))
    asked: list[effects.ReleaseStages] = []
    lab.faults[effects.ReleaseStages] = asked.append
    lab.send(CloseSession(), Heartbeat(event_id="late"))
    assert of(lab, "session.closed") == []
    assert of(lab, "error")[0]["error"]["code"] == "session_closed"
    lab.run(1999)
    assert of(lab, "session.closed") == []
    lab.run(2)
    assert len(of(lab, "session.closed")) == 1
    assert [end.released for end in lab.ended] == [False]
    lab.feed(inputs.StagesReleased(asked[0].op))
    assert [end.released for end in lab.ended] == [False, True]
    assert lab.types()[-1] == "session.closed"


def test_a_failed_release_tells_the_client_and_keeps_the_slot(make_lab: Any) -> None:
    lab = make_lab()
    lab.faults[effects.ReleaseStages] = lambda effect: inputs.StagesReleased(
        effect.op, inputs.Fault("internal_error", "no")
    )
    lab.send(CloseSession())
    assert lab.types()[-1] == "session.closed"
    assert [end.released for end in lab.ended] == [False]


def test_a_dead_stage_is_an_error_a_failed_response_and_the_end(manual_lab: SessionLab) -> None:
    speaking(manual_lab)
    seen = len(manual_lab.events)
    manual_lab.feed(inputs.StageFailed("worker_died", "the worker died"))
    types = manual_lab.types(seen)
    assert types[0] == "error"
    assert types[-3:] == ["response.done", "rate_limits.updated", "session.closed"]
    assert statuses(manual_lab) == ["failed"]
    assert of(manual_lab, "session.closed")[0]["reason"] == "runtime_failed"


# time


def test_an_idle_session_expires_and_any_interest_puts_that_off(make_lab: Any) -> None:
    lab = make_lab(limits=DuplexSessionRuntimeConfig(idle_ttl_s=10.0))
    lab.run(9000)
    lab.send(Heartbeat())
    lab.run(9000)
    lab.send(CreateItem(item=ITEM))
    lab.run(9999)
    assert of(lab, "session.expired") == []
    lab.run(2)
    assert [e["reason"] for e in of(lab, "session.expired")] == ["idle_ttl_expired"]


@pytest.mark.parametrize("script", [{}, {"limit_units": 100_000}], ids=["endless", "limited"])
def test_work_under_way_holds_idle_expiry_off(make_lab: Any, script: dict[str, Any]) -> None:
    # Of a session that has a length too, the timer is set for that when the idle time is over.
    script = {"turns": "commit", **script}
    lab = make_lab(limits=DuplexSessionRuntimeConfig(idle_ttl_s=10.0), script=script)
    waiting: list[effects.SubmitUnit] = []
    lab.faults[effects.SubmitUnit] = waiting.append
    lab.speak(500)
    lab.send(Commit(response_create=True))
    lab.run(30_000)
    assert of(lab, "session.expired") == []
    lab.feed(inputs.UnitSubmitted(waiting[0].op, inputs.Fault("runtime_append_failed", "too late")))
    lab.run(11_000)
    assert len(of(lab, "session.expired")) == 1


@pytest.mark.parametrize(
    ("units", "notice_ms", "remaining_ms"), [(1000, 50_000, 30_000), (100, 4000, 4000)]
)
def test_a_session_is_told_before_its_length_is_over(
    make_lab: Any, units: int, notice_ms: int, remaining_ms: int
) -> None:
    lab = make_lab(script={"limit_units": units})
    lab.run(notice_ms - 1)
    assert of(lab, "duplex.session.expiring") == []
    lab.run(2)
    event = of(lab, "duplex.session.expiring")[0]["event"]
    assert event["reason"] == "session_length_reached"
    assert event["remaining_ms"] == remaining_ms
    lab.run(remaining_ms)
    assert of(lab, "session.expired")[0]["reason"] == "session_length_reached"
    assert len(of(lab, "duplex.session.expiring")) == 1


def test_a_detached_session_lives_through_its_grace_and_no_longer(make_lab: Any) -> None:
    lab = make_lab(limits=DuplexSessionRuntimeConfig(disconnect_grace_s=5.0))
    lab.feed(inputs.LeaseDetached("d1", 0))
    lab.run(4000)
    lab.feed(inputs.LeaseResumed("r1", 0))
    lab.feed(inputs.LeaseDetached("d2", 0))
    assert [answer.fault is None for answer in lab.answers] == [True, True, False]
    lab.run(60_000)
    assert of(lab, "session.expired") == []
    lab.feed(inputs.LeaseDetached("d3", 1))
    lab.run(5001)
    assert of(lab, "session.expired")[0]["reason"] == "disconnect_grace_expired"


# overflow


def burst(make_lab: Any, policy: str, **limits: Any) -> SessionLab:
    script = {
        "turns": "commit",
        "pace": "burst",
        "answers": [{"ms": 30_000, "delay_ms": 0, "text": "and so on " * 20}, {"ms": 200}],
    }
    lab: SessionLab = make_lab(
        script=script,
        limits=DuplexSessionRuntimeConfig(overflow_policy=policy, **limits),
    )
    lab.reading = False
    lab.speak(500)
    return lab


def test_a_stalled_reader_ends_its_session_in_the_written_order(make_lab: Any) -> None:
    lab = burst(make_lab, "close_session", max_pending_output_events_per_session=64)
    lab.send(Commit(response_create=True))
    lab.run(100)
    lab.reading = True
    lab.read_all()
    types = lab.types()
    assert types[-3:] == ["response.done", "error", "session.closed"]
    assert "response.output_audio.done" not in types
    assert "response.output_item.done" not in types
    assert "response.output_audio.delta" not in types
    assert "response.output_audio_transcript.delta" in types
    done = of(lab, "response.done")[0]["response"]
    assert done["status_details"]["reason"] == "output_backpressure"
    assert done["output"][0]["status"] == "incomplete"
    assert done["metadata"]["duplex"]["committed"] is False
    error = of(lab, "error")[0]["error"]
    assert (error["type"], error["retryable"]) == ("rate_limit_error", False)
    assert of(lab, "session.closed")[0]["event"] == {
        "type": "session.closed",
        "reason": "output_backpressure",
        "limit": "events",
        "max_bytes": 2 * 1024 * 1024,
        "max_events": 64,
    }


def test_a_failed_response_spares_the_session_when_the_deployment_says_so(make_lab: Any) -> None:
    lab = burst(make_lab, "fail_response", max_pending_output_bytes_per_session=300_000)
    lab.send(Commit(response_create=True))
    lab.run(100)
    assert lab.ended == []
    lab.reading = True
    lab.read_all()
    assert statuses(lab) == ["failed"]
    assert [e["error"]["code"] for e in of(lab, "error")] == ["output_backpressure"]
    lab.speak(500)
    lab.send(Commit(response_create=True))
    lab.run(1000)
    assert statuses(lab) == ["failed", "completed"]
    assert len(of(lab, "response.created")) == 2
    lab.send(CreateResponse())
    roles = [message["role"] for message in lab.submitted[-1].prompt.messages]
    assert roles == ["user", "user", "assistant"]


def test_an_unread_queue_that_no_response_fills_closes_the_session(make_lab: Any) -> None:
    lab = make_lab(
        limits=DuplexSessionRuntimeConfig(
            overflow_policy="fail_response", max_pending_output_events_per_session=4
        )
    )
    lab.reading = False
    lab.send(*(Heartbeat() for _ in range(5)))
    lab.reading = True
    lab.read_all()
    assert lab.types()[-2:] == ["error", "session.closed"]


def test_a_response_whose_beginning_found_no_room_is_not_ended_either(make_lab: Any) -> None:
    lab = make_lab(
        limits=DuplexSessionRuntimeConfig(max_pending_output_events_per_session=2),
        script={"turns": "commit"},
    )
    lab.reading = False
    lab.send(CreateItem(item=ITEM), CreateResponse())
    lab.reading = True
    lab.read_all()
    assert of(lab, "response.created") == []
    assert of(lab, "response.done") == []
    assert lab.types()[-2:] == ["error", "session.closed"]


@pytest.mark.parametrize("room", range(12, 19))
def test_a_close_that_finds_no_room_still_ends_its_response(make_lab: Any, room: int) -> None:
    lab = make_lab(
        limits=DuplexSessionRuntimeConfig(max_pending_output_events_per_session=room),
        script={"turns": "commit", "answers": [{"ms": 160}]},
    )
    lab.speak(200)
    lab.reading = False
    lab.send(Commit(response_create=True))
    lab.run(205)
    assert lab.session.state.response is not None
    lab.send(CloseSession())
    lab.run(100)
    lab.reading = True
    lab.read_all()
    begun = [each["response_id"] for each in of(lab, "response.created")]
    assert [each["response_id"] for each in of(lab, "response.done")] == begun
    assert statuses(lab) == ["cancelled"]
    assert lab.types()[-1] == "session.closed"


def test_a_native_model_that_overflowed_stays_mute_until_it_listens(make_lab: Any) -> None:
    script = {
        "turns": "native",
        "yield_after_ms": None,
        "at": [
            {"ms": 0, "say": {"ms": 4000, "delay_ms": 0}},
            {"ms": 8000, "say": {"ms": 400, "delay_ms": 0}},
        ],
    }
    lab = make_lab(
        {"auto_response": True},
        script=script,
        limits=DuplexSessionRuntimeConfig(
            overflow_policy="fail_response", max_pending_output_bytes_per_session=60_000
        ),
    )
    lab.reading = False
    lab.pause(3000)
    lab.reading = True
    lab.pause(6500)
    assert statuses(lab) == ["failed", "completed"]
    assert len(of(lab, "response.created")) == 2
    assert lab.ended == []
