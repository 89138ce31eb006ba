"""Ids that the stages were told of are let go once, however badly that goes."""

from __future__ import annotations

from typing import Any

from duplex_sdk.protocol.duplex import BargeIn, CancelResponse, CloseSession, Commit
from duplex_sdk.session import effects, inputs
from duplex_sdk.session.stage_requests import StageRequests
from duplex_sdk.testing.session_lab import SessionLab

NO = inputs.Fault("runtime_abort_failed", "no")


def registered(*names: str) -> StageRequests:
    requests = StageRequests()
    for name in names:
        requests.register(name, 0, 0)
    return requests


def answered(lab: SessionLab) -> None:
    lab.speak(300)
    lab.send(Commit(response_create=True))
    lab.run(100)


def asked(lab: SessionLab, kind: type[Any]) -> list[Any]:
    """Effects of this kind from now on; they are carried out as usual."""
    seen: list[Any] = []

    def keep(effect: Any) -> Any:
        seen.append(effect)
        return lab.outcome_of(effect)

    lab.faults[kind] = keep
    return seen


def test_ids_without_work_are_told_apart_from_those_with() -> None:
    requests = registered("a", "b")
    requests.bind("b")
    assert requests.ids() == (("b",), ("a",))
    assert requests.end_epoch() == (("b",), ("a",))
    assert requests.ids() == ((), ())


def test_ids_that_are_leaving_are_known_until_they_have_left() -> None:
    requests = registered()
    requests.leave(7, ("a", "b"))
    assert requests.ids() == (("a", "b"), ())
    requests.left(7, gone=True)
    assert requests.ids() == ((), ())


def test_ids_that_could_not_leave_go_with_the_next_epoch() -> None:
    requests = registered()
    requests.leave(7, ("a",))
    requests.left(7, gone=False)
    assert requests.ids() == (("a",), ())
    assert requests.end_epoch() == (("a",), ())
    assert requests.ids() == ((), ())


def test_an_abort_that_failed_is_made_with_the_next_one(manual_lab: SessionLab) -> None:
    manual_lab.faults[effects.AbortRequests] = lambda effect: inputs.RequestsAborted(effect.op, NO)
    answered(manual_lab)
    manual_lab.send(CancelResponse())
    aborts = asked(manual_lab, effects.AbortRequests)
    answered(manual_lab)
    manual_lab.send(CancelResponse())
    (abort,) = aborts
    assert [name.split(".e.")[1].split(".")[0] for name in abort.request_ids] == ["0", "1"]
    releases = asked(manual_lab, effects.ReleaseStages)
    manual_lab.send(CloseSession())
    assert releases[0].submitted == ()


def test_the_release_at_the_end_covers_what_no_abort_has_stopped(manual_lab: SessionLab) -> None:
    outcomes = [lambda op: inputs.RequestsAborted(op, NO), lambda op: None]
    manual_lab.faults[effects.AbortRequests] = lambda effect: outcomes.pop(0)(effect.op)
    answered(manual_lab)
    manual_lab.send(CancelResponse())
    answered(manual_lab)
    manual_lab.send(CancelResponse())
    releases = asked(manual_lab, effects.ReleaseStages)
    manual_lab.send(CloseSession())
    assert len(releases[0].submitted) == 2


def test_an_id_under_which_nothing_ran_is_released_with_its_epoch(manual_lab: SessionLab) -> None:
    answered(manual_lab)
    manual_lab.send(CancelResponse())
    manual_lab.faults[effects.SubmitUnit] = lambda effect: inputs.UnitSubmitted(effect.op, NO)
    answered(manual_lab)
    released = asked(manual_lab, effects.ReleaseRequests)
    manual_lab.send(BargeIn())
    assert [len(each.request_ids) for each in released] == [1]
    assert ".e.1." in released[0].request_ids[0]
