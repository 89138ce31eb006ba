from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from duplex_sdk.cli.model_tools import _finish
from duplex_sdk.discovery import Check, Report
from patience import PATIENCE_S

DUPLEX = Path(sys.executable).with_name("duplex")


def duplex(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [DUPLEX, *arguments], capture_output=True, text=True, timeout=PATIENCE_S, check=False
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


def test_figures_are_shown_as_a_table_that_fits_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    row = {"batch": 4, "p50_ms": 12.345, "p99_ms": 0.5, "memory_gb": 1234.5, "real_time": True}
    report = Report("model", (Check("fast enough", True),), (row, {**row, "real_time": False}))
    _finish(report, as_json=False)
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert lines[:2] == [["p50", "p99", "memory", "real"], ["batch", "ms", "ms", "gb", "time"]]
    assert lines[2:4] == [["4", "12.3", "0.50", "1234", answer] for answer in ("yes", "no")]
    _finish(report, as_json=True)
    assert json.loads(capsys.readouterr().out)["rows"][0] == row
