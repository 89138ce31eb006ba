from __future__ import annotations

import random

import pytest
from duplex_sdk.session.inputs import CloseRequested, Fault, LeaseDetached, LeaseResumed
from duplex_sdk.session.session_table import SessionTable, SlotState
from duplex_sdk.session.table_messages import (
    AbandonPreparation,
    AnswerCaller,
    CleanupTried,
    CloseAsked,
    ControlAnswered,
    DetachAsked,
    DiscardSession,
    FeedSession,
    ForgetSession,
    OpenAsked,
    PreparationFailed,
    PrepareSession,
    ResumeAsked,
    RetryCleanup,
    SessionClosing,
    SessionEnded,
    SessionPrepared,
    ShutdownAsked,
    StartSession,
    TableEffect,
    TableInput,
    Ticked,
    TouchAsked,
    WakeTableAt,
)

S = "duplex-1"
ABSENT, ADMITTING, OPEN, DETACHED, CLOSING, RETAINED = SlotState

WAY = {
    ABSENT: [],
    ADMITTING: [OpenAsked("c0", S)],
    OPEN: [OpenAsked("c0", S), SessionPrepared(S)],
    DETACHED: [
        OpenAsked("c0", S),
        SessionPrepared(S),
        DetachAsked("c1", S, 0),
        ControlAnswered("c1", S, 0),
    ],
    CLOSING: [OpenAsked("c0", S), SessionPrepared(S), SessionClosing(S)],
    RETAINED: [
        OpenAsked("c0", S),
        SessionPrepared(S),
        SessionClosing(S),
        SessionEnded(S, False, ("r1",)),
    ],
}

INPUTS: dict[str, TableInput] = {
    "open": OpenAsked("c", S),
    "close": CloseAsked("c", S, "client_close"),
    "resume": ResumeAsked("c", S, 0),
    "detach": DetachAsked("c", S, 0),
    "touch": TouchAsked("c", S, "heartbeat"),
    "prepared": SessionPrepared(S),
    "preparation failed": PreparationFailed(S, Fault("invalid_argument", "no")),
    "control answered": ControlAnswered("nobody", S),
    "closing": SessionClosing(S),
    "ended": SessionEnded(S, True),
    "ended, cleanup owed": SessionEnded(S, False, ("r1",)),
    "cleanup ok": CleanupTried(S, True),
    "cleanup failed": CleanupTried(S, False),
    "tick": Ticked(),
    "shutdown": ShutdownAsked(),
}

# What follows, by input and by state in the order of ``SlotState``: the next state and the effects;
# an answer is written as "ok" or as its code.
SAME = (None, ())
EXPECTED: dict[str, tuple[tuple[SlotState | None, tuple[str, ...]], ...]] = {
    "open": (
        (ADMITTING, ("PrepareSession",)),
        (None, ("session_exists",)),
        (None, ("session_exists",)),
        (None, ("session_exists",)),
        (None, ("session_exists",)),
        (None, ("session_exists",)),
    ),
    "close": (
        (None, ("ok",)),
        (None, ("AbandonPreparation", "ok")),
        (None, ("FeedSession",)),
        (None, ("FeedSession",)),
        SAME,
        (None, ("ok",)),
    ),
    "resume": (
        (None, ("unknown_session",)),
        SAME,
        (None, ("FeedSession",)),
        (None, ("FeedSession",)),
        (None, ("session_closed",)),
        (None, ("unknown_session",)),
    ),
    "detach": (
        (None, ("unknown_session",)),
        SAME,
        (None, ("FeedSession",)),
        (None, ("FeedSession",)),
        (None, ("session_closed",)),
        (None, ("unknown_session",)),
    ),
    "touch": (
        (None, ("unknown_session",)),
        SAME,
        (None, ("FeedSession",)),
        (None, ("FeedSession",)),
        (None, ("session_closed",)),
        (None, ("unknown_session",)),
    ),
    "prepared": (
        (None, ("DiscardSession",)),
        (OPEN, ("StartSession", "ok")),
        (None, ("DiscardSession",)),
        (None, ("DiscardSession",)),
        (None, ("DiscardSession",)),
        (None, ("DiscardSession",)),
    ),
    "preparation failed": (
        SAME,
        (ABSENT, ("ForgetSession", "invalid_argument")),
        SAME,
        SAME,
        SAME,
        SAME,
    ),
    "control answered": (SAME,) * 6,
    "closing": (SAME, SAME, (CLOSING, ()), (CLOSING, ()), SAME, SAME),
    "ended": (
        SAME,
        SAME,
        (ABSENT, ("ForgetSession",)),
        (ABSENT, ("ForgetSession",)),
        (ABSENT, ("ForgetSession",)),
        (ABSENT, ("ForgetSession",)),
    ),
    "ended, cleanup owed": (
        SAME,
        SAME,
        (RETAINED, ("WakeTableAt",)),
        (RETAINED, ("WakeTableAt",)),
        (RETAINED, ("WakeTableAt",)),
        SAME,
    ),
    "cleanup ok": (SAME, SAME, SAME, SAME, SAME, (ABSENT, ("ForgetSession",))),
    "cleanup failed": (SAME, SAME, SAME, SAME, SAME, (None, ("WakeTableAt",))),
    "tick": (
        *((None, ("WakeTableAt",)),) * 5,
        (None, ("RetryCleanup", "WakeTableAt")),
    ),
    "shutdown": (
        SAME,
        (None, ("AbandonPreparation",)),
        (None, ("FeedSession",)),
        (None, ("FeedSession",)),
        SAME,
        (ABSENT, ("ForgetSession",)),
    ),
}


def table(max_sessions: int = 2, **settings: int) -> SessionTable:
    return SessionTable(max_sessions=max_sessions, retry_s=5.0, **settings)


def run(subject: SessionTable, items: list[TableInput], now: float = 0.0) -> list[TableEffect]:
    return [effect for item in items for effect in subject.handle(item, now)]


def named(effect: TableEffect) -> str:
    if isinstance(effect, AnswerCaller):
        return "ok" if effect.fault is None else effect.fault.code
    return type(effect).__name__


@pytest.mark.parametrize("state", list(SlotState), ids=lambda state: state.value)
@pytest.mark.parametrize("name", INPUTS)
def test_every_pair_of_state_and_input(state: SlotState, name: str) -> None:
    subject = table()
    run(subject, WAY[state])
    assert subject.state(S) is state

    effects = subject.handle(INPUTS[name], 100.0)

    following, kinds = EXPECTED[name][list(SlotState).index(state)]
    assert [named(effect) for effect in effects] == list(kinds)
    assert subject.state(S) is (following or state)


def test_every_state_but_absent_holds_one_slot() -> None:
    for state, way in WAY.items():
        subject = table()
        run(subject, way)
        assert subject.counts().slots == (state is not ABSENT)


def test_full_table_refuses_retryably_and_admits_again_after_a_release() -> None:
    subject = table(max_sessions=1)
    run(subject, WAY[OPEN])
    (refused,) = subject.handle(OpenAsked("c2", "duplex-2"), 0.0)
    assert isinstance(refused, AnswerCaller)
    assert named(refused) == "resource_exhausted"
    assert refused.retryable

    run(subject, [SessionEnded(S, True)])
    assert subject.handle(OpenAsked("c3", "duplex-3"), 0.0) == (PrepareSession("duplex-3"),)


def test_retained_session_keeps_its_slot() -> None:
    subject = table(max_sessions=1)
    run(subject, WAY[RETAINED])
    (refused,) = subject.handle(OpenAsked("c2", "duplex-2"), 0.0)
    assert named(refused) == "resource_exhausted"


def test_open_answers_after_the_session_has_started() -> None:
    subject = table()
    run(subject, [OpenAsked("c0", S, by_update=True)])
    started, answered = subject.handle(SessionPrepared(S), 0.0)
    assert started == StartSession(S, by_update=True)
    assert isinstance(answered, AnswerCaller)
    assert (answered.control_id, answered.operation) == ("c0", "open")


def test_control_operations_run_one_after_another_in_order() -> None:
    subject = table()
    run(subject, WAY[OPEN])
    first = subject.handle(ResumeAsked("a", S, 0), 0.0)
    assert first == (FeedSession(S, LeaseResumed("a", 0)),)
    assert subject.handle(DetachAsked("b", S, 1), 0.0) == ()

    answered, following = subject.handle(ControlAnswered("a", S, 1), 0.0)
    assert isinstance(answered, AnswerCaller)
    assert (answered.control_id, answered.generation) == ("a", 1)
    assert following == FeedSession(S, LeaseDetached("b", 1))


def test_operations_of_different_sessions_do_not_wait_for_each_other() -> None:
    subject = table()
    run(subject, [*WAY[OPEN], OpenAsked("d0", "duplex-2"), SessionPrepared("duplex-2")])
    run(subject, [ResumeAsked("a", S, 0)])
    assert subject.handle(ResumeAsked("b", "duplex-2", 0), 0.0) == (
        FeedSession("duplex-2", LeaseResumed("b", 0)),
    )


def test_operations_behind_an_open_wait_for_it() -> None:
    subject = table()
    run(subject, [OpenAsked("c0", S), ResumeAsked("a", S, 0)])
    effects = subject.handle(SessionPrepared(S), 0.0)
    assert effects[-1] == FeedSession(S, LeaseResumed("a", 0))


def test_operations_behind_a_failed_open_find_no_session() -> None:
    subject = table()
    run(subject, [OpenAsked("c0", S), ResumeAsked("a", S, 0)])
    effects = subject.handle(PreparationFailed(S, Fault("timeout", "late"), True), 0.0)
    assert [named(effect) for effect in effects] == ["ForgetSession", "timeout", "unknown_session"]


def test_abandoned_open_is_discarded_when_it_arrives() -> None:
    subject = table()
    effects = run(subject, [OpenAsked("c0", S), CloseAsked("k", S), SessionPrepared(S)])
    assert effects[:2] == [PrepareSession(S), AbandonPreparation(S)]
    assert [named(effect) for effect in effects[2:]] == [
        "ok",
        "DiscardSession",
        "ForgetSession",
        "session_closed",
    ]
    assert DiscardSession(S) in effects
    assert ForgetSession(S) in effects
    assert subject.empty


def test_close_is_answered_once_the_session_has_ended() -> None:
    subject = table()
    run(subject, WAY[OPEN])
    assert subject.handle(CloseAsked("k", S, "bye"), 0.0) == (
        FeedSession(S, CloseRequested("bye")),
    )
    assert subject.handle(SessionClosing(S), 0.0) == ()
    assert subject.handle(CloseAsked("k2", S), 0.0) == ()
    effects = subject.handle(SessionEnded(S, True), 0.0)
    assert [named(effect) for effect in effects] == ["ok", "ok", "ForgetSession"]


def test_resume_behind_a_close_is_told_that_the_session_closes() -> None:
    subject = table()
    run(subject, [*WAY[OPEN], CloseAsked("k", S), SessionClosing(S), ResumeAsked("a", S, 0)])
    effects = subject.handle(SessionEnded(S, True), 0.0)
    assert [named(effect) for effect in effects] == ["ok", "session_closed", "ForgetSession"]


def test_failed_operation_does_not_block_the_next() -> None:
    subject = table()
    run(subject, [*WAY[OPEN], ResumeAsked("a", S, 7), ResumeAsked("b", S, 0)])
    fault = Fault("session_resume_conflict", "no")
    refused, following = subject.handle(ControlAnswered("a", S, 0, fault=fault), 0.0)
    assert named(refused) == "session_resume_conflict"
    assert following == FeedSession(S, LeaseResumed("b", 0))


def test_resume_brings_a_detached_session_back() -> None:
    subject = table()
    run(subject, [*WAY[DETACHED], ResumeAsked("a", S, 0), ControlAnswered("a", S, 1)])
    assert subject.state(S) is OPEN


def test_touch_for_an_older_lease_is_a_conflict() -> None:
    subject = table()
    run(subject, [*WAY[OPEN], ResumeAsked("a", S, 0), ControlAnswered("a", S, 1)])
    (refused,) = subject.handle(TouchAsked("b", S, "heartbeat", 0), 0.0)
    assert named(refused) == "session_resume_conflict"


def test_cleanup_is_retried_with_growing_pauses() -> None:
    subject = table()
    run(subject, WAY[RETAINED], now=0.0)
    due, pauses = 5.0, []
    for _ in range(6):
        retry, _wake = subject.handle(Ticked(), due)
        assert retry == RetryCleanup(S, ("r1",))
        (wake,) = subject.handle(CleanupTried(S, False), due)
        assert isinstance(wake, WakeTableAt)
        assert wake.at is not None
        pauses.append(wake.at - due)
        due = wake.at
    assert pauses == [10.0, 20.0, 40.0, 60.0, 60.0, 60.0]


def test_tick_before_its_time_retries_nothing() -> None:
    subject = table()
    run(subject, WAY[RETAINED], now=0.0)
    assert subject.handle(Ticked(), 4.9) == (WakeTableAt(5.0),)


def test_late_release_frees_a_retained_slot() -> None:
    subject = table()
    run(subject, [*WAY[RETAINED], SessionEnded(S, True)])
    assert subject.empty


def test_quarantine_frees_the_slot_after_so_many_failures() -> None:
    subject = table(quarantine_after=2)
    run(subject, [*WAY[RETAINED], CleanupTried(S, False)])
    assert not subject.empty
    run(subject, [CleanupTried(S, False)])
    assert subject.empty


def test_stopping_engine_admits_nobody() -> None:
    subject = table()
    run(subject, [ShutdownAsked()])
    (refused,) = subject.handle(OpenAsked("c", S), 0.0)
    assert named(refused) == "engine_dead"


def test_shutdown_keeps_no_slot_for_an_owed_cleanup() -> None:
    subject = table()
    run(subject, [*WAY[OPEN], ShutdownAsked(), SessionClosing(S), SessionEnded(S, False)])
    assert subject.empty


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (ABSENT, "unknown_session"),
        (ADMITTING, "unknown_session"),
        (OPEN, None),
        (DETACHED, None),
        (CLOSING, "session_closed"),
        (RETAINED, "unknown_session"),
    ],
)
def test_commands_are_refused_by_state(state: SlotState, code: str | None) -> None:
    subject = table()
    run(subject, WAY[state])
    refusal = subject.refusal(S)
    assert (refusal and refusal.code) == code


@pytest.mark.parametrize("seed", range(200))
def test_random_schedules_answer_every_operation_once_and_never_exceed_the_slots(seed: int) -> None:
    chance = random.Random(seed)
    subject = table(max_sessions=3)
    asked: list[str] = []
    answered: list[str] = []
    ids = [f"duplex-{index}" for index in range(5)]

    def feed(item: TableInput, now: float) -> None:
        answered.extend(
            effect.control_id
            for effect in subject.handle(item, now)
            if isinstance(effect, AnswerCaller)
        )
        assert subject.counts().slots <= 3

    for step in range(80):
        session = chance.choice(ids)
        control = f"c{step}"
        kind = chance.randrange(10)
        if kind < 5:
            asked.append(control)
        item: TableInput = (
            OpenAsked(control, session),
            CloseAsked(control, session),
            ResumeAsked(control, session, 0),
            DetachAsked(control, session, 0),
            TouchAsked(control, session, "append"),
            SessionPrepared(session),
            PreparationFailed(session, Fault("timeout", "late")),
            ControlAnswered(chance.choice(asked or [""]), session),
            SessionEnded(session, chance.random() < 0.7),
            CleanupTried(session, chance.random() < 0.5),
        )[kind]
        feed(item, float(step))
    for session in ids:
        feed(SessionPrepared(session), 99.0)
        feed(SessionEnded(session, True), 99.0)
    assert sorted(answered) == sorted(asked)
    assert subject.empty
