"""The descriptor and the light half."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from duplex_plugin_local import plugin
from duplex_plugin_local.echo import EchoCancelling
from duplex_plugin_local.model import LocalPlugin
from duplex_plugin_local.routing import RECOGNISER, REHEARSE, REPLY, next_prompts
from duplex_sdk.plugin import (
    DuplexFence,
    DuplexRuntimeConfigError,
    OutputContext,
    SessionView,
    UnitBuffer,
    load_duplex_plugin,
)
from duplex_sdk.protocol.duplex import UpdateSession
from duplex_sdk.stage import StageInputContext, StageOutput
from duplex_sdk.testing.session_lab import SessionLab


@pytest.fixture
def local() -> LocalPlugin:
    return LocalPlugin({})


def test_the_descriptor_says_what_the_plugin_does(local: LocalPlugin) -> None:
    loaded = load_duplex_plugin(plugin, {})
    capabilities = loaded.capabilities(max_sessions=plugin.max_sessions)
    assert isinstance(loaded, LocalPlugin)
    assert capabilities.supported == plugin.capabilities
    assert capabilities.input_sample_rate_hz == plugin.input_sample_rate
    assert capabilities.output_sample_rate_hz == plugin.output_sample_rate
    assert not capabilities.supports_model_native_turn_policy


def test_the_light_half_imports_no_model_library() -> None:
    program = (
        "import sys; from duplex_plugin_local import plugin; plugin.load();"
        "heavy = {'onnxruntime', 'hibari', 'moonshine_voice', 'pywebrtc_audio', 'duplex_server'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"


def test_units_are_80_ms(local: LocalPlugin) -> None:
    assert local.early_input
    assert isinstance(local.create_session_state().audio_buffer, UnitBuffer)
    assert local.capabilities(max_sessions=1).unit_samples == 1280


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"llm_url": "localhost:8000", "llm_model": "m"}, "http or https"),
        ({"llm_url": "http://localhost:8000/v1"}, "needs llm_model"),
        ({"llm_model": "m"}, "llm_url says nowhere"),
        ({"llm": "/models/small"}, "written vllm:PATH"),
        ({"llm": "vllm:"}, "written vllm:PATH"),
        ({"llm_timeout_s": 0}, "llm_timeout_s must be seconds above zero; got 0"),
        ({"llm_timeout_s": -5.0}, "llm_timeout_s must be"),
        ({"llm_timeout_s": float("nan")}, "llm_timeout_s must be"),
        ({"llm": "vllm:/m", "llm_url": "http://x", "llm_model": "m"}, "give one of them"),
    ],
)
def test_options_that_cannot_work_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LocalPlugin(options)


def test_the_endpoint_reaches_the_reply_stage_but_no_key_does() -> None:
    local = LocalPlugin({"llm_url": "http://x/v1", "llm_model": "m", "llm_key_env": "KEY"})
    stages = {stage.id: stage for stage in local.pipeline().stages}
    assert stages[REPLY].options == {
        "llm_url": "http://x/v1",
        "llm_model": "m",
        "llm_key_env": "KEY",
    }


@pytest.mark.parametrize(
    ("path", "model"),
    [("/models/small", "/models/small"), ("small", "./small"), ("~/small", "~/small")],
)
def test_a_model_for_vllm_takes_the_place_of_the_reply_stage(path: str, model: str) -> None:
    local = LocalPlugin({"llm": f"vllm:{path}"})
    recogniser, reply, speech = local.pipeline().stages
    assert (reply.id, reply.backends, reply.model) == (REPLY, ("vllm",), None)
    assert reply.vllm == {"model": model}
    assert (recogniser, speech) == LocalPlugin({}).pipeline().stages[::2]


@pytest.mark.parametrize("body", [None, {}, {"echo_cancellation": True}, {"seed": 3}])
def test_known_knobs_are_taken(local: LocalPlugin, body: Any) -> None:
    local.validate_client_extra_body(body)


@pytest.mark.parametrize("body", [{"echo_canceling": True}, {"echo_cancellation": 1}])
def test_knobs_that_would_do_nothing_are_refused(local: LocalPlugin, body: Any) -> None:
    with pytest.raises(DuplexRuntimeConfigError) as caught:
        local.validate_client_extra_body(body)
    assert caught.value.code == "invalid_duplex_runtime_config"
    assert str(caught.value.param).startswith("session.extra_body.")


def test_the_echo_is_cancelled_for_those_who_ask(local: LocalPlugin) -> None:
    assert local.create_input_processor({}) is None
    wanted = {"extra_body": {"echo_cancellation": True}}
    assert isinstance(local.create_input_processor(wanted), EchoCancelling)


def context_of(local: LocalPlugin, stage_id: int, modalities: list[str] | None) -> OutputContext:
    config = {} if modalities is None else {"output_modalities": modalities}
    return OutputContext(
        stage=local.pipeline().stages[stage_id],
        stage_id=stage_id,
        is_last=False,
        fence=DuplexFence("s"),
        session=SessionView(session_id="s", config=config),
    )


@pytest.mark.parametrize(
    ("stage_id", "modalities", "direct"),
    [(1, ["text"], True), (1, ["text", "audio"], False), (1, None, False), (0, ["text"], False)],
)
def test_text_alone_ends_at_the_reply(
    local: LocalPlugin, stage_id: int, modalities: Any, direct: bool
) -> None:
    output = StageOutput("s", "r", 0, 1, text="Hello.")
    decision = local.decide_output(output, context_of(local, stage_id, modalities))
    assert (decision is not None) is direct


def at_stage(local: LocalPlugin, stage_id: str, **fields: Any) -> StageInputContext:
    stages = {stage.id: stage for stage in local.pipeline().stages}
    return StageInputContext(stages[stage_id], **fields)


def test_what_was_heard_becomes_the_last_message(local: LocalPlugin) -> None:
    earlier = ({"role": "assistant", "content": "Hello."},)
    heard = StageOutput("s", "r", 0, 1, text="Hi.", end_of_turn=True)
    (prompt,) = next_prompts(heard, at_stage(local, RECOGNISER, messages=earlier))
    assert prompt.messages == (*earlier, {"role": "user", "content": "Hi."})
    assert (prompt.text, prompt.final) == ("Hi.", True)


@pytest.mark.parametrize("content", ["Hi.", "", [{"type": "input_audio", "transcript": "Hi."}]])
def test_a_turn_that_stands_in_the_conversation_already_comes_once(
    local: LocalPlugin, content: Any
) -> None:
    earlier = ({"role": "assistant", "content": "Hello."}, {"role": "user", "content": content})
    heard = StageOutput("s", "r", 0, 1, text="Hi.", end_of_turn=True)
    (prompt,) = next_prompts(heard, at_stage(local, RECOGNISER, messages=earlier))
    assert prompt.messages == (earlier[0], {"role": "user", "content": "Hi."})


def test_a_language_model_is_given_instructions_and_the_whole_conversation() -> None:
    local = LocalPlugin({"llm": "vllm:/m"})
    earlier = (
        {"role": "user", "content": [{"type": "input_audio", "transcript": "Hello."}]},
        {"role": "assistant", "content": "Good mor"},
    )
    config = {"instructions": "Be brief."}
    context = at_stage(local, RECOGNISER, messages=earlier, config=config)
    heard = StageOutput("s", "r", 0, 1, text="Hi.", end_of_turn=True)
    (prompt,) = local.pipeline().stage_input(heard, context)
    system, *said = prompt.messages
    assert system["role"] == "system"
    assert system["content"].startswith("Be brief.\n")
    assert said == [
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": "Good mor"},
        {"role": "user", "content": "Hi."},
    ]
    assert prompt.final


def test_a_language_model_is_told_of_words_that_were_not_understood() -> None:
    local = LocalPlugin({"llm": "vllm:/m"})
    heard = StageOutput("s", "r", 0, 1, text="", end_of_turn=True)
    (prompt,) = local.pipeline().stage_input(heard, at_stage(local, RECOGNISER))
    assert "not understood" in prompt.messages[-1]["content"]


def test_a_language_model_is_not_asked_before_the_turn_is_over() -> None:
    local = LocalPlugin({"llm": "vllm:/m"})
    perhaps = StageOutput("s", "r", 0, 1, text="Hi.", data={REHEARSE: True})
    assert local.pipeline().stage_input(perhaps, at_stage(local, RECOGNISER)) == ()
    assert len(next_prompts(perhaps, at_stage(local, RECOGNISER))) == 1


def test_partial_transcripts_are_for_the_client_alone(local: LocalPlugin) -> None:
    partial = StageOutput("s", "r", 0, 1, user_text="Hel")
    assert next_prompts(partial, at_stage(local, RECOGNISER)) == ()


def test_the_voice_gets_sentences(local: LocalPlugin) -> None:
    context = at_stage(local, REPLY)
    pieces = ("Paris is", " the capital. It", " has a tower.")
    outputs = [StageOutput("s", "r", 0, 1, text=piece) for piece in pieces]
    outputs.append(StageOutput("s", "r", 0, 1, end_of_turn=True))
    prompts = [prompt for output in outputs for prompt in next_prompts(output, context)]
    assert [(p.text, p.final) for p in prompts] == [
        ("Paris is the capital.", False),
        ("It has a tower.", True),
    ]


def test_an_update_to_a_voice_there_is_not_is_refused(local: LocalPlugin) -> None:
    current = {"voice": "heart"}
    for name in (None, *plugin.voices, "alloy", "marin"):
        assert local.runtime_config_for_update({"voice": name}, current, started=True) == current
    with pytest.raises(DuplexRuntimeConfigError, match="heart") as refused:
        local.runtime_config_for_update({"voice": "bella"}, current, started=True)
    assert (refused.value.code, refused.value.param) == (
        "voice_update_unsupported",
        "session.voice",
    )


@pytest.mark.parametrize(
    ("named", "told"), [(None, "heart"), ("marin", "heart"), ("heart", "heart"), ("bella", "bella")]
)
def test_clients_are_told_of_the_voice_they_hear(
    local: LocalPlugin, named: str | None, told: str
) -> None:
    assert local.voice_in_use({"voice": named}) == told
    assert local.voice_in_use({"voice": told}) == told


def test_a_session_shows_the_voice_it_has_whatever_its_client_called_it(
    local: LocalPlugin,
) -> None:
    lab = SessionLab(local, {"voice": "marin"})
    lab.send(UpdateSession(session={"voice": "cedar"}), lenient=True)
    lab.send(UpdateSession(session={"voice": "bella"}), lenient=True)
    shown = [event.to_realtime()["session"]["audio"]["output"]["voice"] for event in lab.events]
    assert shown == ["heart"] * 3


async def test_a_session_with_a_voice_there_is_not_does_not_open(local: LocalPlugin) -> None:
    with pytest.raises(DuplexRuntimeConfigError, match="heart"):
        await local.prepare_runtime_config({"voice": "bella"}, model_config={})


def test_its_one_voice_is_the_one_a_session_shows(local: LocalPlugin) -> None:
    defaults = local.capabilities(max_sessions=1).session_defaults
    assert plugin.voices == (defaults["voice"],)
