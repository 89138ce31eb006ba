from __future__ import annotations

import pytest
from duplex_sdk.audio import PcmChunk
from duplex_sdk.plugin import (
    AppendPiece,
    AppendRequest,
    DuplexCapabilities,
    DuplexDataPlane,
    DuplexFence,
    DuplexModelPlugin,
    DuplexStageRequestContext,
    ModelResult,
    OutputContext,
    SessionView,
)
from duplex_sdk.stage import Image, PipelineConfig, StageConfig, StageError, StageOutput, ToolCall

AUDIO = PcmChunk.silence(160, 16_000)
CONVERSATION = ({"role": "user", "content": "hello"},)
STAGE = StageConfig(id="echo", model="echo.stage:Echo")


class Echo(DuplexModelPlugin):
    chunk_period_ms: int | None = 80

    def capabilities(self, *, max_sessions: int) -> DuplexCapabilities:
        return DuplexCapabilities.native(chunk_period_ms=self.chunk_period_ms)

    def pipeline(self) -> PipelineConfig:
        return PipelineConfig(stages=(STAGE,))


class WithoutUnit(Echo):
    chunk_period_ms = None


def request(unit: AppendPiece) -> AppendRequest:
    view = SessionView(session_id="s", conversation=CONVERSATION)
    return AppendRequest(
        fence=DuplexFence("s"), request_id="r", seq=1, turn_seq=1, unit=unit, session=view
    )


def output(**fields: object) -> StageOutput:
    return StageOutput("s", "r", 0, 0, **fields)  # type: ignore[arg-type]


def test_by_default_the_prompt_is_the_unit() -> None:
    frames = (Image("image/jpeg", b"1"),)
    unit = AppendPiece(
        audio=AUDIO, is_speech=True, force_listen=True, images=frames, padding=3, final=True
    )
    prompt = Echo({}).plan_append(request(unit)).prompt
    assert (prompt.kind, prompt.audio, prompt.padding, prompt.final, prompt.respond) == (
        "audio",
        AUDIO,
        3,
        True,
        True,
    )
    assert (prompt.is_speech, prompt.force_listen, prompt.images) == (True, True, frames)
    assert prompt.messages == ()


def test_a_conversation_to_answer_comes_as_messages() -> None:
    prompt = Echo({}).plan_append(request(AppendPiece(kind="conversation", final=True))).prompt
    assert (prompt.kind, prompt.messages) == ("conversation", CONVERSATION)


async def test_preparing_a_plan_is_planning() -> None:
    plugin = Echo({})
    asked = request(AppendPiece(audio=AUDIO))
    assert await plugin.prepare_append_plan(asked) == plugin.plan_append(asked)


def test_by_default_a_session_buffers_one_unit() -> None:
    plugin = Echo({})
    first, second = plugin.create_session_state(), plugin.create_session_state()
    assert first is not second
    buffer = first.audio_buffer
    assert buffer.prepare_append(
        AppendPiece(audio=PcmChunk.silence(1_280, 16_000)), operation_id="a", allow_emit=True
    )
    assert not second.audio_buffer.has_reserved()


def test_a_model_without_a_unit_gets_pieces_of_100_ms() -> None:
    buffer = WithoutUnit({}).create_session_state().audio_buffer
    reservation = buffer.prepare_append(
        AppendPiece(audio=PcmChunk.silence(2_000, 16_000)), operation_id="a", allow_emit=True
    )
    assert reservation is not None
    assert reservation.byte_count == 4 * 1_600


async def test_by_default_the_config_hooks_change_nothing() -> None:
    plugin = Echo({})
    plugin.validate_client_extra_body({"anything": 1})
    assert await plugin.prepare_runtime_config({}, model_config={}) == {}
    assert plugin.runtime_config_for_update({}, {"a": 1}, started=True) == {"a": 1}
    assert plugin.runtime_config_for_function_output({}, {}, {}) is None
    assert plugin.runtime_config_after_model_output({}, {}) is None
    assert plugin.configure_sampling_params(runtime_config={}, defaults=({"t": 1},)) == ({"t": 1},)


def test_by_default_outputs_are_forwarded_and_not_shown() -> None:
    plugin = Echo({})
    context = OutputContext(
        stage=STAGE,
        stage_id=0,
        is_last=False,
        fence=DuplexFence("s"),
        session=SessionView(session_id="s"),
    )
    assert plugin.decide_output(output(text="x"), context) is None
    assert not plugin.project_intermediate_output(output(text="x"), context)
    assert plugin.data_plane_context(context) is context


@pytest.mark.parametrize(
    "fields",
    [
        {"audio": AUDIO},
        {"text": "hello", "marks": ((5, 120.0),)},
        {"listen": True},
        {"end_of_turn": True},
        {"tool_call": ToolCall("look", "{}")},
        {"error": StageError("runtime_failed", "no")},
        {"audio": AUDIO, "text": "a", "end_of_turn": True},
    ],
)
def test_by_default_an_output_is_projected_field_by_field(fields: dict[str, object]) -> None:
    state = Echo({}).create_session_state()
    results = DuplexDataPlane().project(output(**fields), state=state, context=None)
    assert list(results) == [ModelResult(**fields)]  # type: ignore[arg-type]


def test_an_output_that_says_nothing_is_projected_to_nothing() -> None:
    state = Echo({}).create_session_state()
    said = output(user_text="what I heard", again_ms=0.0)
    assert list(DuplexDataPlane().project(said, state=state, context=None)) == []


def test_a_stage_request_keeps_its_own_copy_of_the_config() -> None:
    config = {"voice": "alto"}
    context = DuplexStageRequestContext(
        request_id="r", session_id="s", fence=DuplexFence("s"), session_config=config
    )
    config["voice"] = "bass"
    assert context.session_config == {"voice": "alto"}
    with pytest.raises(TypeError):
        context.session_config["voice"] = "bass"  # type: ignore[index]
