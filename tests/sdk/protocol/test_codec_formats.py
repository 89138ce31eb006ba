"""Audio formats: every spelling, the rates, and what an append without any is taken to hold."""

from __future__ import annotations

import pytest
from duplex_sdk.protocol.duplex import (
    FORMAT_SPELLINGS,
    INPUT_FORMATS,
    OUTPUT_FORMATS,
    AudioFormat,
    RealtimeInputDefaults,
    RealtimeProtocolError,
    canonical_format,
    format_object,
    parse_audio_format,
)

SPELLINGS = [(name, spelling) for name, all_ in FORMAT_SPELLINGS.items() for spelling in all_]


def test_spellings_are_those_of_the_table() -> None:
    assert {name: len(spellings) for name, spellings in FORMAT_SPELLINGS.items()} == {
        "pcm16": 6,
        "pcm_f32le": 3,
        "g711_ulaw": 6,
        "g711_alaw": 5,
        "wav": 2,
    }


@pytest.mark.parametrize(("name", "spelling"), SPELLINGS)
def test_spelling_is_understood_in_any_case_and_form(name: str, spelling: str) -> None:
    every = frozenset(FORMAT_SPELLINGS)
    for value in (
        spelling,
        spelling.upper(),
        {"type": spelling},
        {"format": spelling.title()},
    ):
        assert parse_audio_format(value, supported=every, param="format") == AudioFormat(name)
    assert canonical_format(spelling) == name


@pytest.mark.parametrize(("name", "spelling"), SPELLINGS)
@pytest.mark.parametrize("supported", [INPUT_FORMATS, OUTPUT_FORMATS], ids=["input", "output"])
def test_direction_decides_what_is_served(
    name: str, spelling: str, supported: frozenset[str]
) -> None:
    if name in supported:
        assert parse_audio_format(spelling, supported=supported, param="f").name == name
    else:
        with pytest.raises(RealtimeProtocolError) as caught:
            parse_audio_format(spelling, supported=supported, param="f")
        assert (caught.value.code, caught.value.param) == ("unsupported_audio_format", "f")


def test_only_wav_and_float_have_one_direction() -> None:
    assert {"wav", "pcm_f32le"} == OUTPUT_FORMATS ^ INPUT_FORMATS


@pytest.mark.parametrize("key", ["rate", "sample_rate_hz", "sample_rate"])
def test_rate_of_a_format_object_has_synonyms(key: str) -> None:
    value = {"type": "pcm16", key: 48000}
    parsed = parse_audio_format(value, supported=INPUT_FORMATS, param="format")
    assert parsed == AudioFormat("pcm16", 48000)


@pytest.mark.parametrize("rate", [8000, 192000, 24000.0])
def test_rate_in_range_is_taken(rate: float) -> None:
    value = {"type": "pcm16", "rate": rate}
    assert parse_audio_format(value, supported=INPUT_FORMATS, param="f").rate == int(rate)


@pytest.mark.parametrize("value", [5, None, [], {}, {"type": 5}, {"type": "pcm16", "rate": 1}])
def test_value_of_the_wrong_shape_gets_the_callers_code(value: object) -> None:
    with pytest.raises(RealtimeProtocolError) as caught:
        parse_audio_format(value, supported=INPUT_FORMATS, param="f", code="invalid_session_config")
    assert caught.value.code == "invalid_session_config"
    assert caught.value.param is not None
    assert caught.value.param.startswith("f")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("pcm16", {"type": "audio/pcm", "rate": 16000}),
        ("pcm_f32le", {"type": "audio/pcm_f32le", "rate": 16000}),
        ("g711_ulaw", {"type": "audio/pcmu"}),
        ("g711_alaw", {"type": "audio/pcma"}),
        ("wav", {"type": "audio/wav", "rate": 16000}),
    ],
)
def test_format_is_rendered_in_ga_names(name: str, expected: dict[str, object]) -> None:
    assert format_object(name, 16000) == expected
    every = frozenset(FORMAT_SPELLINGS)
    assert parse_audio_format(expected, supported=every, param="f").name == name


PCM = RealtimeInputDefaults(format="pcm16", rate=24000, native_rate=16000)
ULAW = RealtimeInputDefaults(format="g711_ulaw", native_rate=16000)


@pytest.mark.parametrize(
    ("defaults", "name", "rate", "expected"),
    [
        (PCM, None, None, AudioFormat("pcm16", 24000)),
        (PCM, None, 48000, AudioFormat("pcm16", 48000)),
        (PCM, "pcm_f32le", None, AudioFormat("pcm_f32le", 24000)),
        (PCM, "g711_alaw", None, AudioFormat("g711_alaw", 8000)),
        (PCM, "g711_alaw", 16000, AudioFormat("g711_alaw", 16000)),
        (ULAW, None, None, AudioFormat("g711_ulaw", 8000)),
        (ULAW, "pcm16", None, AudioFormat("pcm16", 16000)),
        (RealtimeInputDefaults(), None, None, AudioFormat("pcm16", 16000)),
    ],
)
def test_append_takes_what_it_does_not_say_from_the_session(
    defaults: RealtimeInputDefaults, name: str | None, rate: int | None, expected: AudioFormat
) -> None:
    assert defaults.resolve(name, rate) == expected
