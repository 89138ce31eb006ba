"""Options of one response."""

from __future__ import annotations

from typing import Any

import pytest
from duplex_sdk.plugin import (
    DuplexCapabilities,
    DuplexConfigError,
    DuplexSessionConfig,
    ResponseCreateOptions,
)

CAPABILITIES = DuplexCapabilities.turn_based()
EVERYTHING: dict[str, Any] = {
    "output_modalities": ["text"],
    "instructions": "Sing.",
    "audio": {"output": {"voice": "v", "format": {"type": "audio/pcmu"}}},
    "temperature": 0.5,
    "max_output_tokens": 9,
    "speed": 1.5,
    "tools": [{"type": "function", "name": "f"}],
    "tool_choice": "none",
    "metadata": {"client_event_id": "c1"},
    "extra_body": {"a": 1, "private": 2},
    "conversation": "auto",
    "later": True,
}


def options(response: dict[str, Any], *, native: bool = False, **more: Any) -> Any:
    return ResponseCreateOptions.from_realtime(response, native=native, **more)


def refusal(response: dict[str, Any], **more: Any) -> DuplexConfigError:
    with pytest.raises(DuplexConfigError) as caught:
        options(response, **more)
    return caught.value


def test_every_option_is_read_and_applied() -> None:
    read = options(EVERYTHING, private_keys={"private"})
    base = DuplexSessionConfig(voice="w", extra_body={"b": 3}, max_tokens=1)
    config = read.apply_to(base)
    assert read.metadata == {"client_event_id": "c1"}
    assert (config.modalities, config.instructions, config.voice) == (("text",), "Sing.", "v")
    assert (config.temperature, config.max_tokens, config.speed) == (0.5, 9, 1.5)
    assert (config.response_format, config.output_rate(CAPABILITIES)) == ("g711_ulaw", 8000)
    assert config.tools == ({"type": "function", "name": "f"},)
    assert config.tool_choice == "none"
    assert config.extra_body == {"b": 3, "a": 1}
    assert base == DuplexSessionConfig(voice="w", extra_body={"b": 3}, max_tokens=1)


def test_no_options_change_nothing() -> None:
    base = DuplexSessionConfig(voice="w", output_sample_rate_hz=16000)
    assert options({}).apply_to(base) == base
    assert options({"voice": None, "modalities": None, "metadata": None}).apply_to(base) == base


def test_format_alone_keeps_the_rate_of_its_kind() -> None:
    base = DuplexSessionConfig(response_format="pcm16", output_sample_rate_hz=16000)
    assert options({"output_audio_format": "wav"}).apply_to(base).output_sample_rate_hz == 16000
    assert options({"output_audio_format": "ulaw"}).apply_to(base).output_sample_rate_hz is None


def test_pcm_has_openais_rate_in_its_profile() -> None:
    telephone = DuplexSessionConfig(response_format="g711_ulaw")
    read = options({"audio": {"output": {"format": {"type": "audio/pcm"}}}}, lenient=True)
    assert read.apply_to(telephone).output_rate(CAPABILITIES) == 24000


@pytest.mark.parametrize(
    "response",
    [
        {"instructions": "Sing."},
        {"voice": "v"},
        {"audio": {"output": {"voice": "v"}}},
        {"temperature": 1},
        {"max_output_tokens": 5},
        {"max_response_output_tokens": "inf"},
        {"max_tokens": 5},
        {"tools": []},
        {"tool_choice": "auto"},
    ],
    ids=str,
)
def test_native_model_cannot_be_told_otherwise_for_one_response(response: dict[str, Any]) -> None:
    error = refusal(response, native=True)
    assert error.code == "unsupported_native_response_options"
    assert error.param is not None
    assert error.param.startswith("response.")
    base = DuplexSessionConfig(voice="w", max_tokens=3)
    assert options(response, native=True, lenient=True).apply_to(base) == base
    options(response)


def test_native_model_takes_the_other_options() -> None:
    response = {"modalities": ["text"], "speed": 1.2, "metadata": {"a": "b"}}
    assert options(response, native=True).modalities == ("text",)


@pytest.mark.parametrize("lenient", [False, True])
@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("response", [{"conversation": "none"}, {"input": []}])
def test_out_of_band_needs_its_capability(
    response: dict[str, Any], native: bool, lenient: bool
) -> None:
    error = refusal(response, native=native, lenient=lenient)
    assert error.code == "unsupported_native_response_options"
    assert error.param == f"response.{next(iter(response))}"


def test_out_of_band_is_read_where_it_can_be_served() -> None:
    read = options({"conversation": "none", "input": [{"type": "message"}]}, out_of_band=True)
    assert read.out_of_band
    assert read.input == ({"type": "message"},)


@pytest.mark.parametrize(
    "metadata",
    [
        [],
        {"a": 1},
        {"a": {"nested": "x"}},
        {f"k{index}": "v" for index in range(17)},
        {"k" * 65: "v"},
        {"k": "v" * 513},
        {"duplex": "mine"},
    ],
)
def test_metadata_out_of_bounds_is_refused(metadata: Any) -> None:
    error = refusal({"metadata": metadata})
    assert (error.code, error.param) == ("bad_event", "response.metadata")


def test_metadata_at_the_bounds_is_kept() -> None:
    metadata = {f"{index:064}": "v" * 512 for index in range(16)}
    assert options({"metadata": metadata}).metadata == metadata


def test_openai_client_may_use_the_key_duplex() -> None:
    assert options({"metadata": {"duplex": "mine"}}, lenient=True).metadata == {"duplex": "mine"}


@pytest.mark.parametrize(
    ("response", "code", "param"),
    [
        ({"modalities": ["video"]}, "bad_event", "response.modalities"),
        ({"output_audio_format": "opus"}, "unsupported_audio_format", "output_audio_format"),
        ({"speed": "fast"}, "bad_event", "response.speed"),
        ({"voice": 5}, "bad_event", "response.voice"),
        ({"conversation": "other"}, "bad_event", "response.conversation"),
        ({"extra_body": 5}, "bad_event", "response.extra_body"),
        ({"tools": [{"type": "mcp"}]}, "invalid_tools", "response.tools"),
    ],
)
def test_refusal_names_the_option(response: dict[str, Any], code: str, param: str) -> None:
    error = refusal(response)
    assert error.code == code
    assert error.param is not None
    assert error.param.endswith(param)
    assert error.param.startswith("response.")
