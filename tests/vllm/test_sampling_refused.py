"""Sampling parameters that vLLM does not take are told at the start, before a model is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from duplex_sdk.stage import PipelineConfig, StageConfig, StageLoadError
from duplex_server.stages import Deployment, build_pools, start_pools
from numpy.typing import NDArray
from stage_talk import Talk


@pytest.mark.parametrize(
    ("sampling", "says"),
    [
        ({"temperture": 0.5, "max_tokens": None}, "temperture"),
        ({"stop": ["."], "max_tokens": 8}, "resumable request takes no sampling parameter 'stop'"),
    ],
)
async def test_a_stage_whose_sessions_could_say_nothing_does_not_start(
    vllm_python: Path,
    vllm_environment: None,
    checkpoint: tuple[Path, NDArray[np.float32]],
    sampling: dict[str, Any],
    says: str,
) -> None:
    config = StageConfig(
        "words",
        backends=("vllm",),
        device="cpu",
        sampling=sampling,
        vllm={"model": str(checkpoint[0]), "enforce_eager": True},
    )
    deployment = Deployment(stages={"words": {"worker_python": str(vllm_python)}})
    pools = build_pools(
        PipelineConfig(stages=(config,)), Talk(), output_rate=None, deployment=deployment
    )
    with pytest.raises(StageLoadError, match=says) as refused:
        await start_pools(pools, lambda fraction, text: None)
    assert "--stage ID.sampling" in (refused.value.hint or "")
