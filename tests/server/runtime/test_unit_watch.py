"""Units on their way to the model, by the effects of a session and their outcomes."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from duplex_sdk.plugin import (
    AppendRequest,
    DuplexFence,
    DuplexStageRequestContext,
    DuplexStageSubmission,
)
from duplex_sdk.plugin.buffer import AppendPiece
from duplex_sdk.plugin.views import SessionView
from duplex_sdk.session.effects import PlanAppend, SubmitUnit
from duplex_sdk.session.inputs import AppendPlanned, Fault, UnitSubmitted
from duplex_sdk.stage import StagePrompt
from duplex_server.runtime.unit_watch import UnitTiming, UnitWatch

FAULT = Fault("timeout", "too long")


def plan(op: int, seq: int, epoch: int = 0) -> PlanAppend:
    return PlanAppend(
        op,
        AppendRequest(
            fence=DuplexFence("s", epoch, 5),
            request_id="r",
            seq=seq,
            turn_seq=1,
            unit=AppendPiece(audio=None),
            session=SessionView(session_id="s"),
        ),
    )


def submit(op: int) -> SubmitUnit:
    context = DuplexStageRequestContext(
        request_id="r", session_id="s", fence=DuplexFence("s"), sampling_params=({},)
    )
    submission = DuplexStageSubmission(
        context=context, prompt=StagePrompt(), already_submitted=False
    )
    return SubmitUnit(op, submission)


@pytest.fixture
def told() -> list[UnitTiming]:
    return []


@pytest.fixture
def watch(told: list[UnitTiming]) -> UnitWatch:
    return UnitWatch(told.append, itertools.count(1).__next__)


def test_a_unit_is_told_when_the_model_took_it(watch: UnitWatch, told: list[UnitTiming]) -> None:
    watch.asked(plan(1, 7))
    watch.came(AppendPlanned(1))
    watch.asked(submit(2))
    assert told == []
    watch.came(UnitSubmitted(2))
    assert told == [UnitTiming(0, 5, 7, 1, 2, 3, None)]


@pytest.mark.parametrize("planned", [True, False])
def test_a_unit_that_failed_is_told_with_its_code(
    watch: UnitWatch, told: list[UnitTiming], planned: bool
) -> None:
    watch.asked(plan(1, 7))
    if planned:
        watch.came(AppendPlanned(1))
        watch.asked(submit(2))
        watch.came(UnitSubmitted(2, FAULT))
    else:
        watch.came(AppendPlanned(1, fault=FAULT))
    assert [each.fault for each in told] == ["timeout"]
    assert (told[0].submitted_at is None) != planned


def test_a_unit_of_an_ended_epoch_keeps_its_own_times(
    watch: UnitWatch, told: list[UnitTiming]
) -> None:
    watch.asked(plan(1, 7))
    watch.asked(plan(2, 1, epoch=1))
    watch.came(AppendPlanned(1))
    watch.came(AppendPlanned(2))
    watch.asked(submit(3))
    watch.came(UnitSubmitted(3))
    assert [(each.epoch, each.seq, each.planned_at) for each in told] == [(1, 1, 2)]


def test_whoever_cannot_be_told_holds_nothing_up(caplog: pytest.LogCaptureFixture) -> None:
    def fails(timing: UnitTiming) -> Any:
        raise RuntimeError("no")

    watch = UnitWatch(fails)
    watch.asked(plan(1, 1))
    watch.came(AppendPlanned(1, fault=FAULT))
    assert "nobody could be told" in caplog.text
