"""What a worker started does not outlive it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys

import pytest

PATIENCE_S = 20.0
PROGRAM = """
import subprocess, sys, time
from duplex_sdk.stage.worker.group_guard import GroupGuard

child = subprocess.Popen(["sleep", "60"])
guard = GroupGuard()
print(guard.watches, child.pid, flush=True)
sys.stdin.read(1)
"""


def started(*, leads_its_group: bool) -> tuple[subprocess.Popen[str], bool, int]:
    """A process with a guard and a child, and what it says of them."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=leads_its_group,
    )
    assert process.stdout is not None
    watches, child = process.stdout.readline().split()
    return process, watches == "True", int(child)


def ends(pid: int) -> bool:
    """Whether a process is gone, or will be soon; it need be no child of this one."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], PATIENCE_S)[0])
    finally:
        os.close(descriptor)


@pytest.mark.skipif(sys.platform != "linux", reason="processes are watched as Linux does it")
@pytest.mark.parametrize("end", ["killed", "stopped, then killed", "left"])
def test_the_group_ends_with_the_process_however_that_ends(end: str) -> None:
    process, watches, child = started(leads_its_group=True)
    with process:
        assert watches
        if end == "left":
            process.communicate("x", timeout=PATIENCE_S)
        if end == "stopped, then killed":
            process.send_signal(signal.SIGSTOP)
        if end != "left":
            process.kill()
        assert ends(child)


def test_a_process_that_leads_no_group_ends_nobody() -> None:
    process, watches, child = started(leads_its_group=False)
    with process:
        process.kill()
    assert not watches
    os.kill(child, signal.SIGKILL)
