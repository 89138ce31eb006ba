"""The descriptor of the ``local`` plugin: listens and talks on a CPU, fetches nothing."""

from __future__ import annotations

from duplex_sdk.plugin import PluginOption, PluginSpec

__all__ = ["plugin"]

plugin = PluginSpec(
    name="local",
    api="1.0",
    factory="duplex_plugin_local.model:LocalPlugin",
    summary="listens and talks on a laptop CPU; English",
    licence="MIT (recogniser), Apache-2.0 (voice)",
    input_sample_rate=16_000,
    output_sample_rate=24_000,
    capabilities=frozenset(
        {
            "audio_truncate",
            "barge_in",
            "client_commit",
            "external_turn_signal",
            "input_append",
            "multi_session",
            "playback_ack",
            "session_lease",
            "session_resume",
            "text_only_turn",
        }
    ),
    voices=("heart",),
    options=(
        PluginOption(
            "llm",
            help="vllm:PATH: a chat model's folder, served by vLLM in a process of its own",
        ),
        PluginOption(
            "llm_url",
            help="OpenAI-compatible endpoint that writes the replies, such as "
            "http://127.0.0.1:11434/v1; without it built-in rules do",
        ),
        PluginOption("llm_model", help="the model's name at that endpoint"),
        PluginOption(
            "llm_key_env",
            default="DUPLEX_LLM_API_KEY",
            help="environment variable that holds the endpoint's key",
        ),
        PluginOption(
            "llm_timeout_s",
            type=float,
            default=20.0,
            help="longest silence of the endpoint before an apology is spoken",
        ),
    ),
    memory_bytes=350 << 20,
    max_sessions=24,
)
