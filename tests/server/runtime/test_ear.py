"""The ear: decoding, framing, verdicts, faults."""

from __future__ import annotations

import numpy as np
import pytest
from duplex_plugin_local import recordings
from duplex_sdk.audio import PcmChunk, float_to_pcm16, read_wav, resample
from duplex_sdk.plugin import InputProcessor, TurnDetection
from duplex_sdk.session.effects import ConfigureInput, DecodeAudio
from duplex_sdk.session.inputs import AudioDecoded, SpeechMark
from duplex_server.runtime.ear import SessionEar
from duplex_server.runtime.vad import EnergyVad, VadBackend, VadProvider, VadState

RATE = 16_000


def tone(ms: int, level: float = 0.3, rate: int = RATE) -> np.ndarray:
    time = np.arange(rate * ms // 1000) / rate
    return (level * np.sin(2 * np.pi * 300 * time)).astype(np.float32)


def silence(ms: int, rate: int = RATE) -> np.ndarray:
    return np.zeros(rate * ms // 1000, np.float32)


def energy_ear(model_rate: int = RATE, **figures: float) -> SessionEar:
    ear = SessionEar(model_rate, vad=VadProvider.of(EnergyVad()))
    detection = TurnDetection(
        **{"prefix_padding_ms": 0, "silence_duration_ms": 200, "min_speech_duration_ms": 64}
        | figures
    )
    assert ear.configure(ConfigureInput(1, detection)).fault is None
    return ear


def send(
    ear: SessionEar, data: bytes, chunk: int, format: str = "pcm16", rate: int = RATE
) -> list[AudioDecoded]:
    return [
        ear.decode(DecodeAudio(op, data[start : start + chunk], format, rate))
        for op, start in enumerate(range(0, len(data), chunk))
    ]


def marks_of(results: list[AudioDecoded]) -> list[SpeechMark]:
    return [mark for result in results for mark in result.verdict.marks]


SPOKEN = float_to_pcm16(
    np.concatenate((silence(320), tone(480), silence(480), tone(320), silence(400)))
)


@pytest.mark.parametrize("chunk", [2, 641, 1023, 2560, 9999, len(SPOKEN)])
def test_marks_and_samples_do_not_depend_on_how_the_input_is_cut(chunk: int) -> None:
    results = send(energy_ear(), SPOKEN, chunk)
    assert [mark.kind for mark in marks_of(results)] == ["started", "stopped"] * 2
    assert [mark.at_ms for mark in marks_of(results)] == [320, 1024, 1280, 1824]
    data = b"".join(result.audio.data for result in results if result.audio)
    assert len(data) == len(SPOKEN) * 2


def test_a_chunk_that_holds_a_whole_utterance_is_speech_but_not_active() -> None:
    (result,) = send(energy_ear(), SPOKEN, len(SPOKEN))
    assert result.verdict.is_speech is True
    assert result.verdict.active is False


def test_the_detector_hears_16_khz_whatever_the_model_hears() -> None:
    ear = energy_ear(model_rate=24_000)
    wire = float_to_pcm16(np.concatenate((silence(320, 48_000), tone(480, rate=48_000))))
    marks = marks_of(send(ear, wire, 4801, rate=48_000))
    assert [mark.kind for mark in marks] == ["started"]
    assert abs(marks[0].at_ms - 320) <= 64


def test_without_a_detector_there_is_no_verdict_but_a_level() -> None:
    ear = SessionEar(RATE, vad=VadProvider.of(EnergyVad()))
    (result,) = send(ear, float_to_pcm16(tone(100, level=0.5)), 1 << 20)
    assert result.verdict.is_speech is None
    assert result.verdict.rms == pytest.approx(0.5 / np.sqrt(2), rel=0.01)


def test_an_empty_append_has_no_audio() -> None:
    result = energy_ear().decode(DecodeAudio(7, b"", "pcm16", RATE))
    assert result == AudioDecoded(7)


def test_a_clear_forgets_the_odd_byte_and_the_utterance_but_not_the_clock() -> None:
    ear = energy_ear()
    send(ear, float_to_pcm16(tone(320)) + b"\x01", 1 << 20)
    cleared = DecodeAudio(1, float_to_pcm16(tone(320)), "pcm16", RATE, True, True)
    result = ear.decode(cleared)
    assert result.audio is not None
    assert result.audio.count == 320 * 16
    assert [mark.kind for mark in result.verdict.marks] == ["started"]
    assert result.verdict.marks[0].at_ms == 320


def test_a_detector_set_late_counts_from_the_start_of_the_session() -> None:
    ear = SessionEar(RATE, vad=VadProvider.of(EnergyVad()))
    send(ear, float_to_pcm16(silence(1000)), 3200)
    ear.configure(ConfigureInput(1, TurnDetection(prefix_padding_ms=0)))
    marks = marks_of(send(ear, float_to_pcm16(tone(320)), 1 << 20))
    assert [mark.at_ms for mark in marks] == [1000]


def test_audio_not_listened_to_moves_the_clock_on() -> None:
    ear = energy_ear()
    ear.decode(DecodeAudio(1, float_to_pcm16(tone(500)), "pcm16", RATE, listen=False))
    marks = marks_of(send(ear, float_to_pcm16(tone(320)), 1 << 20))
    assert [mark.at_ms for mark in marks] == [500]


@pytest.mark.parametrize("rate", [0, 7_999, 192_001])
def test_a_rate_out_of_range_is_one_fault_and_the_session_goes_on(rate: int) -> None:
    ear = energy_ear()
    result = ear.decode(DecodeAudio(3, bytes(320), "pcm16", rate))
    assert result.fault is not None
    assert (result.fault.code, result.fault.param) == ("bad_event", "sample_rate_hz")
    assert ear.decode(DecodeAudio(4, bytes(320), "pcm16", RATE)).fault is None


def test_an_unknown_format_is_bad_audio() -> None:
    result = energy_ear().decode(DecodeAudio(3, bytes(320), "opus", RATE))
    assert result.fault is not None
    assert result.fault.code == "bad_audio"


def test_a_missing_model_is_a_fault_and_audio_still_decodes(tmp_path: object) -> None:
    ear = SessionEar(RATE, vad=VadProvider(f"{tmp_path}/none.onnx"))
    configured = ear.configure(ConfigureInput(5, TurnDetection()))
    assert configured.fault is not None
    assert configured.fault.code == "server_vad_unavailable"
    (result,) = send(ear, float_to_pcm16(tone(100)), 1 << 20)
    assert result.audio is not None
    assert result.verdict.is_speech is None


class FailingVad(EnergyVad):
    def infer(self, frame: np.ndarray, state: VadState) -> tuple[float, VadState]:
        raise RuntimeError("out of order")


def test_a_backend_that_fails_later_switches_detection_off_once() -> None:
    backend: VadBackend = FailingVad()
    ear = SessionEar(RATE, vad=VadProvider.of(backend))
    ear.configure(ConfigureInput(1, TurnDetection()))
    first, second = send(ear, float_to_pcm16(tone(200)), 3200)
    assert first.fault is not None
    assert first.fault.code == "server_vad_unavailable"
    assert first.audio is not None
    assert second.fault is None


class Recorder(InputProcessor):
    """Halves the input and notes what is played."""

    def __init__(self) -> None:
        self.heard: list[tuple[float, float]] = []
        self.broken = False

    def process(self, audio: PcmChunk) -> PcmChunk:
        if self.broken:
            raise RuntimeError("broken")
        return PcmChunk.of(audio.numpy() / 2, audio.rate)

    def played(self, audio: PcmChunk, start_ms: float) -> None:
        self.heard.append((start_ms, audio.duration_ms))


def test_the_input_processor_works_before_everything_else() -> None:
    ear = SessionEar(RATE, vad=VadProvider.of(EnergyVad()), input_processor=Recorder())
    (result,) = send(ear, float_to_pcm16(tone(100, level=0.5)), 1 << 20)
    assert result.verdict.rms == pytest.approx(0.25 / np.sqrt(2), rel=0.01)


def test_the_reference_is_played_in_real_time_from_when_it_came() -> None:
    recorder = Recorder()
    ear = SessionEar(RATE, vad=VadProvider.of(EnergyVad()), input_processor=recorder)
    chunk = float_to_pcm16(silence(100))
    send(ear, chunk, 1 << 20)
    for _ in range(2):
        ear.play(float_to_pcm16(silence(300)), "pcm16", RATE)
    send(ear, chunk, 1 << 20)
    ear.stop_playing()
    ear.play(float_to_pcm16(silence(50)), "pcm16", RATE)
    send(ear, chunk, 1 << 20)
    assert recorder.heard == [(100, 300), (400, 300), (200, 0), (200, 50)]


def test_a_failing_input_processor_is_switched_off() -> None:
    recorder = Recorder()
    ear = SessionEar(RATE, vad=VadProvider.of(EnergyVad()), input_processor=recorder)
    recorder.broken = True
    results = send(ear, float_to_pcm16(tone(200, level=0.5)), 3200)
    recorder.broken = False
    results += send(ear, float_to_pcm16(tone(200, level=0.5)), 3200)
    assert all(result.fault is None for result in results)
    assert results[-1].verdict.rms == pytest.approx(0.5 / np.sqrt(2), rel=0.01)


class Withholding(Recorder):
    """Keeps a sample back of all it hears."""

    def process(self, audio: PcmChunk) -> PcmChunk:
        return PcmChunk(audio.data[:-4], audio.rate)


def test_an_input_processor_that_keeps_sound_back_is_switched_off() -> None:
    ear = SessionEar(RATE, vad=VadProvider.of(EnergyVad()), input_processor=Withholding())
    results = send(ear, float_to_pcm16(tone(200, level=0.5)), 3200)
    assert sum(result.audio.count for result in results if result.audio) == RATE // 5


def test_only_short_work_is_cheap() -> None:
    ear = SessionEar(RATE, vad=VadProvider.of(EnergyVad()))
    unit = DecodeAudio(1, bytes(2560), "pcm16", RATE)
    assert ear.is_cheap(unit)
    assert not ear.is_cheap(DecodeAudio(1, bytes(RATE * 2 * 10), "pcm16", RATE))
    ear.configure(ConfigureInput(1, TurnDetection()))
    assert ear.is_cheap(unit)
    assert not ear.is_cheap(DecodeAudio(1, bytes(RATE * 2), "pcm16", RATE))


def test_a_person_reading_starts_and_stops_with_silero() -> None:
    ear = SessionEar(RATE, vad=VadProvider())
    assert ear.configure(ConfigureInput(1, TurnDetection(silence_duration_ms=350))).fault is None
    recording = read_wav(recordings.two_cities())
    speech = resample(PcmChunk(recording.data[: 48_000 * 4 * 5], 48_000), 24_000).numpy()
    wire = float_to_pcm16(np.concatenate((speech, silence(1000, 24_000))))
    marks = marks_of(send(ear, wire, 1920, rate=24_000))
    assert marks[0].kind == "started"
    assert marks[0].at_ms < 1000
    assert marks[-1].kind == "stopped"
    assert [mark.kind for mark in marks] == ["started", "stopped"] * (len(marks) // 2)
