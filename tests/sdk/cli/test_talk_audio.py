from __future__ import annotations

import asyncio
import math
from array import array
from pathlib import Path

import pytest
from duplex_sdk.audio import PcmChunk, pcm16_to_float, write_wav
from duplex_sdk.cli.talk_audio import RecordedSpeech, Recorder, load_pcm16
from duplex_sdk.cli.talk_level import LevelMeter
from duplex_sdk.errors import DuplexError

TWENTY_MS = 960


def tone(amplitude: float, samples: int = 480) -> bytes:
    wave = (int(amplitude * 32767 * math.sin(i / 3)) for i in range(samples))
    return array("h", wave).tobytes()


def test_meter_tells_speech_from_silence() -> None:
    meter = LevelMeter()
    assert meter.feed(tone(0.3))
    assert not meter.feed(bytes(TWENTY_MS))
    assert not meter.feed(tone(0.001))


def test_meter_rises_at_once_and_falls_slowly() -> None:
    meter = LevelMeter()
    meter.feed(tone(0.9))
    loud = meter.level
    meter.feed(bytes(TWENTY_MS))
    assert 0.8 < loud <= 1
    assert 0.5 * loud < meter.level < loud


def test_recorder_keeps_answers_and_shortens_silence() -> None:
    recorder = Recorder()
    silence = [bytes(TWENTY_MS)] * 200
    for piece in [*silence, tone(0.3), *silence, tone(0.3)]:
        recorder.play(piece)
    assert len(recorder.pcm) == 2 * TWENTY_MS + 20 * TWENTY_MS
    assert recorder.pcm.startswith(tone(0.3))


def test_saved_answer_reads_back(tmp_path: Path) -> None:
    recorder = Recorder()
    recorder.play(tone(0.3))
    target = tmp_path / "out" / "answer.wav"
    recorder.save(target)
    pcm, rate = load_pcm16(target)
    assert rate == 24_000
    difference = [abs(a - b) for a, b in zip(array("h", pcm), array("h", tone(0.3)), strict=True)]
    assert max(difference) <= 1


def test_recording_keeps_its_own_rate(tmp_path: Path) -> None:
    path = tmp_path / "speech.wav"
    write_wav(path, PcmChunk.of(pcm16_to_float(tone(0.5)), 48_000))
    assert load_pcm16(path)[1] == 48_000


def test_missing_recording_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(DuplexError, match="cannot read"):
        load_pcm16(tmp_path / "none.wav")


async def test_source_says_its_words_between_silences() -> None:
    source = RecordedSpeech(16_000)
    heard = []
    async for chunk in source.chunks():
        heard.append(chunk)
        if len(heard) == 1:
            saying = asyncio.create_task(source.say(b"\1\0"))
            await asyncio.sleep(0)
        if len(heard) == 3:
            await saying
            source.close()
    assert [len(chunk) for chunk in heard] == [640, 640, 640]
    assert [any(chunk) for chunk in heard] == [False, True, False]
