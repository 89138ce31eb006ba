"""Which GPUs an engine is shown."""

from __future__ import annotations

from typing import Any

import pytest
from duplex_sdk.stage.vllm.devices import engine_width, visible_devices


@pytest.mark.parametrize(
    ("device", "width", "visible", "shown"),
    [
        ("cpu", 1, None, None),
        ("cpu", 1, "0,1", None),
        ("cuda", 1, None, None),
        ("cuda:0", 1, None, "0"),
        ("cuda:2", 1, None, "2"),
        ("cuda:2", 2, None, "2,3"),
        ("cuda:1", 1, "4,5,6", "5"),
        ("cuda:1", 2, "4, GPU-ab ,6", "GPU-ab,6"),
        # Fewer than it wants: vLLM says so better than we could.
        ("cuda:1", 2, "4,5", "5"),
        ("cuda:3", 1, "4,5", None),
        ("cuda:0", 1, "", "0"),
    ],
)
def test_an_engine_sees_its_devices_and_no_others(
    device: str, width: int, visible: str | None, shown: str | None
) -> None:
    assert visible_devices(device, width, visible) == shown


@pytest.mark.parametrize(
    ("arguments", "width"),
    [
        ({}, 1),
        ({"tensor_parallel_size": 4}, 4),
        ({"tensor_parallel_size": 2, "pipeline_parallel_size": 3, "data_parallel_size": None}, 6),
    ],
)
def test_an_engine_is_as_wide_as_its_splits_multiply(arguments: Any, width: int) -> None:
    assert engine_width(arguments) == width
