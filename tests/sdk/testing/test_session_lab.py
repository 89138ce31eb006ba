from __future__ import annotations

from duplex_sdk.session import effects, inputs
from duplex_sdk.testing.scripted.model import Scripted
from duplex_sdk.testing.session_lab import SessionLab


def test_a_session_has_one_timer_and_its_newest_wish_counts() -> None:
    lab = SessionLab(Scripted({}))
    fired: list[float] = []

    def look(item: inputs.Input, asked: object) -> None:
        if isinstance(item, inputs.TimerFired):
            fired.append(lab.now)

    lab.watch = look
    lab.carry_out(effects.WakeAt(5.0))
    lab.carry_out(effects.WakeAt(1.0))
    lab.run(8_000)
    assert fired == [1.0]


def test_an_effect_can_be_done_as_usual_beside_the_fault_that_stands_for_it() -> None:
    lab = SessionLab(Scripted({}))
    lab.faults[effects.ReleaseRequests] = lambda effect: None
    effect = effects.ReleaseRequests(op=7, request_ids=("a",))
    assert lab.outcome_of(effect) == inputs.RequestsAborted(7)
