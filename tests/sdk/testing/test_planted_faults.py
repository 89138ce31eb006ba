"""Does the simulator find what is wrong? Each fault planted in the core must be caught."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest
from duplex_sdk.testing.simulation import SCRIPTED_KINDS, Failure, draw, run


def _planted() -> Any:
    name = "planted_faults"
    if name not in sys.modules:
        path = Path(__file__).with_name(f"{name}.py")
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


PLANTED = _planted().PLANTED
GROUPS = (
    (1, 10),
    (11, 17),
    (18, 28),
    (29, 38),
    (39, 51),
    (52, 61),
    (62, 73),
    (74, 91),
    (92, 105),
    (106, 116),
    (117, 120),
)
"""Identity, refusals, input, order of units, responses, interruptions, playback, leases, delivery,
stages, liveness."""

SOON, MOST = 600, 5000
"""So many schedules notice nearly every fault; some need a rare meeting of things."""


def caught(fault: Any, most: int) -> Failure | None:
    """The first failure that one of the laws of this fault told."""
    for seed in range(most):
        failure = run(draw(seed, SCRIPTED_KINDS), SCRIPTED_KINDS)
        if failure is not None and failure.number in fault.by:
            return failure
    return None


def of(*, rare: bool) -> Any:
    faults = [fault for fault in PLANTED if fault.rare is rare]
    return pytest.mark.parametrize("fault", faults, ids=lambda fault: fault.name)


@of(rare=False)
def test_a_planted_fault_is_caught_by_its_law(fault: Any) -> None:
    with fault.planted():
        failure = caught(fault, SOON)
    assert failure is not None, f"{SOON} schedules did not notice that {fault.name}"


@pytest.mark.slow
@of(rare=True)
def test_a_planted_fault_that_seldom_shows_is_caught_too(fault: Any) -> None:
    with fault.planted():
        failure = caught(fault, MOST)
    assert failure is not None, f"{MOST} schedules did not notice that {fault.name}"


def test_faults_enough_are_planted_and_each_says_who_must_catch_it() -> None:
    assert len([fault for fault in PLANTED if not fault.rare]) >= 60
    assert len({fault.name for fault in PLANTED}) == len(PLANTED)
    assert all(fault.by for fault in PLANTED)


def test_every_group_of_invariants_has_a_planted_fault() -> None:
    planted = {number for fault in PLANTED for number in fault.by}
    for first, last in GROUPS:
        assert planted & set(range(first, last + 1)), f"no fault breaks one of {first} to {last}"
