"""What a worker started does not outlive it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from duplex_sdk.stage.worker.group_guard import GroupGuard
from patience import PATIENCE_S, wait_until

PROGRAM = """
import subprocess, sys, time
from duplex_sdk.stage.worker.group_guard import GroupGuard

child = subprocess.Popen(["sleep", "600"])
guard = GroupGuard()
guard.remove_at_the_end(*sys.argv[1:])
print(guard.watches, child.pid, flush=True)
sys.stdin.read(1)
"""


def started(*paths: Path, leads_its_group: bool) -> tuple[subprocess.Popen[str], bool, int]:
    """A process with a guard and a child, and what it says of them."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *map(str, paths)],
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
@pytest.mark.parametrize("end", ["killed", "stopped, then killed", "killed with its group", "left"])
def test_the_group_and_its_files_end_with_the_process(end: str, tmp_path: Path) -> None:
    folder, file, gone = tmp_path / "a folder", tmp_path / "file", tmp_path / "gone already"
    folder.mkdir()
    (folder / "inside").touch()
    file.touch()
    process, watches, child = started(folder, file, gone, leads_its_group=True)
    with process:
        assert watches
        if end == "left":
            process.communicate("x", timeout=PATIENCE_S)
        if end == "stopped, then killed":
            process.send_signal(signal.SIGSTOP)
        if end == "killed with its group":
            os.killpg(process.pid, signal.SIGKILL)
        elif end != "left":
            process.kill()
        assert ends(child)
    wait_until(lambda: not list(tmp_path.iterdir()))


def test_a_path_of_two_lines_is_refused() -> None:
    with pytest.raises(ValueError, match="line break"):
        GroupGuard().remove_at_the_end("a\nb")


def test_a_process_that_leads_no_group_ends_nobody() -> None:
    process, watches, child = started(leads_its_group=False)
    with process:
        process.kill()
    assert not watches
    os.kill(child, signal.SIGKILL)
