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
MOST = 3000
"""Nearly all are noticed within a hundred."""


def first_failure() -> Failure | None:
    for seed in range(MOST):
        failure = run(draw(seed, SCRIPTED_KINDS), SCRIPTED_KINDS)
        if failure is not None:
            return failure
    return None


@pytest.mark.parametrize("fault", PLANTED, ids=lambda fault: fault.name)
def test_a_planted_fault_is_caught_by_a_law(fault: Any) -> None:
    with fault.planted():
        failure = first_failure()
    assert failure is not None, f"{MOST} schedules did not notice that {fault.name}"
    assert failure.law != "AssertionError"


def test_faults_enough_are_planted() -> None:
    assert len(PLANTED) >= 30
    assert len({fault.name for fault in PLANTED}) == len(PLANTED)
