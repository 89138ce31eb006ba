"""``duplex doctor`` in a fresh interpreter that sees fake packages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from duplex_sdk.discovery import machine
from duplex_sdk.stage.device import CudaDevice
from patience import PATIENCE_S

NEEDY = """
from duplex_sdk.plugin import PluginSpec
plugin = PluginSpec(name="needy", api="1.0", factory="fake_needy:X", memory_bytes=2**50)
"""

REPORTS = """
from duplex_sdk.discovery import Check, Report, hookimpl

@hookimpl
def duplex_doctor_reports():
    yield Report("the lamp", (Check("bulb", {ok}, "60 W", "buy another"),))
    {then}
"""


def install(folder: Path, group: str, name: str, source: str) -> None:
    package = folder / f"fake_{name}"
    package.mkdir()
    (package / "__init__.py").write_text(source)
    info = folder / f"fake_{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: fake-{name}\nVersion: 1.0\n")
    value = f"fake_{name}:plugin" if group == "duplex.plugins" else f"fake_{name}"
    (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {value}\n")


def doctor(folder: Path) -> tuple[int, dict[str, dict[str, Any]]]:
    """Exit code, and checks by name by subject."""
    done = subprocess.run(
        [sys.executable, "-m", "duplex_sdk.cli", "doctor", "--json"],
        env={**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    answer = json.loads(done.stdout)
    reports = {
        report["subject"].partition(" (")[0]: {each["name"]: each for each in report["checks"]}
        for report in answer["reports"]
    }
    assert answer["ok"] == all(report["ok"] for report in answer["reports"])
    return done.returncode, reports


def test_doctor_looks_at_machine_server_plugins_and_hooks(tmp_path: Path) -> None:
    _, reports = doctor(tmp_path)
    assert {"interpreter", "duplex-sdk", "duplex-server", "memory", "audio"} <= set(
        reports["machine"]
    )
    assert sys.executable in reports["machine"]["interpreter"]["detail"]
    assert {"settings", "port", "speech detection"} <= set(reports["server"])
    assert reports["scripted"]["import"]["ok"]
    assert reports["hooks"]["duplex-server:server"]["ok"]


def test_a_model_that_does_not_fit_here_is_trouble_with_a_hint(tmp_path: Path) -> None:
    install(tmp_path, "duplex.plugins", "needy", NEEDY)
    code, reports = doctor(tmp_path)
    assert code == 1
    memory = reports["needy"]["memory"]
    assert not memory["ok"]
    assert "needs 1073741824 MiB" in memory["detail"]
    assert memory["hint"]


def test_what_a_package_reports_is_shown_and_counts(tmp_path: Path) -> None:
    install(tmp_path, "duplex.hooks", "lamp", REPORTS.format(ok=False, then=""))
    code, reports = doctor(tmp_path)
    assert code == 1
    assert reports["the lamp"]["bulb"]["hint"] == "buy another"


def test_a_package_whose_report_fails_hides_no_other(tmp_path: Path) -> None:
    install(tmp_path, "duplex.hooks", "lamp", REPORTS.format(ok=True, then="raise SystemExit(3)"))
    code, reports = doctor(tmp_path)
    assert code == 1
    assert reports["fake-lamp:lamp"]["doctor"]["detail"] == "SystemExit: 3"
    assert reports["server"]
    assert reports["scripted"]["import"]["ok"]


def test_a_gpu_that_the_installed_torch_cannot_use_is_trouble() -> None:
    device = CudaDevice(0, "H200", 141 * 2**30, 140 * 2**30)
    found, torch = machine._devices((device,), "2.9.0+cpu")
    assert found.ok
    assert found.detail == "H200, 140.0 of 141.0 GiB free"
    assert not torch.ok
    assert torch.hint


@pytest.mark.parametrize("torch", [None, "2.9.0", "2.9.0+cu128"])
def test_a_gpu_with_a_fitting_torch_or_none_is_sound(torch: str | None) -> None:
    device = CudaDevice(0, "H200", 141 * 2**30, 140 * 2**30)
    assert all(check.ok for check in machine._devices((device,), torch))


def test_no_gpu_is_no_trouble() -> None:
    (check,) = machine._devices((), "2.9.0+cpu")
    assert check.ok
