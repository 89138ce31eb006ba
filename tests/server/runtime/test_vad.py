"""Voice activity backends."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from duplex_plugin_local import recordings
from duplex_sdk.audio import read_wav, resample
from duplex_server.runtime.vad import (
    FRAME_SAMPLES,
    VAD_RATE,
    EnergyVad,
    SileroVad,
    VadBackend,
    VadProvider,
    VadUnavailableError,
)


@pytest.fixture(scope="module")
def silero() -> VadBackend:
    return VadProvider().backend()


def probabilities(backend: VadBackend, samples: np.ndarray) -> list[float]:
    state = backend.fresh()
    found = []
    for start in range(0, len(samples) - FRAME_SAMPLES + 1, FRAME_SAMPLES):
        probability, state = backend.infer(samples[start : start + FRAME_SAMPLES], state)
        found.append(probability)
    return found


def test_silence_and_noise_are_not_speech(silero: VadBackend) -> None:
    noise = np.random.default_rng(1).normal(0, 0.01, VAD_RATE * 2).astype(np.float32)
    quiet = np.zeros(VAD_RATE, np.float32)
    assert max(probabilities(silero, np.concatenate((quiet, noise)))) < 0.5


def test_a_person_reading_is_speech_and_the_pauses_are_not(silero: VadBackend) -> None:
    samples = resample(read_wav(recordings.two_cities()), VAD_RATE).numpy()[: VAD_RATE * 10]
    found = np.array(probabilities(silero, samples))
    assert np.mean(found > 0.5) > 0.6
    assert np.mean(found < 0.15) > 0.05


def test_streams_that_share_a_backend_do_not_mix(silero: VadBackend) -> None:
    samples = resample(read_wav(recordings.two_cities()), VAD_RATE).numpy()[: VAD_RATE * 2]
    alone = probabilities(silero, samples)
    other = np.random.default_rng(2).normal(0, 0.3, FRAME_SAMPLES).astype(np.float32)
    state, noise_state = silero.fresh(), silero.fresh()
    mixed = []
    for start in range(0, len(samples) - FRAME_SAMPLES + 1, FRAME_SAMPLES):
        probability, state = silero.infer(samples[start : start + FRAME_SAMPLES], state)
        _, noise_state = silero.infer(other, noise_state)
        mixed.append(probability)
    assert mixed == alone


def test_energy_backend_rates_by_loudness() -> None:
    backend = EnergyVad(level=0.1)
    state = backend.fresh()
    at_level, state = backend.infer(np.full(FRAME_SAMPLES, 0.1, np.float32), state)
    louder, state = backend.infer(np.full(FRAME_SAMPLES, 0.5, np.float32), state)
    silent, _ = backend.infer(np.zeros(FRAME_SAMPLES, np.float32), state)
    assert at_level == pytest.approx(0.5)
    assert louder > 0.8
    assert silent == 0.0


def test_a_provider_loads_once() -> None:
    provider = VadProvider()
    assert isinstance(provider.backend(), SileroVad)
    assert provider.backend() is provider.backend()


def test_an_explicit_path_never_falls_back(tmp_path: Path) -> None:
    provider = VadProvider(tmp_path / "missing.onnx")
    for _ in range(2):
        with pytest.raises(VadUnavailableError, match=r"cannot be read.*missing\.onnx") as caught:
            provider.backend()
        assert caught.value.hint == "check duplex_session.server_vad_model_path"


def test_a_damaged_file_is_refused_by_its_hash(tmp_path: Path) -> None:
    damaged = tmp_path / "vad.onnx"
    damaged.write_bytes(b"not the model")
    with pytest.raises(VadUnavailableError, match="is damaged"):
        VadProvider(damaged, sha256="0" * 64).backend()


def test_bytes_that_are_no_model_are_unavailable_not_a_crash(tmp_path: Path) -> None:
    nonsense = tmp_path / "vad.onnx"
    nonsense.write_bytes(b"nonsense")
    with pytest.raises(VadUnavailableError, match="cannot be loaded"):
        VadProvider(nonsense).backend()
