"""What the processes of a worker hold, seen from outside."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from duplex_sdk.stage.worker.descendants import descendants, shared_memory_of
from patience import PATIENCE_S

PROGRAM = """
import multiprocessing, sys
from multiprocessing.shared_memory import SharedMemory

memory = SharedMemory(create=True, size=4096)
lock = multiprocessing.get_context("spawn").Lock()
print(memory.name, lock._semlock.name, flush=True)
sys.stdin.read(1)
memory.close()
memory.unlink()
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the system does not tell")


@pytest.fixture
def child() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        yield child
        child.communicate("x", timeout=PATIENCE_S)


def test_shared_memory_and_named_locks_of_a_child_are_found(child: subprocess.Popen[str]) -> None:
    assert child.stdout is not None
    memory, lock = child.stdout.readline().split()
    assert child.pid in descendants(os.getpid())
    assert shared_memory_of(os.getpid()) >= {f"/dev/shm/{memory}", f"/dev/shm/sem.{lock[1:]}"}


def test_of_a_process_that_is_gone_nothing_is_found() -> None:
    with subprocess.Popen(["true"]) as gone:
        pass
    assert list(descendants(gone.pid)) == []
    assert shared_memory_of(gone.pid) == set()
