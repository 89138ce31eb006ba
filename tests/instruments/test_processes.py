"""Processes that start, end and are reaped while they are looked at."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from patience import wait_until
from processes import children, descendants, exists, runs, waited_for_a_core_s

FAMILY = """
import subprocess, sys
subprocess.run([sys.executable, "-c", "print('here', flush=True); input()", "grandchild"])
"""


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def test_who_ended_is_a_child_until_somebody_waits_for_it(child: subprocess.Popen[bytes]) -> None:
    assert child.pid in children()
    assert runs(child.pid)
    child.kill()
    wait_until(lambda: not runs(child.pid))
    assert child.pid in children()
    assert exists(child.pid)
    child.wait()
    assert child.pid not in children()
    assert not exists(child.pid)
    assert not runs(child.pid)
    assert children(child.pid) == set()


def test_what_a_child_started_is_a_descendant() -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", FAMILY], stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"here\n"
        (pid,) = children(process.pid)
        assert descendants(process.pid)[pid].endswith("grandchild")
        assert pid in descendants(os.getpid())
        assert pid not in children()
        process.communicate(b"\n")
    assert not runs(pid)


def test_threads_that_end_and_children_that_go_meanwhile_are_no_error() -> None:
    """What every look at /proc by hand got wrong in its turn."""
    over = threading.Event()

    def come_and_go() -> None:
        while not over.is_set():
            thread = threading.Thread(target=subprocess.call, args=(["true"],))
            thread.start()
            thread.join()

    busy = [threading.Thread(target=come_and_go) for _ in range(2)]
    for thread in busy:
        thread.start()
    try:
        for _ in range(100):
            assert children() >= set()
            descendants(os.getpid())
    finally:
        over.set()
        for thread in busy:
            thread.join()


def test_a_stopped_process_still_runs(child: subprocess.Popen[bytes]) -> None:
    child.send_signal(signal.SIGSTOP)
    assert runs(child.pid)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system does not tell")
def test_what_two_have_to_share_one_of_them_waits_for() -> None:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
            waited = waited_for_a_core_s()
            wait_until(lambda: sum(range(10**6)) > 0 and waited_for_a_core_s() - waited > 0.05)
            other.kill()
    finally:
        os.sched_setaffinity(0, before)
