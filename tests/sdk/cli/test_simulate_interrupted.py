"""Ctrl-C ends a simulation: what runs is finished and counted, and nobody is left behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from multiprocessing import active_children

import pytest
from duplex_sdk.testing.simulation import Interruption, Soak, SoakResult, soak
from patience import PATIENCE_S, wait_until
from processes import descendants, runs

SEED = 41
MANY = 1_000_000


def interrupted_after_its_first_piece(processes: int) -> SoakResult:
    interruption = Interruption()
    what = Soak(seed=SEED, schedules=MANY, processes=processes)
    return soak(what, lambda ran: interruption.ask(), interruption)


def test_a_soak_that_is_asked_ends_with_what_it_has() -> None:
    result = interrupted_after_its_first_piece(processes=1)
    assert result.interrupted
    assert 0 < result.schedules < MANY
    assert result.next_seed == SEED + result.schedules
    assert result.looked.total() > result.schedules


def test_a_soak_of_many_processes_ends_them_and_counts_what_each_had_begun() -> None:
    others = set(active_children())
    result = interrupted_after_its_first_piece(processes=2)
    assert result.interrupted
    assert set(active_children()) <= others
    assert SEED < result.next_seed <= SEED + result.schedules
    assert result.schedules < MANY


def test_one_that_nobody_interrupts_says_where_to_go_on() -> None:
    result = soak(Soak(seed=SEED, schedules=3, processes=1))
    assert not result.interrupted
    assert result.next_seed == SEED + 3


@pytest.mark.skipif(sys.platform == "win32", reason="a terminal's signal, as POSIX sends it")
@pytest.mark.parametrize("processes", [1, 2])
def test_the_command_tells_how_far_it_came_and_leaves_nobody_behind(processes: int) -> None:
    asked = ["simulate", "--seed", str(SEED), "--minutes", "60", "--processes", str(processes)]
    program = "from duplex_sdk.cli.app import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", program, *asked],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as command:
        assert command.stdout is not None
        assert command.stdout.readline() == f"seed {SEED}\n"
        # With one process it may be anywhere; the others are on their way, or at work already.
        wait_until(lambda: processes == 1 or len(descendants(command.pid)) >= processes)
        begun = descendants(command.pid)
        # As a terminal does: to everybody in the foreground.
        os.killpg(command.pid, signal.SIGINT)
        told, complaints = command.communicate(timeout=PATIENCE_S)
    assert command.returncode == 130, complaints
    assert complaints == ""
    summary = r"\d+ schedules in \d+\.\d s, \d+ a second\n\d+ of \d+ laws looked \d+ times"
    assert re.match(summary, told), told
    assert re.search(r"go on with: duplex simulate --seed \d+\n", told), told
    wait_until(lambda: not any(map(runs, begun)))
