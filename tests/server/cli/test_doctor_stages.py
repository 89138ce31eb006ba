"""``duplex doctor`` about the stages of a deployment: their devices, memory and interpreters."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from duplex_sdk.discovery import Check
from duplex_sdk.stage.device import CudaDevice, choice, memory
from duplex_server.cli.doctor import examine_server

_GIB = 1024**3
Examine = Callable[[str], dict[str, Check]]


@pytest.fixture
def examine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Examine:
    """Looks at a deployment of ``scripted``, given what it says of its stage."""
    monkeypatch.chdir(tmp_path)

    def look(stage: str) -> dict[str, Check]:
        (tmp_path / "duplex.yaml").write_text(f"plugin: scripted\nstages: {{scripted: {stage}}}\n")
        return {check.name: check for check in examine_server({"DUPLEX_PORT": "0"}).checks}

    return look


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a driver would tell: the second one is nearly full."""
    told = (
        CudaDevice(0, "first", 8 * _GIB, 7 * _GIB),
        CudaDevice(1, "second", 8 * _GIB, 1 * _GIB),
    )
    for module in (choice, memory):
        monkeypatch.setattr(module, "cuda_devices", lambda: told)


def test_a_stage_that_can_be_run_is_told_with_its_place(examine: Examine) -> None:
    checks = examine("{backend: process, replicas: 2, device: cpu, memory_bytes: 1000}")
    assert checks["stage scripted"].ok
    assert checks["stage scripted"].detail == "2 replicas, process on cpu"
    assert checks["memory cpu"].ok


def test_a_device_that_is_not_there_is_found_before_it_is_asked_for(examine: Examine) -> None:
    check = examine("{device: 'cuda:7'}")["stage scripted"]
    assert not check.ok
    assert "cuda:7: no CUDA device" in check.detail
    assert check.hint


def test_replicas_must_fit_together(examine: Examine) -> None:
    checks = examine(f"{{device: cpu, replicas: 1000, memory_bytes: {_GIB}}}")
    assert checks["stage scripted"].ok
    assert not checks["memory cpu"].ok
    assert f"needs {1000 * 1024} MiB on cpu" in checks["memory cpu"].detail


@pytest.mark.usefixtures("two_gpus")
def test_each_device_has_to_hold_the_replicas_that_it_gets(examine: Examine) -> None:
    checks = examine(f"{{device: cuda, replicas: 3, memory_bytes: {2 * _GIB}}}")
    assert checks["stage scripted"].detail == "3 replicas, inline on cuda:0, cuda:1"
    assert checks["memory cuda:0"].detail == "all stages together need 4.0 GiB"
    assert not checks["memory cuda:1"].ok


def test_an_interpreter_of_its_own_needs_what_the_workers_need(
    examine: Examine, tmp_path: Path
) -> None:
    ours = examine(f"{{worker_python: {sys.executable}}}")["stage scripted"]
    assert ours.ok
    assert ours.detail.startswith("process on ")
    assert f"{sys.executable} has duplex-sdk" in ours.detail
    missing = examine(f"{{worker_python: {tmp_path / 'none'}}}")["stage scripted"]
    assert not missing.ok
    assert "does not run" in missing.detail
    # An interpreter that finds no packages at all.
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    poor = examine(f"{{worker_python: {bare}}}")["stage scripted"]
    assert not poor.ok
    assert "has no duplex-sdk" in poor.detail


def test_what_no_stage_can_be_is_told_with_its_line(examine: Examine) -> None:
    check = examine("{backend: vllm}")["stages"]
    assert not check.ok
    assert "duplex.yaml, line 2" in check.detail
