"""The light half: how the ``local`` model fits a session. Imports no model library."""

from __future__ import annotations

import math
from collections.abc import Mapping
from urllib.parse import urlsplit

from duplex_sdk.plugin import (
    DuplexCapabilities,
    DuplexModelPlugin,
    DuplexModelSessionState,
    DuplexOutputDecision,
    DuplexRuntimeConfigError,
    InputProcessor,
    OutputContext,
    UnitBuffer,
)
from duplex_sdk.stage import Json, PipelineConfig, StageConfig, StageOutput

from .echo import EchoCancelling
from .routing import (
    RECOGNISER,
    REHEARSE,
    REPLY,
    SPEECH,
    next_prompts,
    next_prompts_by_chat,
    wants_text_only,
)

__all__ = ["INPUT_RATE", "OUTPUT_RATE", "UNIT_MS", "LocalPlugin"]

INPUT_RATE = 16_000
OUTPUT_RATE = 24_000
UNIT_MS = 80
MAX_SESSIONS = 24
LONGEST_REPLY = 400
"""Tokens; about two minutes of speech."""
VOICE = "heart"
_ECHO_KEY = "echo_cancellation"
# The others are the engine's own; it takes them whatever the model is.
_KNOWN_KEYS = frozenset({_ECHO_KEY, "seed", "force_listen_count", "return_stage_metrics"})

# OpenAI's clients must name one of theirs.
_STOCK_VOICES = frozenset(
    {
        "alloy",
        "ash",
        "ballad",
        "cedar",
        "coral",
        "echo",
        "fable",
        "marin",
        "nova",
        "onyx",
        "sage",
        "shimmer",
        "verse",
    }
)


class LocalPlugin(DuplexModelPlugin):
    """A recogniser, a writer of replies and a voice, three stages in a row.

    The server's voice activity detector ends the turns. Input goes to the recogniser as it comes,
    so that the words are mostly known when a turn ends.
    """

    early_input = True

    def __init__(self, options: Mapping[str, Json]) -> None:
        """Take the resolved options of the descriptor.

        Raises:
            ValueError: an option that cannot work, named in the message.
        """
        super().__init__(options)
        self._reply_options = _reply_options(options)
        self._vllm_model = _vllm_model(options)

    def capabilities(self, *, max_sessions: int) -> DuplexCapabilities:
        """Turn-based; prefers to react quickly and to talk on through a short "mm-hmm"."""
        return DuplexCapabilities.turn_based(
            supports_multi_session=True,
            supports_text_only_turn=True,
            supports_chat_completions=True,
            chunk_period_ms=UNIT_MS,
            input_sample_rate_hz=INPUT_RATE,
            output_sample_rate_hz=OUTPUT_RATE,
            interrupt_policy="barge_in_on_sustained_speech",
            session_defaults={
                "overlap_short_ack_ms": 400,
                "overlap_barge_in_ms": 600,
                "turn_detection": {"silence_duration_ms": 350},
                "voice": VOICE,
            },
        )

    def pipeline(self) -> PipelineConfig:
        """Recogniser, reply, speech."""
        package = "duplex_plugin_local"
        return PipelineConfig(
            stages=(
                StageConfig(
                    RECOGNISER,
                    f"{package}.recogniser_stage:RecogniserStage",
                    device="cpu",
                    memory_bytes=200 << 20,
                ),
                self._reply_stage(package),
                StageConfig(
                    SPEECH,
                    f"{package}.speech_stage:SpeechStage",
                    device="cpu",
                    # A step sends its outputs when it ends: nobody waits for the others' sentences.
                    max_batch=1,
                    memory_bytes=100 << 20,
                ),
            ),
            duplex_plugin="duplex_plugin_local.model:LocalPlugin",
            turn_requests=True,
            spoken_requests=True,
            stage_input=next_prompts if self._vllm_model is None else next_prompts_by_chat,
        )

    def _reply_stage(self, package: str) -> StageConfig:
        if self._vllm_model is None:
            model = f"{package}.reply_stage:ReplyStage"
            return StageConfig(REPLY, model, device="cpu", options=self._reply_options)
        return StageConfig(
            REPLY,
            backends=("vllm",),
            options={
                # A long talk goes on without its oldest words.
                "at_limit": "roll_over",
                # What a model thinks is not to be spoken; templates that know no such switch
                # take no notice.
                "chat_template_kwargs": {"enable_thinking": False},
            },
            sampling={"max_tokens": LONGEST_REPLY},
            vllm={"model": self._vllm_model},
        )

    def create_session_state(self) -> DuplexModelSessionState:
        """A buffer of units of 80 ms."""
        return DuplexModelSessionState(UnitBuffer(INPUT_RATE * UNIT_MS // 1000, INPUT_RATE))

    def validate_client_extra_body(self, extra_body: Mapping[str, Json] | None) -> None:
        """Refuse knobs that would do nothing.

        Raises:
            DuplexRuntimeConfigError: an unknown key, or ``echo_cancellation`` that is no bool.
        """
        if not isinstance(extra_body, Mapping):
            return
        unknown = sorted(set(extra_body) - _KNOWN_KEYS)
        if unknown:
            raise DuplexRuntimeConfigError(
                "invalid_duplex_runtime_config",
                f"the local model knows no {unknown[0]!r}",
                param=f"session.extra_body.{unknown[0]}",
            )
        if not isinstance(extra_body.get(_ECHO_KEY, False), bool):
            raise DuplexRuntimeConfigError(
                "invalid_duplex_runtime_config",
                f"{_ECHO_KEY} must be true or false",
                param=f"session.extra_body.{_ECHO_KEY}",
            )

    async def prepare_runtime_config(
        self, config: Mapping[str, Json], *, model_config: Mapping[str, Json]
    ) -> Mapping[str, Json]:
        """Nothing but the voice, of which there is one.

        Raises:
            DuplexRuntimeConfigError: a voice that is neither ours nor one of OpenAI's.
        """
        if self.voice_in_use(config) != VOICE:
            raise _no_such_voice("invalid_duplex_runtime_config")
        return {"voice": VOICE}

    def runtime_config_for_update(
        self, config: Mapping[str, Json], current: Mapping[str, Json], *, started: bool
    ) -> Mapping[str, Json]:
        """Refuse to become another voice: there is one.

        Raises:
            DuplexRuntimeConfigError: a voice that is neither ours nor one of OpenAI's.
        """
        if self.voice_in_use(config) != VOICE:
            raise _no_such_voice("voice_update_unsupported")
        return current

    def voice_in_use(self, config: Mapping[str, Json]) -> str | None:
        """The one voice, also under the names that OpenAI's clients give; others are no voice."""
        named = config.get("voice")
        return VOICE if not named or named in _STOCK_VOICES else named

    def create_input_processor(self, config: Mapping[str, Json]) -> InputProcessor | None:
        """Echo cancelling for a client with a loudspeaker that does none itself."""
        extra_body = config.get("extra_body")
        if isinstance(extra_body, Mapping) and extra_body.get(_ECHO_KEY):
            return EchoCancelling(INPUT_RATE)
        return None

    def decide_output(
        self, output: StageOutput, context: OutputContext
    ) -> DuplexOutputDecision | None:
        """A session that wants no audio gets the reply's text, and the voice is not asked."""
        rehearsed = REHEARSE in output.data
        if context.stage.id == REPLY and not rehearsed and wants_text_only(context.session.config):
            return DuplexOutputDecision("direct_response")
        return None


def _vllm_model(options: Mapping[str, Json]) -> str | None:
    """The folder of the model that vLLM is to serve, in a form that is plainly a path."""
    llm = options.get("llm")
    if llm is None:
        return None
    kind, _, path = str(llm).partition(":")
    if kind != "vllm" or not path:
        raise ValueError(f"llm is written vllm:PATH, the path of a model's folder; got {llm!r}")
    if options.get("llm_url"):
        raise ValueError("llm and llm_url both say where replies come from; give one of them")
    return path if path.startswith(("/", "./", "../", "~")) else f"./{path}"


def _no_such_voice(code: str) -> DuplexRuntimeConfigError:
    message = f"the local model has one voice, {VOICE!r}"
    return DuplexRuntimeConfigError(code, message, param="session.voice")


def _reply_options(options: Mapping[str, Json]) -> dict[str, Json]:
    url, patience = options.get("llm_url"), options.get("llm_timeout_s")
    if patience is not None and not 0 < patience < math.inf:
        raise ValueError(f"llm_timeout_s must be seconds above zero; got {patience:g}")
    if url is None:
        if options.get("llm_model"):
            raise ValueError("llm_model names a model, but llm_url says nowhere to find it")
        return {}
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise ValueError(f"llm_url must be an http or https address; got {url!r}")
    if not options.get("llm_model"):
        raise ValueError("llm_url needs llm_model too: the model's name at that endpoint")
    return {
        name: options[name]
        for name in ("llm_url", "llm_model", "llm_key_env", "llm_timeout_s")
        if options.get(name) is not None
    }
