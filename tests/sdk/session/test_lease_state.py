from __future__ import annotations

import pytest
from duplex_sdk.session.lease import (
    DuplexLeaseConfig,
    DuplexLeaseState,
    LeaseConflictError,
    LeaseEndedError,
)
from hypothesis import given
from hypothesis import strategies as st


def lease(now: float = 0.0, **limits: float | None) -> DuplexLeaseState:
    return DuplexLeaseState(DuplexLeaseConfig(**limits), now)  # type: ignore[arg-type]


def test_a_session_nobody_cares_for_expires_at_its_ttl() -> None:
    state = lease(idle_ttl_s=300.0)
    assert state.expiry(299.9) is None
    assert state.expiry(300.0) == "idle_ttl_expired"
    state.touch(100.0, "append")
    assert state.expiry(399.9) is None
    assert state.next_deadline() == 400.0


def test_without_a_ttl_nothing_expires() -> None:
    state = lease(idle_ttl_s=None)
    assert state.expiry(1e9) is None
    assert state.next_deadline() is None


def test_an_operation_holds_off_idleness_but_not_the_grace() -> None:
    state = lease(idle_ttl_s=10.0, disconnect_grace_s=30.0)
    state.begin_operation("append")
    assert state.expiry(1000.0) is None
    state.detach(1000.0)
    assert state.expiry(1029.9) is None
    assert state.expiry(1030.0) == "disconnect_grace_expired"
    state.end_operation("append")
    assert state.expiry(1010.0) == "idle_ttl_expired"


def test_where_both_are_over_the_lost_socket_is_the_reason() -> None:
    state = lease(idle_ttl_s=1.0, disconnect_grace_s=1.0)
    state.detach(0.0)
    assert state.expiry(5.0) == "disconnect_grace_expired"


def test_a_session_has_a_length() -> None:
    state = lease(idle_ttl_s=None, max_session_s=240.0)
    state.begin_operation("append")
    assert state.expiry(239.9) is None
    assert state.expiry(240.0) == "session_length_reached"


def test_touching_keeps_a_detached_session_detached() -> None:
    state = lease()
    state.detach(1.0)
    state.touch(2.0, "model_output")
    assert state.detached_at == 1.0
    assert state.last_activity == 2.0


def test_a_second_detach_does_not_begin_the_grace_again() -> None:
    state = lease()
    assert state.detach(1.0)
    assert not state.detach(20.0)
    assert state.detached_at == 1.0
    assert state.last_activity == 1.0


def test_a_detach_of_an_older_generation_changes_nothing() -> None:
    state = lease()
    state.resume(1.0, 0, "control-1")
    with pytest.raises(LeaseConflictError):
        state.detach(2.0, expected_generation=0)
    assert state.detached_at is None
    assert state.last_activity == 1.0


def test_of_resumes_that_expect_one_generation_the_first_wins() -> None:
    state = lease()
    assert state.resume(1.0, 0, "control-1") == 1
    with pytest.raises(LeaseConflictError):
        state.resume(2.0, 0, "control-2")
    assert state.generation == 1


def test_a_repeated_resume_is_answered_as_before() -> None:
    state = lease()
    state.resume(1.0, 0, "control-1")
    state.detach(2.0)
    assert state.resume(3.0, 0, "control-1") == 1
    assert (state.detached_at, state.last_activity) == (2.0, 2.0)


def test_after_a_resume_the_grace_is_over_for_good() -> None:
    state = lease(idle_ttl_s=None, disconnect_grace_s=30.0)
    state.detach(0.0)
    state.resume(29.0, 0, "control-1")
    assert state.expiry(1e6) is None


def test_the_end_comes_once_and_stays() -> None:
    state = lease()
    state.begin_operation("append")
    assert state.mark_terminal("client_close")
    assert not state.mark_terminal("shutdown")
    assert (state.generation, state.terminal_reason) == (1, "client_close")
    assert state.active_operations == frozenset()
    assert state.expiry(1e9) is None
    state.end_operation("append")
    with pytest.raises(LeaseEndedError):
        state.touch(1.0, "append")
    with pytest.raises(LeaseEndedError):
        state.detach(1.0)
    with pytest.raises(LeaseEndedError):
        state.resume(1.0, 1, "control-1")
    with pytest.raises(LeaseEndedError):
        state.begin_operation("other")


def test_operations_have_fresh_names() -> None:
    state = lease()
    state.begin_operation("a")
    for name in ("", "a"):
        with pytest.raises(ValueError, match="fresh id"):
            state.begin_operation(name)
    state.end_operation("a")
    state.end_operation("a")
    state.begin_operation("a")


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["touch", "detach", "resume", "begin", "end", "terminal"]),
        st.integers(0, 3),
    ),
    max_size=40,
)


@given(STEPS)
def test_the_generation_moves_only_by_resumes_and_the_end(steps: list[tuple[str, int]]) -> None:
    state = lease(idle_ttl_s=5.0, disconnect_grace_s=3.0)
    for now, (kind, n) in enumerate(steps):
        before = state.generation
        grew = False
        try:
            if kind == "touch":
                state.touch(now, "append")
            elif kind == "detach":
                state.detach(now, expected_generation=n)
            elif kind == "resume":
                grew = state.resume(now, n, f"control-{now}") == before + 1
                assert grew
                assert n == before
            elif kind == "begin":
                state.begin_operation(f"op-{now}")
            elif kind == "end":
                state.end_operation(f"op-{n}")
            else:
                grew = state.mark_terminal("client_close")
        except (LeaseConflictError, LeaseEndedError):
            pass
        assert state.generation == before + grew
        reason = state.expiry(now)
        if reason == "idle_ttl_expired":
            assert not state.active_operations
        if reason == "disconnect_grace_expired":
            assert state.detached_at is not None
        deadline = state.next_deadline()
        if deadline is not None:
            assert (state.expiry(now) is not None) == (now >= deadline)
