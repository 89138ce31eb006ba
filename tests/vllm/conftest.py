"""One vllm stage for all the tests, as the engine sees it: a pool of one replica."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
from duplex_sdk.stage import PipelineConfig, StageConfig
from duplex_server.stages import Deployment, RestartPolicy, build_pools, start_pools, stop_pools
from numpy.typing import NDArray
from second_tries import offer_second_tries
from stage_talk import LIMIT, SLOTS, Talk
from tiny_checkpoints import PLACEHOLDER, random_model


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    offer_second_tries(config, items, [Path(__file__).parent])


@pytest.fixture(scope="session")
def vllm_python() -> Path:
    """The interpreter of an environment that has vLLM; that of the tests has none."""
    python = Path(os.environ.get("DUPLEX_VLLM_PYTHON", ""))
    if not python.is_file():
        pytest.fail("DUPLEX_VLLM_PYTHON names no interpreter: run these tests by `make test-vllm`")
    return python


@pytest.fixture(scope="session")
def vllm_environment() -> None:
    os.environ |= {"HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, NDArray[np.float32]]:
    """A model folder, and the model's table of embeddings."""
    folder = tmp_path_factory.mktemp("random-model")
    return folder, random_model(folder)


@pytest.fixture(scope="session")
async def loaded_stage(
    vllm_python: Path, vllm_environment: None, checkpoint: tuple[Path, NDArray[np.float32]]
) -> AsyncIterator[Talk]:
    """The stage, loaded."""
    talk = Talk()
    config = StageConfig(
        "words",
        backends=("vllm",),
        max_batch=SLOTS,
        device="cpu",
        options={"placeholder_token_id": PLACEHOLDER, "at_limit": "roll_over"},
        vllm={
            "model": str(checkpoint[0]),
            # Two ways to compute the same must not differ by rounding.
            "dtype": "float32",
            "max_model_len": LIMIT,
            "enforce_eager": True,
            "skip_mm_profiling": True,
            "mm_processor_cache_gb": 0,
        },
    )
    pools = build_pools(
        PipelineConfig(stages=(config,)),
        talk,
        output_rate=None,
        deployment=Deployment(
            stages={"words": {"worker_python": str(vllm_python)}}, restart=RestartPolicy((0.1,))
        ),
    )
    (talk.pool,) = pools
    await start_pools(pools, lambda fraction, text: None)
    yield talk
    await stop_pools(pools, grace_s=10.0)


@pytest.fixture
async def stage(loaded_stage: Talk) -> AsyncIterator[Talk]:
    """The stage, with no session in it before the test and none after."""
    yield loaded_stage
    await loaded_stage.close_all()
