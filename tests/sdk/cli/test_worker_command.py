"""``duplex worker``: what it says before anybody came."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from duplex_sdk.stage.worker import SECRET_VARIABLE
from patience import PATIENCE_S


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "duplex_sdk.cli", "worker", *arguments],
        env={**os.environ, SECRET_VARIABLE: "s" * 40},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--log-level", "loud"], "'loud' is not one of"),
        (["--listen", "nowhere"], "HOST:PORT"),
        (["--max-workers", "0"], "greater than or equal to 1"),
    ],
)
def test_what_cannot_be_is_wrong_usage(arguments: list[str], says: str) -> None:
    with start(*arguments) as command:
        said, _ = command.communicate(timeout=PATIENCE_S)
    assert command.returncode == 2
    assert says in " ".join(said.replace("│", "").split())


@pytest.mark.parametrize(("host", "warns"), [("0.0.0.0", True), ("127.0.0.1", False)])
def test_whoever_lends_beyond_this_machine_is_told_that_it_is_not_encrypted(
    host: str, warns: bool
) -> None:
    with start("--listen", f"{host}:0") as command:
        assert command.stdout is not None
        first = command.stdout.readline()
        assert f"come to {host}:" in first
        if warns:
            assert "not encrypted" in command.stdout.readline()
        command.send_signal(signal.SIGTERM)
        rest, _ = command.communicate(timeout=PATIENCE_S)
    assert command.returncode == 0
    assert "encrypted" not in rest
