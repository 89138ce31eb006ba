from __future__ import annotations

import subprocess
import sys
from pathlib import Path

DUPLEX = Path(sys.executable).with_name("duplex")


def duplex(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [DUPLEX, *arguments], capture_output=True, text=True, timeout=30, check=False
    )


def test_a_plugin_that_checks_no_checkpoints_says_so(tmp_path: Path) -> None:
    done = duplex("verify-checkpoint", "scripted", str(tmp_path))
    assert done.returncode == 1
    assert "the plugin 'scripted' checks no checkpoints" in done.stderr


def test_a_plugin_that_times_no_model_says_so() -> None:
    done = duplex("bench-model", "scripted", "frames=5")
    assert done.returncode == 1
    assert "the plugin 'scripted' times no model" in done.stderr


def test_a_plugin_nobody_has_is_named(tmp_path: Path) -> None:
    done = duplex("verify-checkpoint", "nobody", str(tmp_path))
    assert done.returncode == 1
    assert "no plugin called 'nobody'" in done.stderr


def test_a_setting_without_a_value_is_wrong_usage() -> None:
    done = duplex("bench-model", "scripted", "frames")
    assert done.returncode == 2
    assert "KEY=VALUE" in done.stderr
