"""What a worker says it occupies, the processes of its libraries included."""

from __future__ import annotations

import subprocess
import sys

import pytest
from duplex_sdk.stage.worker.process_memory import resident_bytes
from patience import PATIENCE_S

HELD = 64 << 20
PROGRAM = f"""
import subprocess, sys
held = bytearray({HELD})
deeper = "import sys; held = bytearray({HELD}); print('held', flush=True); sys.stdin.read(1)"
subprocess.run([sys.executable, "-c", deeper])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not tell")
def test_children_and_their_children_count() -> None:
    alone = resident_bytes()
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as family:
        assert family.stdout is not None
        assert family.stdout.readline() == "held\n"
        assert resident_bytes() - alone >= 2 * HELD
        family.communicate("x", timeout=PATIENCE_S)
