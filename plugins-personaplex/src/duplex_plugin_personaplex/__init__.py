"""The descriptor of the ``personaplex`` plugin: hears and speaks in every frame of 80 ms."""

from __future__ import annotations

from duplex_sdk.plugin import PluginOption, PluginSpec

from .voices import BUNDLED_VOICES, DEFAULT_VOICE

__all__ = ["DEFAULT_ROLE", "plugin"]

DEFAULT_ROLE = (
    "You are a wise and friendly teacher. Answer questions or provide advice in a clear and"
    " engaging way."
)
"""The role the model's makers show it with."""

plugin = PluginSpec(
    name="personaplex",
    api="1.0",
    factory="duplex_plugin_personaplex.model:PersonaPlexPlugin",
    summary="PersonaPlex 7B: full-duplex speech with a voice and a role; English; one GPU",
    licence="NVIDIA Open Model License (gated), CC-BY-4.0 (Moshi base)",
    input_sample_rate=24_000,
    output_sample_rate=24_000,
    capabilities=frozenset(
        {"input_append", "model_native_turn_policy", "multi_session", "playback_ack"}
    ),
    voices=BUNDLED_VOICES,
    options=(
        PluginOption(
            "checkpoint",
            default="nvidia/personaplex-7b-v1",
            help="folder of the checkpoint, or its hub id",
        ),
        PluginOption(
            "slots",
            type=int,
            default=2,
            help="callers at once; each takes 1.6 GB of GPU memory besides the weights",
        ),
        PluginOption("voice", default=DEFAULT_VOICE, help="voice of callers who name none"),
        PluginOption(
            "voice_dir", help="folder of your own voices on the server: NAME.wav or NAME.pt"
        ),
        PluginOption(
            "role", default=DEFAULT_ROLE, help="role text of callers who send no instructions"
        ),
        PluginOption(
            "window_policy",
            default="end_session",
            choices=("end_session", "drift"),
            help="when the 240 s window is full: end the session, or go on while the role fades",
        ),
        PluginOption(
            "dtype",
            default="auto",
            choices=("auto", "bfloat16", "float16", "float32"),
            help="precision of the weights; auto: bfloat16 on a GPU, float32 on a CPU",
        ),
        PluginOption(
            "prefill_frames",
            type=int,
            default=32,
            help="frames of a caller's prompt computed between two frames of the others",
        ),
    ),
    memory_bytes=19 << 30,
    max_sessions=2,
)
