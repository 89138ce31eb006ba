from __future__ import annotations

from itertools import pairwise

import pytest
from duplex_sdk.session.continuation import ContinuationScheduler
from hypothesis import given
from hypothesis import strategies as st

RESPONSE = "response:resp_a"


def scheduler(*, auto: bool = True) -> ContinuationScheduler:
    return ContinuationScheduler(1.0, auto_responds=auto)


def test_the_first_unit_leaves_room_for_a_client_that_jitters() -> None:
    silent = scheduler()
    silent.accepted(10.0)
    assert silent.schedule(RESPONSE, 10.5)
    assert silent.deadline == 11.2
    assert silent.take_due(11.19) is None
    due = silent.take_due(11.2)
    assert due is not None
    assert (due.owner, due.number, due.force_listen) == (RESPONSE, 1, False)
    assert silent.deadline is None


def test_without_any_unit_so_far_it_counts_from_now() -> None:
    silent = scheduler()
    silent.schedule(RESPONSE, 5.0)
    assert silent.deadline == 6.2


def test_later_units_follow_the_deadline_not_the_firing() -> None:
    silent = scheduler()
    silent.accepted(0.0)
    silent.schedule(RESPONSE, 0.0)
    silent.take_due(1.25)
    silent.accepted(1.3, continuation=True)
    silent.schedule(RESPONSE, 1.3)
    assert silent.deadline == pytest.approx(2.2)


def test_a_unit_that_is_far_too_late_starts_the_clock_anew() -> None:
    silent = scheduler()
    silent.accepted(0.0)
    silent.schedule(RESPONSE, 0.0)
    assert silent.take_due(10.0) is not None
    silent.schedule(RESPONSE, 10.0)
    assert silent.deadline == 11.0


def test_a_request_that_comes_far_too_late_fires_now() -> None:
    silent = scheduler()
    silent.accepted(0.0)
    silent.schedule(RESPONSE, 0.0)
    silent.take_due(1.2)
    silent.schedule(RESPONSE, 9.0)
    assert silent.deadline == 9.0


def test_a_pending_unit_stays_as_it_is() -> None:
    silent = scheduler()
    silent.schedule(RESPONSE, 0.0)
    silent.schedule(RESPONSE, 1.0)
    assert silent.deadline == 1.2


def test_real_input_takes_the_place_of_a_pending_unit() -> None:
    silent = scheduler()
    silent.schedule(RESPONSE, 0.0)
    silent.accepted(1.0)
    assert silent.deadline is None
    silent.schedule(RESPONSE, 1.0)
    assert silent.deadline == 2.2


def test_buffered_input_supersedes_without_losing_the_owner() -> None:
    silent = scheduler()
    silent.schedule(RESPONSE, 0.0)
    silent.supersede()
    assert silent.take_due(99.0) is None
    assert silent.owner == RESPONSE


@pytest.mark.parametrize(("auto", "budget"), [(True, 64), (False, 8)])
def test_an_owner_has_so_many_units(auto: bool, budget: int) -> None:
    silent = scheduler(auto=auto)
    now, given_units = 0.0, []
    while silent.schedule(RESPONSE, now):
        assert silent.deadline is not None
        now = silent.deadline
        unit = silent.take_due(now)
        assert unit is not None
        given_units.append(unit)
    assert len(given_units) == budget
    assert [unit.force_listen for unit in given_units] == [False] * (budget - 1) + [auto]
    assert silent.deadline is None


def test_another_owner_has_a_budget_of_its_own() -> None:
    silent = scheduler(auto=False)
    for n in range(8):
        silent.schedule("model-turn:1", float(n))
        assert silent.take_due(n + 2.0) is not None
    assert not silent.schedule("model-turn:1", 9.0)
    assert silent.schedule("model-turn:2", 9.0)


def test_a_response_that_opens_during_the_wait_takes_the_unit_over() -> None:
    silent = scheduler()
    silent.schedule("model-turn:1", 0.0)
    silent.rebind(RESPONSE)
    assert silent.schedule(RESPONSE, 0.5)
    due = silent.take_due(1.2)
    assert due is not None
    assert due.owner == RESPONSE


def test_nothing_is_due_for_an_owner_that_is_gone() -> None:
    silent = scheduler()
    silent.schedule(RESPONSE, 0.0)
    silent.clear()
    assert silent.take_due(99.0) is None
    silent.rebind(RESPONSE)
    assert silent.owner is None


@given(st.lists(st.floats(0.0, 5.0), min_size=1, max_size=60))
def test_units_never_come_in_a_burst(delays: list[float]) -> None:
    silent = scheduler()
    now, fired = 0.0, []
    silent.accepted(now)
    for delay in delays:
        if not silent.schedule(RESPONSE, now):
            break
        deadline = silent.deadline
        assert deadline is not None
        now = max(now, deadline) + delay
        assert silent.take_due(now) is not None
        fired.append((deadline, now))
        silent.accepted(now, continuation=True)
    # On the schedule two units are a period apart; one that is far too late restarts it.
    for (due, fired_at), (following, _) in pairwise(fired):
        late = fired_at - due > 1.0
        assert following == pytest.approx(fired_at + 1.0 if late else due + 1.0)
