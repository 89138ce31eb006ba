"""Which device a model gets, and whether it fits."""

from __future__ import annotations

from pathlib import Path

import pytest
from duplex_sdk.stage import StageLoadError
from duplex_sdk.stage.device import (
    CudaDevice,
    choice,
    cuda_devices,
    free_memory,
    free_memory_or_raise,
    memory,
    nvidia,
    resolve_device,
)

GIB = 1 << 30
TWO = (CudaDevice(0, "a", 80 * GIB, 70 * GIB), CudaDevice(1, "b", 80 * GIB, GIB))


@pytest.fixture
def two_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (choice, memory):
        monkeypatch.setattr(module, "cuda_devices", lambda: TWO)
    monkeypatch.setattr(choice, "_torch_is_for_cpu", lambda: False)


@pytest.fixture
def no_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (choice, memory):
        monkeypatch.setattr(module, "cuda_devices", tuple)


def test_a_machine_without_a_driver_has_no_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvidia, "_LIBRARY", "libno-such-driver.so")
    assert cuda_devices() == ()


@pytest.mark.usefixtures("no_devices")
def test_without_cuda_a_model_runs_on_the_cpu() -> None:
    assert resolve_device(None) == "cpu"
    with pytest.raises(StageLoadError, match="no CUDA device"):
        resolve_device("cuda:0")


@pytest.mark.usefixtures("two_devices")
@pytest.mark.parametrize(
    ("wanted", "replica", "device"),
    [
        (None, 0, "cuda:0"),
        (None, 1, "cuda:1"),
        (None, 2, "cuda:0"),
        ("cuda", 3, "cuda:1"),
        ("cuda:1", 0, "cuda:1"),
        ("cpu", 5, "cpu"),
        ("mps", 0, "mps"),
    ],
)
def test_replicas_are_spread_over_the_devices(
    wanted: str | None, replica: int, device: str
) -> None:
    assert resolve_device(wanted, replica) == device


@pytest.mark.usefixtures("two_devices")
@pytest.mark.parametrize("wanted", ["cuda:2", "cuda:first"])
def test_a_device_that_is_not_there_is_named(wanted: str) -> None:
    with pytest.raises(StageLoadError, match=wanted) as failure:
        resolve_device(wanted)
    assert "cuda:0 to cuda:1" in (failure.value.hint or "")


def test_a_torch_without_cuda_runs_on_the_cpu(
    two_devices: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choice, "_torch_is_for_cpu", lambda: True)
    assert resolve_device(None) == "cpu"


@pytest.mark.parametrize(
    ("visible", "places"),
    [
        (None, [0, 1, 2]),
        ("", []),
        ("-1", []),
        ("2,0", [2, 0]),
        ("1,7,0", [1]),
        ("GPU-bb, GPU-a", [1, 0]),
        ("GPU-", []),
    ],
)
def test_visible_devices_are_numbered_as_cuda_does(visible: str | None, places: list[int]) -> None:
    assert nvidia._chosen(visible, ["GPU-aa", "GPU-bb", "GPU-cc"]) == places


@pytest.mark.usefixtures("two_devices")
def test_a_model_that_does_not_fit_is_refused_before_it_is_loaded() -> None:
    free_memory_or_raise("cuda:0", 60 * GIB)
    free_memory_or_raise("cuda:1", 0)
    with pytest.raises(StageLoadError, match=r"needs 2048 MiB on cuda:1 and 1024 MiB are free"):
        free_memory_or_raise("cuda:1", 2 * GIB)


@pytest.mark.usefixtures("two_devices")
def test_an_unknown_device_stops_nobody() -> None:
    assert free_memory("mps") is None
    free_memory_or_raise("mps", 1 << 60)


@pytest.mark.parametrize(
    ("limit", "used", "free"),
    [
        ("max", "5", 4096 * 1024),
        ("3000000", "1000000", 2_400_000),
        ("10", "500000", 0),
        (None, "", 4096 * 1024),
    ],
)
def test_main_memory_is_what_the_container_leaves(
    tmp_path: Path, limit: str | None, used: str, free: int
) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 9999 kB\nMemAvailable:    4096 kB\n")
    if limit is not None:
        (tmp_path / "memory.max").write_text(limit)
        (tmp_path / "memory.current").write_text(used)
        (tmp_path / "memory.stat").write_text("anon 7\ninactive_file 400000\n")
    assert memory._free_main_memory(meminfo, tmp_path) == free
    assert memory._free_main_memory(tmp_path / "none", tmp_path) is None


def test_this_machine_has_some_memory() -> None:
    assert (free_memory("cpu") or 1) > 0
