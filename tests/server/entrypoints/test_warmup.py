from __future__ import annotations

import logging
from typing import Any

import pytest
from duplex_sdk.plugin import DuplexCapabilities
from duplex_sdk.protocol.duplex import image_kind
from duplex_server.entrypoints import DuplexOmni, warm_up
from duplex_server.entrypoints.warmup import _image


def steps(omni: DuplexOmni) -> int:
    return sum(omni.engine.figures.steps.values())


async def test_the_model_has_answered_once_before_anybody_comes(engine: Any) -> None:
    async with engine(warmup_frames=3, max_sessions=1) as omni:
        assert await warm_up(omni)
        assert steps(omni) > 0
        assert omni.health().slots_used == 0
        assert omni.sessions == {}


@pytest.mark.parametrize("frames", [-1, 0])
async def test_without_frames_a_model_of_sound_alone_is_left_in_peace(
    engine: Any, frames: int
) -> None:
    async with engine(warmup_frames=frames) as omni:
        assert not await warm_up(omni)
        assert steps(omni) == 0


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"where": "step", "nth": 1, "do": "raise"}, "warm-up failed"),
        ({"where": "config", "nth": 1, "do": "raise"}, "warm-up failed"),
    ],
)
async def test_a_failed_warm_up_is_logged_with_its_cause_and_ends_nothing(
    engine: Any, until_true: Any, fault: dict[str, Any], words: str, caplog: Any
) -> None:
    with caplog.at_level(logging.WARNING, "duplex_server.entrypoints.warmup"):
        async with engine({"faults": [fault]}, warmup_frames=1) as omni:
            assert not await warm_up(omni)
            await until_true(lambda: omni.health().slots_used == 0)
            assert omni.health().alive
    (record,) = [each for each in caplog.records if each.name.endswith("warmup")]
    assert words in record.getMessage()


async def test_a_model_that_says_nothing_is_not_waited_for_ever(
    engine: Any, until_true: Any, caplog: Any
) -> None:
    slow = {"text": "late", "ms": 100, "delay_ms": 60_000}
    async with engine({"answers": [slow]}, warmup_frames=1) as omni:
        assert not await warm_up(omni, timeout_s=0.2)
        await until_true(lambda: omni.health().slots_used == 0)
    assert "no audio within 0.2 s" in caplog.text


def test_the_picture_is_one() -> None:
    assert image_kind(_image()) == "png"
    assert "video" not in DuplexCapabilities().required_input_modalities
