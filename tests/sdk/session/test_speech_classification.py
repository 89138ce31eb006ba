from __future__ import annotations

from typing import Any

import pytest
from duplex_sdk.audio import PcmChunk
from duplex_sdk.protocol.duplex import AppendAudio, AppendHints
from duplex_sdk.session.inputs import SpeechVerdict
from duplex_sdk.session.speech import classify_speech, speech_duration_ms

AUDIO = PcmChunk.silence(1600, 16_000)


def is_speech(command: AppendAudio, verdict: SpeechVerdict, audio: PcmChunk | None = AUDIO) -> bool:
    return classify_speech(command, verdict, audio, silence_rms=0.003)


def append(is_speech: bool | None = None, **hints: Any) -> AppendAudio:
    return AppendAudio(audio=b"", is_speech=is_speech, hints=AppendHints(**hints))


@pytest.mark.parametrize("word", [True, False])
def test_the_detector_has_the_first_word(word: bool) -> None:
    claimed = append(is_speech=not word, speech=not word)
    assert is_speech(claimed, SpeechVerdict(is_speech=word, rms=0.0 if word else 1.0)) is word


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (append(is_speech=False, speech=True), False),
        (append(speech=True, vad={"is_speech": False}), True),
        (append(vad={"is_speech": False, "probability": 0.9}), False),
        (append(vad={"speech_probability": 0.5, "probability": 0.1}), True),
        (append(vad={"probability": 0.49}, speech_probability=0.9), False),
        (append(vad={"is_speech": "yes"}, speech_probability=0.5), True),
        (append(speech_probability=0.49), False),
    ],
)
def test_the_clients_word_beats_loudness(command: AppendAudio, expected: bool) -> None:
    loudness = 0.0 if expected else 1.0
    assert is_speech(command, SpeechVerdict(rms=loudness)) is expected


@pytest.mark.parametrize(("rms", "expected"), [(0.003, True), (0.0029, False)])
def test_loudness_decides_where_nobody_says_anything(rms: float, expected: bool) -> None:
    assert is_speech(append(), SpeechVerdict(rms=rms)) is expected


def test_no_samples_are_no_speech() -> None:
    assert not is_speech(append(), SpeechVerdict(), None)
    assert not is_speech(append(), SpeechVerdict(), PcmChunk(b"", 16_000))


def test_audio_that_nothing_is_known_of_is_kept() -> None:
    assert is_speech(append(), SpeechVerdict(rms=None))


def test_length_is_as_stated_else_as_counted() -> None:
    assert speech_duration_ms(AppendAudio(duration_ms=20), AUDIO) == 20
    assert speech_duration_ms(AppendAudio(duration_ms=-5), AUDIO) == 0
    assert speech_duration_ms(AppendAudio(), AUDIO) == 100
    assert speech_duration_ms(AppendAudio(), None) == 0
