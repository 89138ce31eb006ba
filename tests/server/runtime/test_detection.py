from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest
from duplex_sdk.audio import float_to_pcm16
from duplex_sdk.plugin import TurnDetection
from duplex_sdk.session.effects import ConfigureInput, DecodeAudio
from duplex_sdk.session.inputs import AudioDecoded
from duplex_server.runtime.detection import MOST_AT_ONCE, Detection
from duplex_server.runtime.ear import HeardAudio, SessionEar
from duplex_server.runtime.offload import Outcome
from duplex_server.runtime.vad import (
    FRAME_SAMPLES,
    EnergyVad,
    SileroVad,
    VadBackend,
    VadProvider,
    VadState,
)
from numpy.typing import NDArray
from patience import PATIENCE_S

RATE = 16_000
Frames = Sequence[tuple[NDArray[np.float32], VadState]]


class Counting(EnergyVad):
    """Notes how many frames came together."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[int] = []

    def infer_batch(self, frames: Frames) -> list[tuple[float, VadState]]:
        self.batches.append(len(frames))
        return super().infer_batch(frames)


class OutOfOrder(EnergyVad):
    """Cannot rate what is exactly silent, nor anything together with it."""

    def infer(self, frame: NDArray[np.float32], state: VadState) -> tuple[float, VadState]:
        if not frame.any():
            raise RuntimeError("out of order")
        return super().infer(frame, state)


def ear_of(backend: VadBackend) -> SessionEar:
    ear = SessionEar(RATE, vad=VadProvider.of(backend))
    ear.configure(ConfigureInput(1, TurnDetection()))
    return ear


def speech(frames: int) -> bytes:
    time = np.arange(frames * FRAME_SAMPLES) / RATE
    return float_to_pcm16(0.4 * np.sin(2 * np.pi * 220 * time))


def append(data: bytes, op: int = 1) -> DecodeAudio:
    return DecodeAudio(op, data, "pcm16", RATE)


def heard(ear: SessionEar, data: bytes, op: int = 1) -> HeardAudio:
    found = ear.hear(append(data, op))
    assert isinstance(found, HeardAudio)
    return found


async def rated(detection: Detection, everything: Sequence[HeardAudio]) -> list[AudioDecoded]:
    outcomes: asyncio.Queue[Outcome[AudioDecoded]] = asyncio.Queue()
    for each in everything:
        detection.add(each, outcomes.put_nowait)
    async with asyncio.timeout(PATIENCE_S):
        values = [(await outcomes.get()).value for _ in everything]
    return [value for value in values if value is not None]


async def test_frames_of_all_sessions_meet_in_one_call() -> None:
    backend = Counting()
    ears = [ear_of(backend) for _ in range(3)]
    detection = Detection(asyncio.get_running_loop())
    results = await rated(detection, [heard(ear, speech(2)) for ear in ears])
    assert backend.batches == [3, 3]
    assert [result.op for result in results] == [1, 1, 1]


async def test_together_or_alone_the_verdict_is_the_same() -> None:
    parts = [speech(1), bytes(FRAME_SAMPLES * 2), speech(5), speech(3)]
    together = await rated(
        Detection(asyncio.get_running_loop()),
        [heard(ear_of(EnergyVad()), part, op) for op, part in enumerate(parts)],
    )
    alone = [ear_of(EnergyVad()).decode(append(part, op)) for op, part in enumerate(parts)]
    assert sorted(together, key=lambda each: each.op) == alone


async def test_one_turn_of_the_loop_rates_no_more_than_its_share() -> None:
    backend = Counting()
    waiting = [heard(ear_of(backend), speech(1)) for _ in range(MOST_AT_ONCE + 3)]
    assert len(await rated(Detection(asyncio.get_running_loop()), waiting)) == len(waiting)
    assert backend.batches == [MOST_AT_ONCE, 3]


async def test_a_stream_that_cannot_be_rated_spoils_no_other() -> None:
    backend = OutOfOrder()
    silent, loud = ear_of(backend), ear_of(backend)
    results = await rated(
        Detection(asyncio.get_running_loop()),
        [heard(silent, bytes(FRAME_SAMPLES * 2), 1), heard(loud, speech(1), 2)],
    )
    faults = {result.op: result.fault for result in results}
    assert faults[2] is None
    assert faults[1] is not None
    assert faults[1].code == "server_vad_unavailable"
    assert isinstance(silent.hear(append(speech(1))), AudioDecoded)
    assert isinstance(loud.hear(append(speech(1))), HeardAudio)


def test_a_chunk_that_completes_no_frame_has_its_verdict_at_once() -> None:
    result = ear_of(EnergyVad()).hear(append(bytes(640)))
    assert isinstance(result, AudioDecoded)
    assert result.verdict.is_speech is False


@pytest.fixture(scope="module")
def silero() -> SileroVad:
    backend = VadProvider().backend()
    assert isinstance(backend, SileroVad)
    return backend


def test_silero_rates_a_batch_to_the_bit_as_it_rates_each_alone(silero: SileroVad) -> None:
    source = np.random.default_rng(7)
    states = [silero.fresh() for _ in range(4)]
    for _ in range(3):
        frames = [source.normal(0, 0.1, FRAME_SAMPLES).astype(np.float32) for _ in states]
        pairs = list(zip(frames, states, strict=True))
        together = silero.infer_batch(pairs)
        for (probability, state), pair in zip(together, pairs, strict=True):
            expected, after = silero.infer(*pair)
            assert probability == expected
            assert np.array_equal(state.hidden, after.hidden)
            assert np.array_equal(state.context, after.context)
        states = [state for _, state in together]
