"""``EngineChatCompletionsAdapter``: chat completions without a session."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from duplex_sdk.audio import BadAudioError, InputDecoder, OutputEncoder, PcmChunk
from duplex_sdk.plugin import DuplexConfigError, DuplexRuntimeConfigError, DuplexSessionConfig
from duplex_sdk.protocol.duplex import AppendAudio, Commit, CreateItem

from duplex_server.entrypoints import Question

from .adapter import ChatCompletionsAdapter
from .engine_answer import EngineAnswer
from .refusal import ChatRefusedError
from .request import OUTPUT_RATE
from .tools import call_of_item

if TYPE_CHECKING:
    from duplex_sdk.plugin import DuplexCapabilities, DuplexModelPlugin
    from duplex_sdk.session.ids import IdSource

    from duplex_server.entrypoints import AsyncOmni
    from duplex_server.serving.metrics import ServingMetrics

    from .answer import ChatAnswer
    from .request import ChatRequest

__all__ = ["EngineChatCompletionsAdapter", "serves_requests"]

_PREPARE_TIMEOUT_S = 10.0


def serves_requests(omni: AsyncOmni, capabilities: DuplexCapabilities) -> bool:
    """Whether a model answers chat requests without a session, and has places for them."""
    declared = capabilities.supports_chat_completions and omni.pipeline.turn_requests
    return declared and omni.turn_request_places > 0


class EngineChatCompletionsAdapter(ChatCompletionsAdapter):
    """Gives each request to the stages as it is: no session, no slot.

    Args:
        omni: the engine.
        plugin: makes of a request what its stages are told.
        capabilities: of the plugin.
        metrics: counts what is refused.
        ids: where ids come from.
        max_body_bytes: longest request.
    """

    def __init__(
        self,
        omni: AsyncOmni,
        plugin: DuplexModelPlugin,
        capabilities: DuplexCapabilities,
        metrics: ServingMetrics,
        *,
        ids: IdSource,
        max_body_bytes: int,
    ) -> None:
        super().__init__((plugin.plugin_id,), metrics, ids=ids, max_body_bytes=max_body_bytes)
        self._omni = omni
        self._plugin = plugin
        self._capabilities = capabilities

    async def _ask(self, asked: ChatRequest) -> ChatAnswer:
        if asked.uses_tools and not self._capabilities.supports_tools:
            raise ChatRefusedError("unsupported", "this model calls no functions", param="tools")
        messages = self._messages(asked)
        # Minutes of sound take a while to be read.
        audio = await asyncio.to_thread(self._spoken, asked) if asked.is_spoken else None
        try:
            config = self._config(asked)
            runtime = await self._runtime(config)
            sampling = self._plugin.configure_sampling_params(
                runtime_config=runtime,
                defaults=tuple(stage.sampling for stage in self._omni.pipeline.stages),
            )
        except (DuplexConfigError, DuplexRuntimeConfigError) as error:
            raise ChatRefusedError(error.code, error.message, param=error.param) from error
        question = Question(
            messages, audio, config=config, runtime=runtime, sampling=tuple(sampling)
        )
        encoder = None
        if asked.audio is not None:
            rate = self._capabilities.output_sample_rate_hz
            encoder = OutputEncoder("pcm16", rate, OUTPUT_RATE)
        return EngineAnswer(
            self._omni.generate(question),
            encoder,
            refused=self._count_refusal,
            new_call_id=lambda: f"call_{self._ids.hex32()}",
        )

    def _config(self, asked: ChatRequest) -> Mapping[str, Any]:
        config = DuplexSessionConfig.from_realtime(
            asked.session, capabilities=self._capabilities, profile_defaults={}, lenient=True
        )
        return config.for_model(self._models[0]).for_stages("")

    async def _runtime(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            async with asyncio.timeout(_PREPARE_TIMEOUT_S):
                return await self._plugin.prepare_runtime_config(
                    MappingProxyType(config), model_config=self._plugin.options
                )
        except TimeoutError as error:
            raise ChatRefusedError("timeout", "the model's plugin did not answer") from error

    def _messages(self, asked: ChatRequest) -> tuple[Mapping[str, Any], ...]:
        """The conversation as a chat model reads it, without a spoken turn at its end."""
        messages: list[dict[str, Any]] = []
        for command in asked.commands:
            if not isinstance(command, CreateItem):
                continue
            item = command.item
            if item["type"] == "function_call":
                if not messages or messages[-1]["role"] != "assistant":
                    messages.append({"role": "assistant", "content": None})
                messages[-1].setdefault("tool_calls", []).append(call_of_item(item))
            elif item["type"] == "function_call_output":
                result = {"tool_call_id": item["call_id"], "content": item["output"]}
                messages.append({"role": "tool", **result})
            else:
                parts = [self._part(part) for part in item["content"]]
                messages.append({"role": item["role"], "content": parts})
        return tuple(messages)

    def _spoken(self, asked: ChatRequest) -> PcmChunk:
        """The turn to be answered, at the model's rate."""
        if not self._omni.pipeline.spoken_requests:
            raise ChatRefusedError(
                "unsupported", "this server answers written questions only", param="messages"
            )
        commits = sum(isinstance(each, Commit) for each in asked.commands)
        if commits != 1 or not isinstance(asked.commands[-1], Commit):
            raise ChatRefusedError(
                "unsupported", "only the last message may be spoken here", param="messages"
            )
        decoder = InputDecoder(self._capabilities.input_sample_rate_hz)
        try:
            decoded = [
                decoder.decode(each.audio, each.format or "", each.sample_rate_hz or 0)
                for each in asked.commands
                if isinstance(each, AppendAudio)
            ]
        except BadAudioError as error:
            raise ChatRefusedError("bad_audio", str(error), param="messages") from error
        whole = PcmChunk.join([*decoded, decoder.flush()])
        if whole is None:
            raise ChatRefusedError("bad_audio", "the question holds no sound", param="messages")
        return whole

    def _part(self, part: Mapping[str, Any]) -> dict[str, Any]:
        if part["type"] != "input_image":
            return {"type": "text", "text": part["text"]}
        if not self._capabilities.supports_image_input:
            raise ChatRefusedError("unsupported", "this model sees no pictures", param="messages")
        return {"type": "image_url", "image_url": {"url": part["image_url"]}}
