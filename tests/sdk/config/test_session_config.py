"""The session object: spellings, defaults, the order of refusals, atomic updates."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from duplex_sdk.plugin import (
    DuplexCapabilities,
    DuplexConfigError,
    DuplexSessionConfig,
    TurnDetection,
)
from duplex_sdk.protocol.duplex import FORMAT_SPELLINGS, INPUT_FORMATS, OUTPUT_FORMATS

TURN_BASED = DuplexCapabilities.turn_based()
SUSTAINED = DuplexCapabilities.turn_based(
    interrupt_policy="barge_in_on_sustained_speech",
    session_defaults={
        "voice": "alba",
        "overlap_short_ack_ms": 400,
        "overlap_barge_in_ms": 600,
        "turn_detection": {"silence_duration_ms": 350},
    },
)
NO_BARGE_IN = DuplexCapabilities.native(supports_barge_in=False)
OPENAI_DEFAULTS = {
    "output_modalities": ["audio"],
    "audio": {
        "input": {
            "format": {"type": "audio/pcm", "rate": 24000},
            "turn_detection": {"type": "server_vad"},
        },
        "output": {"format": {"type": "audio/pcm", "rate": 24000}},
    },
}
SERVER_VAD = {"type": "server_vad"}
STATE: dict[str, Any] = {
    "session_id": "duplex-1",
    "state": "open",
    "turn_state": "idle",
    "epoch": 0,
    "turn_id": 0,
    "playback": {"generated_ms": 0, "sent_ms": 0, "played_ms": 0, "committed_ms": 0},
}


def opened(
    session: dict[str, Any] | None = None,
    *,
    capabilities: DuplexCapabilities = TURN_BASED,
    openai: bool = False,
) -> DuplexSessionConfig:
    return DuplexSessionConfig.from_realtime(
        session or {},
        capabilities=capabilities,
        profile_defaults=OPENAI_DEFAULTS if openai else {},
        lenient=openai,
    )


def updated(
    config: DuplexSessionConfig,
    patch: dict[str, Any],
    *,
    capabilities: DuplexCapabilities = TURN_BASED,
    audio_started: bool = False,
    context_locked: bool = False,
    lenient: bool = False,
) -> DuplexSessionConfig:
    return config.updated(
        patch,
        audio_started=audio_started,
        context_locked=context_locked,
        capabilities=capabilities,
        lenient=lenient,
    )


def shown(
    config: DuplexSessionConfig, capabilities: DuplexCapabilities = TURN_BASED
) -> dict[str, Any]:
    return config.public(capabilities=capabilities, **STATE)


def open_refusal(session: dict[str, Any], **options: Any) -> DuplexConfigError:
    with pytest.raises(DuplexConfigError) as caught:
        opened(session, **options)
    return caught.value


def update_refusal(
    patch: dict[str, Any], base: DuplexSessionConfig | None = None, **options: Any
) -> DuplexConfigError:
    config = opened() if base is None else base
    before = (msgspec.json.encode(config), msgspec.json.encode(shown(config)))
    with pytest.raises(DuplexConfigError) as caught:
        updated(config, patch, **options)
    assert before == (msgspec.json.encode(config), msgspec.json.encode(shown(config)))
    return caught.value


# defaults and rendering


def test_duplex_profile_begins_with_these_values() -> None:
    public = shown(opened())
    assert public | {"capabilities": None} == {
        "id": "duplex-1",
        "object": "realtime.session",
        "type": "realtime",
        "model": None,
        "output_modalities": ["text", "audio"],
        "instructions": None,
        "audio": {
            "input": {
                "format": {"type": "audio/pcm", "rate": 16000},
                "transcription": None,
                "noise_reduction": None,
                "turn_detection": None,
            },
            "output": {"format": {"type": "audio/pcm", "rate": 24000}, "speed": 1.0},
        },
        "max_output_tokens": "inf",
        "ref_audio": None,
        "use_tts_template": True,
        "idle_timeout_s": 300.0,
        "auto_response": False,
        "overlap_policy": "listen_only",
        "overlap_short_ack_ms": 700,
        "overlap_barge_in_ms": 1200,
        "overlap_silence_rms": 0.003,
        "playback_commit_policy": "commit_all_on_done",
        "expires_at": None,
        "state": "open",
        "turn_state": "idle",
        "epoch": 0,
        "turn_id": 0,
        "active_request_id": None,
        "active_response_id": None,
        "active_response_turn_id": None,
        "playback": STATE["playback"],
        "capabilities": None,
    }
    assert public["capabilities"] == TURN_BASED.as_dict()


def test_openai_profile_announces_24_khz_and_server_vad() -> None:
    public = shown(opened(openai=True, capabilities=SUSTAINED), SUSTAINED)
    assert public["output_modalities"] == ["audio"]
    assert public["audio"]["input"]["format"] == {"type": "audio/pcm", "rate": 24000}
    assert public["audio"]["output"]["format"] == {"type": "audio/pcm", "rate": 24000}
    assert public["audio"]["input"]["turn_detection"] == {
        "type": "server_vad",
        "threshold": 0.5,
        "prefix_padding_ms": 300,
        "silence_duration_ms": 350,
        "min_speech_duration_ms": 96,
        "create_response": True,
        "interrupt_response": True,
    }
    assert public["overlap_policy"] == "barge_in_on_sustained_speech"


def test_plugin_figures_go_before_defaults_and_behind_the_client() -> None:
    config = opened({"overlap_barge_in_ms": 900}, capabilities=SUSTAINED)
    assert (config.overlap_short_ack_ms, config.overlap_barge_in_ms) == (400, 900)
    assert config.voice == "alba"
    stated = opened({"voice": "cosette"}, capabilities=SUSTAINED)
    assert stated.voice == "cosette"
    assert updated(stated, {"voice": None}, capabilities=SUSTAINED).voice == "alba"


def test_rendering_is_fresh_each_time() -> None:
    config = opened({"metadata": {"a": "b"}, "tools": [{"type": "function", "name": "f"}]})
    first = shown(config)
    first["metadata"]["a"] = "x"
    first["tools"].clear()
    first["audio"]["input"]["format"]["rate"] = 1
    assert shown(config) != first
    assert shown(config)["metadata"] == {"a": "b"}


def test_beta_spellings_are_never_shown() -> None:
    session = {
        "modalities": ["audio"],
        "voice": "alba",
        "speed": 1.5,
        "temperature": 0.5,
        "input_audio_format": "g711_ulaw",
        "output_audio_format": "pcm16",
        "input_audio_transcription": {"model": "m"},
        "input_audio_noise_reduction": {"type": "far_field"},
        "turn_detection": SERVER_VAD,
        "max_tokens": 5,
        "extra_body": {"secret": 1},
        "ref_audio": "data:audio/wav;base64,AAE=",
    }
    public = shown(opened(session))
    assert public["audio"]["output"] == {
        "format": {"type": "audio/pcm", "rate": 24000},
        "voice": "alba",
        "speed": 1.5,
    }
    assert public["audio"]["input"]["format"] == {"type": "audio/pcmu"}
    assert public["audio"]["input"]["transcription"] == {"model": "m"}
    assert public["audio"]["input"]["noise_reduction"] == {"type": "far_field"}
    assert (public["temperature"], public["max_output_tokens"]) == (0.5, 5)
    assert public["ref_audio"] == "set"
    gone = set(session) - {"temperature", "ref_audio"}
    assert not gone & set(public)


GA_AND_BETA: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"output_modalities": ["text"]}, {"modalities": ["text"]}),
    ({"audio": {"output": {"voice": "v"}}}, {"voice": "v"}),
    ({"audio": {"output": {"voice": {"id": "v"}}}}, {"voice": {"id": "v"}}),
    ({"audio": {"output": {"speed": 1.5}}}, {"speed": 1.5}),
    ({"audio": {"input": {"format": {"type": "audio/pcma"}}}}, {"input_audio_format": "alaw"}),
    ({"audio": {"output": {"format": {"type": "audio/pcma"}}}}, {"output_audio_format": "alaw"}),
    ({"audio": {"output": {"format": {"type": "audio/wav"}}}}, {"response_format": "wav"}),
    (
        {"audio": {"input": {"format": {"type": "audio/pcm", "rate": 48000}}}},
        {"input_audio_format": "pcm16", "sample_rate_hz": 48000},
    ),
    (
        {"audio": {"input": {"format": {"type": "audio/pcm", "rate": 48000}}}},
        {"audio": {"input": {"sample_rate_hz": 48000}}},
    ),
    ({"audio": {"input": {"turn_detection": SERVER_VAD}}}, {"turn_detection": SERVER_VAD}),
    (
        {"audio": {"input": {"transcription": {"language": "en"}}}},
        {"input_audio_transcription": {"language": "en"}},
    ),
    (
        {"audio": {"input": {"noise_reduction": {"type": "near_field"}}}},
        {"input_audio_noise_reduction": {"type": "near_field"}},
    ),
    ({"max_output_tokens": 7}, {"max_tokens": 7}),
    ({"max_output_tokens": 7}, {"max_response_output_tokens": 7}),
    ({"overlap_barge_in_ms": 5}, {"extra_body": {"overlap_barge_in_ms": 5}}),
    ({"auto_response": True}, {"extra_body": {"auto_response": True}}),
    (
        {"playback_commit_policy": "ack_only"},
        {"extra_body": {"playback_commit_policy": "ack_only"}},
    ),
]


@pytest.mark.parametrize(("first", "second"), GA_AND_BETA)
def test_both_spellings_give_one_session(first: dict[str, Any], second: dict[str, Any]) -> None:
    assert shown(opened(first)) == shown(opened(second)) != shown(opened())
    assert updated(opened(), first) == updated(opened(), second) == opened(second)


@pytest.mark.parametrize(
    ("session", "field", "expected"),
    [
        ({"modalities": ["text"], "output_modalities": ["audio"]}, "modalities", ("text",)),
        (
            {"input_audio_format": "ulaw", "audio": {"input": {"format": "pcm16"}}},
            "input_format",
            "g711_ulaw",
        ),
        (
            {
                "output_audio_format": "ulaw",
                "audio": {"output": {"format": "pcm16"}},
                "response_format": "wav",
            },
            "response_format",
            "g711_ulaw",
        ),
        (
            {"audio": {"output": {"format": "pcm16"}}, "response_format": "wav"},
            "response_format",
            "pcm16",
        ),
        (
            {
                "sample_rate_hz": 8000,
                "audio": {"input": {"format": {"type": "pcm16", "rate": 24000}}},
            },
            "input_sample_rate_hz",
            8000,
        ),
        (
            {"max_tokens": 1, "max_output_tokens": 2, "max_response_output_tokens": 3},
            "max_tokens",
            3,
        ),
        ({"max_tokens": 1, "max_output_tokens": 2}, "max_tokens", 2),
        (
            {"overlap_short_ack_ms": 1, "extra_body": {"overlap_short_ack_ms": 2}},
            "overlap_short_ack_ms",
            2,
        ),
    ],
)
def test_double_spelling_has_a_winner(session: dict[str, Any], field: str, expected: Any) -> None:
    assert getattr(opened(session), field) == expected


@pytest.mark.parametrize("value", ["inf", "infinity", "unlimited", None])
def test_no_limit_of_tokens_has_many_names(value: Any) -> None:
    limited = opened({"max_output_tokens": 5})
    assert updated(limited, {"max_output_tokens": value}).max_tokens is None


@pytest.mark.parametrize(
    "spelling", [spelling for spellings in FORMAT_SPELLINGS.values() for spelling in spellings]
)
def test_each_format_spelling_opens_a_session_or_is_refused(spelling: str) -> None:
    name = next(name for name, all_ in FORMAT_SPELLINGS.items() if spelling in all_)
    for direction, supported in (("input", INPUT_FORMATS), ("output", OUTPUT_FORMATS)):
        session = {"audio": {direction: {"format": {"type": spelling.upper()}}}}
        if name in supported:
            config = opened(session)
            field = config.input_format if direction == "input" else config.response_format
            assert field == name
        else:
            error = open_refusal(session)
            assert error.code == "unsupported_audio_format"
            assert error.param == f"audio.{direction}.format"


def test_openai_profile_serves_openai_formats_only() -> None:
    for value in ("pcm_f32le", {"type": "audio/pcm", "rate": 16000}):
        error = open_refusal({"audio": {"input": {"format": value}}}, openai=True)
        assert error.code == "unsupported_audio_format"
    for value in ("wav", {"type": "audio/pcm", "rate": 48000}):
        error = open_refusal({"audio": {"output": {"format": value}}}, openai=True)
        assert error.code == "unsupported_audio_format"


def test_pcm_is_24_khz_again_after_g711_in_the_openai_profile() -> None:
    telephone = opened(
        {
            "audio": {
                "input": {"format": {"type": "audio/pcmu"}},
                "output": {"format": {"type": "audio/pcmu"}},
            }
        },
        openai=True,
    )
    assert telephone.input_defaults(TURN_BASED).effective_rate == 8000
    assert telephone.output_rate(TURN_BASED) == 8000
    formats = {"format": {"type": "audio/pcm"}}
    studio = updated(telephone, {"audio": {"input": formats, "output": formats}}, lenient=True)
    assert studio.input_defaults(TURN_BASED).effective_rate == 24000
    assert studio.output_rate(TURN_BASED) == 24000


def test_rates_follow_the_format_not_its_predecessor() -> None:
    config = opened({"audio": {"input": {"format": {"type": "pcm16", "rate": 48000}}}})
    assert updated(config, {"input_audio_format": "pcm_f32le"}).input_sample_rate_hz == 48000
    assert updated(config, {"input_audio_format": "ulaw"}).input_sample_rate_hz is None
    assert updated(config, {"sample_rate_hz": 16000}).input_format == "pcm16"


# updates


def test_absent_keys_keep_their_value_at_every_depth() -> None:
    config = opened(
        {
            "instructions": "Be brief.",
            "audio": {
                "input": {"turn_detection": SERVER_VAD, "transcription": {"model": "m"}},
                "output": {"voice": "v", "speed": 1.5},
            },
            "extra_body": {"a": 1, "b": {"c": 2}},
        }
    )
    later = updated(config, {"audio": {"output": {"voice": "w"}}, "extra_body": {"b": 3}})
    assert later.voice == "w"
    assert later.extra_body == {"a": 1, "b": 3}
    assert later.keeping(config, "voice", "extra_body") == config


def test_null_leads_back_to_the_default() -> None:
    config = opened(
        {
            "instructions": "Be brief.",
            "voice": "v",
            "temperature": 0.5,
            "tools": [{"type": "function", "name": "f"}],
            "input_audio_transcription": {"model": "m"},
            "extra_body": {"a": 1},
        }
    )
    patch = {
        "instructions": None,
        "audio": {"output": {"voice": None}, "input": {"transcription": None}},
        "temperature": None,
        "tools": None,
        "extra_body": {"a": None},
    }
    assert updated(config, patch) == opened()


def test_one_figure_keeps_the_detector_and_the_other_figures() -> None:
    config = opened({"turn_detection": {**SERVER_VAD, "silence_duration_ms": 700}})
    tuned = updated(config, {"turn_detection": {"threshold": 0.8}})
    assert tuned.turn_detection == TurnDetection(threshold=0.8, silence_duration_ms=700)
    assert tuned.overlap_policy == "barge_in_on_speech"
    off = updated(tuned, {"turn_detection": None})
    assert (off.turn_detection, off.overlap_policy) == (None, "listen_only")
    error = update_refusal({"turn_detection": {"threshold": 7}}, tuned)
    assert (error.code, error.param) == ("unsupported_turn_detection", "turn_detection")
    assert "threshold" in error.message


def test_config_made_by_hand_is_updated_like_any_other() -> None:
    config = DuplexSessionConfig(voice="v", turn_detection=TurnDetection(threshold=0.7))
    later = updated(config, {"turn_detection": {"silence_duration_ms": 100}})
    assert later.voice == "v"
    assert later.turn_detection == TurnDetection(threshold=0.7, silence_duration_ms=100)


def test_equal_values_are_no_change() -> None:
    config = opened({"model": "m", "voice": "v", "instructions": "i", "idle_timeout_s": 5})
    patch = {"model": "m", "voice": "v", "instructions": "i", "idle_timeout_s": 5}
    assert updated(config, patch, audio_started=True, context_locked=True) == config


SETTLED: list[tuple[dict[str, Any], str, str]] = [
    ({"model": "other"}, "model_update_unsupported", "model"),
    ({"voice": "other"}, "voice_update_after_audio_unsupported", "voice"),
    ({"audio": {"output": {"voice": None}}}, "voice_update_after_audio_unsupported", "voice"),
    ({"instructions": "other"}, "instructions_update_unsupported", "instructions"),
    (
        {"ref_audio": "data:audio/wav;base64,AAE="},
        "ref_audio_update_unsupported",
        "ref_audio",
    ),
    ({"initial_user_text": "hello"}, "bad_event", "initial_user_text"),
    ({"use_tts_template": False}, "bad_event", "use_tts_template"),
    ({"idle_timeout_s": 7}, "bad_event", "idle_timeout_s"),
]


@pytest.mark.parametrize(("patch", "code", "param"), SETTLED)
def test_what_is_settled_is_refused_or_kept(patch: dict[str, Any], code: str, param: str) -> None:
    base = opened({"model": "m", "voice": "v", "instructions": "i"})
    error = update_refusal(patch, base, audio_started=True, context_locked=True)
    assert (error.code, error.param) == (code, param)
    patch = {**patch, "temperature": 0.5}
    kept = updated(base, patch, audio_started=True, context_locked=True, lenient=True)
    assert kept.temperature == 0.5
    assert (
        kept.keeping(base, "temperature", "input_sample_rate_hz", "output_sample_rate_hz") == base
    )


def test_voice_and_instructions_may_change_until_they_are_settled() -> None:
    config = updated(opened({"voice": "v"}), {"voice": "w", "instructions": "i"})
    assert (config.voice, config.instructions) == ("w", "i")


def test_served_model_is_filled_in_and_then_holds() -> None:
    config = opened().for_model("demo")
    assert updated(config, {"model": None}).model == "demo"
    assert update_refusal({"model": "gpt-realtime"}, config).code == "model_update_unsupported"
    assert updated(config, {"model": "gpt-realtime"}, lenient=True).model == "demo"
    assert opened({"model": "mine"}).for_model("demo").model == "mine"


# refusals


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"type": "transcription"}, "type"),
    ({"model": 5}, "model"),
    ({"modalities": "audio"}, "modalities"),
    ({"output_modalities": []}, "output_modalities"),
    ({"output_modalities": ["video"]}, "output_modalities"),
    ({"output_modalities": None}, "output_modalities"),
    ({"instructions": 5}, "instructions"),
    ({"voice": 5}, "voice"),
    ({"audio": {"output": {"voice": {"name": "v"}}}}, "audio.output.voice"),
    ({"audio": 5}, "audio"),
    ({"audio": {"input": []}}, "audio.input"),
    ({"audio": {"output": "pcm16"}}, "audio.output"),
    ({"audio": {"input": {"format": {"type": "pcm16", "rate": 1}}}}, "audio.input.format.rate"),
    ({"sample_rate_hz": "16000"}, "sample_rate_hz"),
    ({"sample_rate_hz": 200_000}, "sample_rate_hz"),
    ({"input_audio_format": None}, "input_audio_format"),
    ({"input_audio_transcription": "whisper"}, "input_audio_transcription"),
    ({"input_audio_noise_reduction": {"type": "x"}}, "input_audio_noise_reduction"),
    ({"tool_choice": "maybe"}, "tool_choice"),
    ({"tool_choice": {"type": "mcp"}}, "tool_choice"),
    ({"parallel_tool_calls": 1}, "parallel_tool_calls"),
    ({"temperature": "hot"}, "temperature"),
    ({"temperature": True}, "temperature"),
    ({"max_output_tokens": 0}, "max_output_tokens"),
    ({"max_tokens": 1.5}, "max_tokens"),
    ({"max_tokens": True}, "max_tokens"),
    ({"speed": 0}, "speed"),
    ({"tracing": 5}, "tracing"),
    ({"metadata": {"a": 1}}, "metadata"),
    ({"metadata": []}, "metadata"),
    ({"ref_audio": 5}, "ref_audio"),
    ({"ref_audio": "data:audio/wav;base64,!"}, "ref_audio"),
    ({"initial_user_text": []}, "initial_user_text"),
    ({"use_tts_template": "yes"}, "use_tts_template"),
    ({"idle_timeout_s": 0}, "idle_timeout_s"),
    ({"idle_timeout_s": None}, "idle_timeout_s"),
    ({"auto_response": 1}, "auto_response"),
    ({"overlap_policy": 5}, "overlap_policy"),
    ({"overlap_short_ack_ms": 1.5}, "overlap_short_ack_ms"),
    ({"extra_body": {"overlap_barge_in_ms": "x"}}, "extra_body.overlap_barge_in_ms"),
    ({"overlap_silence_rms": "x"}, "overlap_silence_rms"),
    ({"playback_commit_policy": 1}, "playback_commit_policy"),
    ({"extra_body": []}, "extra_body"),
    ({"extra_body": None}, "extra_body"),
    ({"duplex": {"events": "some"}}, "duplex"),
    ({"duplex": []}, "duplex"),
]


@pytest.mark.parametrize(("session", "param"), WRONG)
def test_wrong_type_is_named_at_open_and_later(session: dict[str, Any], param: str) -> None:
    error = open_refusal(session)
    assert (error.code, error.param) == ("invalid_session_config", param)
    error = update_refusal(session)
    assert (error.code, error.param) == ("bad_event", param)


@pytest.mark.parametrize(
    "tools",
    [
        "f",
        [5],
        [{"type": "mcp", "server_label": "x"}],
        [{"type": "function"}],
        [{"type": "function", "name": ""}],
        [{"type": "function", "name": "f", "parameters": []}],
        [{"type": "function", "name": "f", "description": 5}],
    ],
)
def test_malformed_tools_have_a_code_of_their_own(tools: Any) -> None:
    for lenient in (False, True):
        assert open_refusal({"tools": tools}, openai=lenient).code == "invalid_tools"
        assert update_refusal({"tools": tools}, lenient=lenient).code == "invalid_tools"


@pytest.mark.parametrize("value", ["voice.wav", "https://x.org/v.wav", "file:///etc/passwd", ""])
def test_reference_voice_is_data_and_no_path(value: str) -> None:
    error = open_refusal({"ref_audio": value})
    assert (error.code, error.param) == ("unsupported_ref_audio_path", "ref_audio")


def test_only_the_first_problem_is_reported_in_order() -> None:
    problems: list[tuple[dict[str, Any], str]] = [
        ({"input_audio_format": "opus"}, "unsupported_audio_format"),
        ({"turn_detection": {"type": "x"}}, "unsupported_turn_detection"),
        ({"extra_body": 5}, "bad_event"),
        ({"temperature": "hot"}, "bad_event"),
        ({"model": "other"}, "model_update_unsupported"),
    ]
    base = opened({"model": "m"})
    while problems:
        patch: dict[str, Any] = {}
        for problem, _code in reversed(problems):
            patch |= problem
        error = update_refusal(patch, base)
        field, code = next(iter(problems[0][0])), problems[0][1]
        assert (error.code, error.param) == (code, field)
        del problems[0]


def test_object_whose_answer_would_not_fit_a_frame_is_refused() -> None:
    limit = 1024 * 1024 - 16 * 1024
    assert open_refusal({"instructions": "x" * limit}).code == "event_too_large"
    assert update_refusal({"metadata": {"a": "x" * limit}}).code == "event_too_large"
    assert opened({"instructions": "x" * (limit - 4096)}).instructions is not None


def test_extra_body_grows_with_updates_to_what_one_frame_may_bring(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("duplex_sdk.plugin.config.MAX_EXTRA_BYTES", 1000)
    config = opened({"extra_body": {"a": "x" * 600}})
    error = update_refusal({"extra_body": {"b": "x" * 600}}, config)
    assert (error.code, error.param) == ("event_too_large", "extra_body")
    assert updated(config, {"extra_body": {"a": None, "b": "x" * 600}}).extra_body.keys() == {"b"}
    assert open_refusal({"extra_body": {"a": "x" * 1000}}).code == "event_too_large"


# turn detection and overlap


@pytest.mark.parametrize(
    "value",
    [
        {"type": "semantic_vad"},
        {"type": "none"},
        {"type": 5},
        {},
        {"threshold": 0.8},
        [],
        "server_vad",
        {**SERVER_VAD, "treshold": 0.5},
        {**SERVER_VAD, "idle_timeout_ms": 5000},
        {**SERVER_VAD, "threshold": 0.15},
        {**SERVER_VAD, "threshold": 1.01},
        {**SERVER_VAD, "threshold": True},
        {**SERVER_VAD, "silence_duration_ms": -1},
        {**SERVER_VAD, "prefix_padding_ms": "300"},
        {**SERVER_VAD, "create_response": 1},
        {**SERVER_VAD, "interrupt_response": "yes"},
    ],
)
def test_turn_detection_that_would_mislead_is_refused(value: Any) -> None:
    error = open_refusal({"turn_detection": value})
    assert (error.code, error.param) == ("unsupported_turn_detection", "turn_detection")
    error = update_refusal({"audio": {"input": {"turn_detection": value}}})
    assert error.code == "unsupported_turn_detection"
    assert error.param == "audio.input.turn_detection"


@pytest.mark.parametrize("threshold", [0.16, 1, 1.0])
def test_threshold_at_the_edge_is_taken(threshold: float) -> None:
    config = opened({"turn_detection": {**SERVER_VAD, "threshold": threshold}})
    assert config.turn_detection == TurnDetection(threshold=threshold)


def test_speech_shorter_than_a_frame_counts_as_one_frame() -> None:
    config = opened({"turn_detection": {**SERVER_VAD, "min_speech_duration_ms": 0}})
    assert config.turn_detection == TurnDetection(min_speech_duration_ms=32)


def test_null_figure_returns_to_the_plugins() -> None:
    config = opened(
        {"turn_detection": {**SERVER_VAD, "silence_duration_ms": 900}}, capabilities=SUSTAINED
    )
    patch = {"turn_detection": {"silence_duration_ms": None}}
    reset = updated(config, patch, capabilities=SUSTAINED)
    assert reset.turn_detection == TurnDetection(silence_duration_ms=350)


POLICY: list[tuple[DuplexCapabilities, dict[str, Any], str | None]] = [
    (TURN_BASED, {}, "listen_only"),
    (TURN_BASED, {"turn_detection": None}, "listen_only"),
    (TURN_BASED, {"turn_detection": SERVER_VAD}, "barge_in_on_speech"),
    (SUSTAINED, {"turn_detection": SERVER_VAD}, "barge_in_on_sustained_speech"),
    (
        TURN_BASED,
        {"turn_detection": {**SERVER_VAD, "interrupt_response": False}},
        "listen_only",
    ),
    (TURN_BASED, {"overlap_policy": "whatever"}, "listen_only"),
    (
        TURN_BASED,
        {"turn_detection": SERVER_VAD, "overlap_policy": "barge_in_on_sustained_speech"},
        "barge_in_on_sustained_speech",
    ),
    (TURN_BASED, {"overlap_policy": "barge_in_on_speech"}, None),
    (TURN_BASED, {"extra_body": {"overlap_policy": "barge_in_on_speech"}}, None),
    (TURN_BASED, {"turn_detection": SERVER_VAD, "overlap_policy": "listen_only"}, None),
    (
        TURN_BASED,
        {
            "turn_detection": {**SERVER_VAD, "interrupt_response": False},
            "overlap_policy": "barge_in_on_speech",
        },
        None,
    ),
]


@pytest.mark.parametrize(("capabilities", "session", "expected"), POLICY)
def test_overlap_policy_follows_turn_detection(
    capabilities: DuplexCapabilities, session: dict[str, Any], expected: str | None
) -> None:
    if expected is None:
        error = open_refusal(session, capabilities=capabilities)
        assert error.code == "unsupported_turn_detection"
    else:
        assert opened(session, capabilities=capabilities).overlap_policy == expected


def test_stated_policy_gives_way_when_the_detector_changes() -> None:
    policy = "barge_in_on_sustained_speech"
    config = opened({"turn_detection": SERVER_VAD, "overlap_policy": policy})
    assert updated(config, {"temperature": 1}).overlap_policy == policy
    assert updated(config, {"turn_detection": None}).overlap_policy == "listen_only"


def test_model_that_cannot_be_interrupted_runs_no_detector() -> None:
    error = open_refusal({"turn_detection": SERVER_VAD}, capabilities=NO_BARGE_IN)
    assert error.code == "unsupported_turn_detection"
    config = opened(openai=True, capabilities=NO_BARGE_IN)
    assert (config.turn_detection, config.overlap_policy) == (None, "listen_only")
    asked = {"turn_detection": {"type": "semantic_vad", "interrupt_response": False}}
    announced = shown(updated(config, asked, capabilities=NO_BARGE_IN, lenient=True), NO_BARGE_IN)
    detection = announced["audio"]["input"]["turn_detection"]
    assert detection["type"] == "server_vad"
    assert detection["create_response"]
    assert detection["interrupt_response"]
    off = updated(config, {"turn_detection": None}, capabilities=NO_BARGE_IN, lenient=True)
    assert shown(off, NO_BARGE_IN)["audio"]["input"]["turn_detection"] is None


def test_model_without_client_commit_always_answers_unasked() -> None:
    capabilities = DuplexCapabilities.native(supports_client_commit=False)
    assert opened(capabilities=capabilities).auto_response
    assert opened({"auto_response": False}, capabilities=capabilities).auto_response
    assert not opened().auto_response


# lenient


def test_lenient_update_takes_what_stock_clients_send() -> None:
    config = opened(openai=True, capabilities=SUSTAINED)
    patch = {
        "type": "realtime",
        "model": "gpt-realtime",
        "output_modalities": ["audio"],
        "instructions": "Be brief.",
        "tracing": "auto",
        "tool_choice": "auto",
        "tools": [],
        "audio": {
            "input": {
                "format": {"type": "audio/pcm", "rate": 24000},
                "transcription": {"model": "gpt-4o-mini-transcribe"},
                "noise_reduction": {"type": "studio"},
                "turn_detection": {
                    "type": "semantic_vad",
                    "eagerness": "high",
                    "create_response": False,
                },
            },
            "output": {"voice": "ash", "speed": 1.0, "format": None},
        },
        "include": None,
        "prompt": None,
        "max_output_tokens": "inf",
        "metadata": None,
        "overlap_policy": None,
    }
    config = config.for_model("local")
    later = updated(config, patch, capabilities=SUSTAINED, lenient=True)
    assert later.model == "local"
    assert later.noise_reduction is None
    assert later.turn_detection == TurnDetection(silence_duration_ms=350, create_response=False)
    assert later.instructions == "Be brief."
    assert later.overlap_policy == "barge_in_on_sustained_speech"


@pytest.mark.parametrize(
    ("patch", "kept"),
    [
        ({"voice": 5}, "voice"),
        ({"tool_choice": {"type": "mcp"}}, "tool_choice"),
        ({"tracing": 5}, "tracing"),
        ({"audio": None}, "voice"),
        ({"audio": {"input": None}}, "voice"),
        ({"output_modalities": None}, "modalities"),
        ({"overlap_policy": "listen_only"}, "overlap_policy"),
    ],
)
def test_lenient_update_drops_what_nobody_here_knows(patch: dict[str, Any], kept: str) -> None:
    config = opened({"voice": "v"}, openai=True)
    assert getattr(updated(config, patch, lenient=True), kept) == getattr(config, kept)


@pytest.mark.parametrize("threshold", [0, 0.1, 0.15])
def test_lenient_threshold_is_brought_into_range(threshold: float) -> None:
    patch = {"turn_detection": {**SERVER_VAD, "threshold": threshold}}
    later = updated(opened(openai=True), patch, lenient=True)
    assert later.turn_detection == TurnDetection(threshold=0.16)


def test_lenient_does_not_take_nonsense() -> None:
    base = opened(openai=True)
    assert update_refusal({"temperature": "hot"}, base, lenient=True).code == "bad_event"
    error = update_refusal({"turn_detection": {"threshold": 7}}, base, lenient=True)
    assert error.code == "unsupported_turn_detection"


# opting in, the plugin's view, normalizing


def test_opting_in_is_kept_shown_and_taken_back() -> None:
    config = opened({"duplex": {"events": ["response.listen", "response.listen"]}})
    assert config.duplex_events == ("response.listen",)
    assert shown(config)["duplex"] == {"events": ["response.listen"]}
    everything = updated(config, {"duplex": {"events": "all"}})
    assert shown(everything)["duplex"] == {"events": "all"}
    none = updated(everything, {"duplex": {"events": []}})
    assert none.duplex_events == ()
    assert "duplex" not in shown(opened())


def test_plugin_sees_its_knobs_and_the_reference_voice() -> None:
    voice = "data:audio/wav;base64,AAE="
    config = opened(
        {"voice": "v", "ref_audio": voice, "extra_body": {"a": 1, "overlap_silence_rms": 0.1}}
    )
    seen = config.for_stages("duplex-1")
    assert (seen["id"], seen["voice"], seen["ref_audio"]) == ("duplex-1", "v", voice)
    assert seen["extra_body"] == {"a": 1}
    assert msgspec.json.decode(msgspec.json.encode(seen)) == seen
    assert not config.return_stage_metrics
    assert updated(config, {"extra_body": {"return_stage_metrics": True}}).return_stage_metrics


def test_negative_figures_count_as_zero() -> None:
    config = opened(
        {"overlap_short_ack_ms": -5, "overlap_barge_in_ms": -1, "overlap_silence_rms": -0.1}
    )
    assert (config.overlap_short_ack_ms, config.overlap_barge_in_ms) == (0, 0)
    assert config.overlap_silence_rms == 0


def test_normalizing_twice_changes_nothing_more() -> None:
    wild = DuplexSessionConfig(
        overlap_policy="shout",
        overlap_short_ack_ms=-1,
        overlap_silence_rms=-1.0,
        playback_commit_policy="never",  # type: ignore[arg-type]
        turn_detection=TurnDetection(),
    )
    tame = wild.normalized()
    assert tame.normalized() == tame
    assert (tame.overlap_policy, tame.overlap_short_ack_ms) == ("listen_only", 0)
    assert tame.playback_commit_policy == "commit_all_on_done"
    assert tame.announced_turn_detection == TurnDetection()
