"""How a worker's process ended, in words."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest
from duplex_sdk.stage.worker.process import WorkerProcess
from patience import PATIENCE_S


def end_of(*command: str) -> str:
    ended = threading.Event()
    process = WorkerProcess(
        command, os.environ, name="short", on_line=lambda line: None, on_exit=ended.set
    )
    process.start()
    assert ended.wait(PATIENCE_S)
    return process.describe_end()


@pytest.mark.parametrize(
    ("does", "says"),
    [
        ("sys.exit(3)", "it exited with code 3"),
        ("os.kill(os.getpid(), 9)", "it was ended by SIGKILL, as the system does when memory"),
        ("os.kill(os.getpid(), 15)", "it was ended by SIGTERM"),
    ],
)
def test_its_end_is_told_with_what_it_may_mean(does: str, says: str) -> None:
    assert end_of(sys.executable, "-S", "-c", f"import os, sys; {does}").startswith(says)


def test_what_could_not_be_started_is_told_with_its_reason(tmp_path: Path) -> None:
    assert "No such file" in end_of(str(tmp_path / "none"))
