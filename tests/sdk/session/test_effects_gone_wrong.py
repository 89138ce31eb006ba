"""Every effect that takes time fails, hangs, is called off or comes late: nothing stays behind.

One life asks for each of them more than once. It is lived again for each occurrence of each effect
and for each thing that may become of it. A new effect that takes time fails the first test here
until the life asks for it and it is said what its outcome is.
"""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Any

import pytest
from duplex_sdk.protocol.duplex import (
    BargeIn,
    CancelResponse,
    CloseSession,
    Commit,
    CreateItem,
    CreateResponse,
    UpdateSession,
)
from duplex_sdk.session import effects, inputs
from duplex_sdk.testing.session_lab import SessionLab

Effect = Any
Fault = inputs.Fault

FAULTY: dict[type[Effect], Callable[[int, Fault], inputs.Input]] = {
    effects.DecodeAudio: lambda op, fault: inputs.AudioDecoded(op, fault=fault),
    effects.ConfigureInput: lambda op, fault: inputs.InputConfigured(op, fault=fault),
    effects.PlanAppend: lambda op, fault: inputs.AppendPlanned(op, fault=fault),
    effects.SubmitUnit: lambda op, fault: inputs.UnitSubmitted(op, fault=fault),
    effects.AbortRequests: lambda op, fault: inputs.RequestsAborted(op, fault=fault),
    effects.ReleaseRequests: lambda op, fault: inputs.RequestsAborted(op, fault=fault),
    effects.ReleaseStages: lambda op, fault: inputs.StagesReleased(op, fault=fault),
}
"""The outcome of each effect that takes time, when its work did not succeed."""

TIMED = [kind for kind in typing.get_args(effects.Effect) if "op" in kind.__struct_fields__]

FAILED = Fault("runtime_failed", "it failed")
CALLED_OFF = Fault("session_closed", "it was called off")
TIMED_OUT = Fault("timeout", "it took too long")


class Accident:
    """What becomes of one occurrence of an effect.

    Args:
        lab: whose effects they are.
        kind: which.
        number: of the occurrence, from 1.

    Attributes:
        met: the effect that it became of.
    """

    def __init__(self, lab: SessionLab, kind: type[Effect], number: int) -> None:
        self.met: Effect | None = None
        self._lab, self._kind, self._left = lab, kind, number
        lab.faults[kind] = self._perform

    def _perform(self, effect: Effect) -> inputs.Input | None:
        self._left -= 1
        if self._left:
            return self._lab.outcome_of(effect)
        self.met = effect
        fault = self.at_once()
        return None if fault is None else FAULTY[self._kind](effect.op, fault)

    def at_once(self) -> Fault | None:
        """Why it fails; None: it hangs."""
        return None

    def before_the_close(self) -> None:
        """The life is nearly over."""

    def after_the_close(self) -> None:
        """The session was asked to end."""

    def _comes_back(self, fault: Fault) -> None:
        if self.met is not None:
            self._lab.feed(FAULTY[self._kind](self.met.op, fault))


class Fails(Accident):
    def at_once(self) -> Fault | None:
        return FAILED


class IsCalledOff(Accident):
    def at_once(self) -> Fault | None:
        return CALLED_OFF


class Hangs(Accident):
    """The shell gives it up."""

    def before_the_close(self) -> None:
        self._comes_back(TIMED_OUT)


class HangsIntoTheClose(Accident):
    def after_the_close(self) -> None:
        self._comes_back(TIMED_OUT)


class ComesLate(Accident):
    """It succeeds, when much else has happened."""

    def before_the_close(self) -> None:
        if self.met is not None:
            self._lab.carry_out(self.met)


class ComesTwice(Accident):
    """The shell never lets that happen; the core does not mind."""

    def before_the_close(self) -> None:
        self._comes_back(TIMED_OUT)
        self._comes_back(TIMED_OUT)


class NeverComesBack(Accident):
    """Only a session that ends may leave an effect behind."""


ACCIDENTS = (
    Fails,
    IsCalledOff,
    Hangs,
    HangsIntoTheClose,
    ComesLate,
    ComesTwice,
    NeverComesBack,
)


def live(lab: SessionLab, accident: Accident) -> None:
    """A life that asks for every effect, and its end."""
    lab.send(BargeIn())
    for name in (None, "server_vad", None):
        detection = None if name is None else {"type": name}
        lab.send(UpdateSession(session={"turn_detection": detection}))
    for reason in (CancelResponse(), None, BargeIn()):
        lab.speak(300)
        lab.send(Commit(response_create=True))
        lab.run(300)
        if reason is not None:
            lab.send(reason)
        lab.run(3000)
    lab.send(BargeIn(), CreateItem(item=SAID), CreateResponse())
    lab.run(3000)
    lab.speak(100)
    accident.before_the_close()
    lab.run(1000)
    lab.send(CloseSession())
    accident.after_the_close()
    lab.run(lab.limits.close_timeout_s * 1000 + 1)


SAID = {"role": "user", "content": [{"type": "input_text", "text": "hello"}]}


def assert_empty(lab: SessionLab, accident: Accident) -> None:
    """Every ledger of a session that ended is empty, and its client knows how it ended."""
    session, state = lab.session, lab.session.state
    kinds = lab.types()
    assert session.closed
    assert (kinds.count("session.closed"), kinds[-1]) == (1, "session.closed")
    assert kinds.count("response.created") == kinds.count("response.done")
    assert state.input_bytes.total == 0
    assert state.pending_turns.total == 0
    assert state.model_state.audio_buffer.pending_byte_count == 0
    assert not state.lease.active_operations
    assert session.waiting_commands == 0
    assert session.moving_input_bytes == 0
    assert state.response is None
    assert lab.ended[0].released != isinstance(accident.met, effects.ReleaseStages)


@pytest.fixture
def lab(make_lab: Any) -> Callable[[], SessionLab]:
    def make() -> SessionLab:
        made: SessionLab = make_lab(script={"turns": "commit"})
        return made

    return make


def test_every_effect_that_takes_time_has_its_outcome_and_its_place_in_the_life(lab: Any) -> None:
    assert set(FAULTY) == set(TIMED)
    for kind in TIMED:
        subject = lab()
        seen = ComesLate(subject, kind, 1)
        live(subject, seen)
        assert seen.met is not None, f"the life never asks for {kind.__name__}"


@pytest.mark.parametrize("becomes", ACCIDENTS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("kind", TIMED, ids=lambda each: each.__name__)
def test_an_effect_that_goes_wrong_leaves_nothing(
    lab: Any, kind: type[Effect], becomes: type[Accident]
) -> None:
    number, met = 0, True
    while met:
        number += 1
        subject = lab()
        accident = becomes(subject, kind, number)
        live(subject, accident)
        assert_empty(subject, accident)
        met = accident.met is not None
    assert number > 1
