"""The light half: how PersonaPlex fits a session. Imports no model library."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping

from duplex_sdk.plugin import (
    DuplexCapabilities,
    DuplexModelPlugin,
    DuplexModelSessionState,
    DuplexRuntimeConfigError,
)
from duplex_sdk.stage import Json, PipelineConfig, StageConfig

from .clip import voice_upload
from .figures import (
    FRAME_MS,
    FRAME_SAMPLES,
    MAX_PROMPT_FRAMES,
    MAX_SESSION_S,
    RATE,
    SPACER_FRAMES,
)
from .sampling import SAMPLING_DEFAULTS, SAMPLING_KEYS, require_seed, sampling_of
from .utterances import PersonaPlexSessionState, UtteranceDataPlane
from .voices import BUNDLED_VOICES, is_voice_name, own_voice, voices_here

__all__ = ["MAX_ROLE_CHARACTERS", "PersonaPlexPlugin", "role_room"]

MAX_ROLE_CHARACTERS = 1000
# English has more of them; the worker counts tokens and has the last word.
_CHARACTERS_PER_TOKEN = 4
_WEIGHTS_BYTES = 16 << 30
_SLOT_BYTES = 1_600_000_000

# The others are the engine's own; it takes them whatever the model is.
_KNOWN_KEYS = SAMPLING_KEYS | {"seed", "force_listen_count", "return_stage_metrics"}


def role_room(clip: bytes | None) -> int:
    """Characters that a role may have beside a recording of a voice, and beside any other voice."""
    if clip is None:
        return MAX_ROLE_CHARACTERS
    frames = -(-len(clip) // (4 * FRAME_SAMPLES))
    left = MAX_PROMPT_FRAMES - 2 * SPACER_FRAMES - frames
    return min(MAX_ROLE_CHARACTERS, _CHARACTERS_PER_TOKEN * left)


class PersonaPlexPlugin(DuplexModelPlugin):
    """One stage that hears a frame and says a frame; the model decides when to speak.

    Voice and role are settled when the first frame of a session arrives; sampling may change at
    any time. A cancel mutes what the model is saying: it cannot be stopped.
    """

    data_plane = UtteranceDataPlane()
    private_runtime_config_keys = frozenset({"voice", "role", "clip"})

    def __init__(self, options: Mapping[str, Json]) -> None:
        """Take the resolved options of the descriptor.

        Raises:
            ValueError: an option that cannot work, named in the message.
        """
        super().__init__(options)
        for name in ("slots", "prefill_frames"):
            if options[name] < 1:
                raise ValueError(f"{name} must be at least 1; got {options[name]}")
        if not is_voice_name(options["voice"]):
            raise ValueError(f"voice must be a name, not a path; got {options['voice']!r}")
        self._voices = voices_here(options["voice_dir"])
        if self._voices is not None and options["voice"] not in self._voices:
            raise ValueError(f"voice must be one of {', '.join(self._voices)}")
        if len(options["role"] or "") > MAX_ROLE_CHARACTERS:
            raise ValueError(f"role must have at most {MAX_ROLE_CHARACTERS} characters")
        self._drifts = options["window_policy"] == "drift"

    def capabilities(self, *, max_sessions: int) -> DuplexCapabilities:
        """A model that takes its own turns, for as long as its window unless it may drift."""
        return DuplexCapabilities.native(
            supports_client_commit=False,
            supports_external_turn_signal=False,
            supports_barge_in=False,
            supports_multi_session=True,
            signal_sources=("model_native",),
            chunk_period_ms=FRAME_MS,
            input_sample_rate_hz=RATE,
            output_sample_rate_hz=RATE,
            target_barge_in_latency_ms=None,
            cancel_effect="mutes",
            max_session_s=None if self._drifts else MAX_SESSION_S,
        )

    def pipeline(self) -> PipelineConfig:
        """The frame stage, in a process of its own where there is a choice."""
        slots = int(self.options["slots"])
        stage = StageConfig(
            id="frames",
            model="duplex_plugin_personaplex.runtime.stage:FrameStage",
            backends=("process", "inline", "ray"),
            max_batch=slots,
            memory_bytes=0,  # depends on the checkpoint: the stage reckons it from the files
            options=dict(self.options),
            sampling=dict(SAMPLING_DEFAULTS),
        )
        return PipelineConfig(stages=(stage,))

    def create_session_state(self) -> DuplexModelSessionState:
        """A buffer of frames, and the gate between speech and silence."""
        return PersonaPlexSessionState()

    def validate_client_extra_body(self, extra_body: Mapping[str, Json] | None) -> None:
        """Refuse knobs that would do nothing.

        Raises:
            DuplexRuntimeConfigError: an unknown key, or a value that cannot be.
        """
        if not isinstance(extra_body, Mapping):
            return
        unknown = sorted(set(extra_body) - _KNOWN_KEYS)
        if unknown:
            raise DuplexRuntimeConfigError(
                "invalid_duplex_runtime_config",
                f"PersonaPlex knows no {unknown[0]!r}",
                param=f"session.extra_body.{unknown[0]}",
                hint=f"it knows {', '.join(sorted(SAMPLING_KEYS))} and seed",
            )
        sampling_of(extra_body, SAMPLING_DEFAULTS)
        require_seed(extra_body)

    async def prepare_runtime_config(
        self, config: Mapping[str, Json], *, model_config: Mapping[str, Json]
    ) -> Mapping[str, Json]:
        """Voice, role and sampling of a session; an uploaded voice is prepared off the loop.

        Raises:
            DuplexRuntimeConfigError: a voice or a role that cannot be.
        """
        clip: bytes | None = None
        upload = config.get("ref_audio")
        if upload:
            if config.get("voice"):
                raise DuplexRuntimeConfigError(
                    "invalid_duplex_runtime_config",
                    "name a voice or bring one; both at once is one too many",
                    param="session.ref_audio",
                )
            loop = asyncio.get_running_loop()
            voice = await loop.run_in_executor(None, functools.partial(voice_upload, upload))
            clip = voice.data
        return self._chosen(config, clip)

    def runtime_config_for_update(
        self, config: Mapping[str, Json], current: Mapping[str, Json], *, started: bool
    ) -> Mapping[str, Json]:
        """The same again; once the prompt is made, voice and role stay.

        Raises:
            DuplexRuntimeConfigError: a change that comes too late, or a value that cannot be.
        """
        runtime = self._chosen(config, current.get("clip"))
        if "clip" in current:
            if config.get("voice"):
                raise DuplexRuntimeConfigError(
                    "voice_update_unsupported",
                    "this session speaks with the voice that it brought",
                    param="session.voice",
                )
        elif started and runtime["voice"] != current.get("voice"):
            raise DuplexRuntimeConfigError(
                "voice_update_after_audio_unsupported",
                "the voice is settled once the first audio has arrived",
                param="session.voice",
            )
        if started and runtime["role"] != current.get("role"):
            raise DuplexRuntimeConfigError(
                "instructions_update_unsupported",
                "the role is settled once the first audio has arrived",
                param="session.instructions",
            )
        return runtime

    def voice_in_use(self, config: Mapping[str, Json]) -> str | None:
        """Our name of the voice named, or of the usual one; none for one that a client brought."""
        named = config.get("voice")
        if named:
            return own_voice(str(named))
        return None if config.get("ref_audio") else str(self.options["voice"])

    def configure_sampling_params(
        self, *, runtime_config: Mapping[str, Json], defaults: tuple[Mapping[str, Json], ...]
    ) -> tuple[Mapping[str, Json], ...]:
        """What the session asks for, over the stage's own."""
        asked = runtime_config.get("sampling") or {}
        return tuple(sampling_of(asked, stage) for stage in defaults)

    def _chosen(self, config: Mapping[str, Json], clip: bytes | None) -> dict[str, Json]:
        role = config.get("instructions") or self.options["role"] or ""
        room = role_room(clip)
        if len(role) > room:
            raise DuplexRuntimeConfigError(
                "invalid_duplex_runtime_config",
                f"the role has {len(role)} characters; there is room for {room}",
                param="session.instructions",
            )
        extra_body = config.get("extra_body") or {}
        chosen = {
            "voice": self._voice(config.get("voice")),
            "role": role,
            "sampling": {key: extra_body[key] for key in SAMPLING_KEYS & set(extra_body)},
        }
        return chosen if clip is None else {**chosen, "clip": clip}

    def _voice(self, asked: Json) -> str:
        if not asked:
            return str(self.options["voice"])
        name = own_voice(asked)
        if is_voice_name(name) and (self._voices is None or name in self._voices):
            return name
        raise DuplexRuntimeConfigError(
            "invalid_duplex_runtime_config",
            f"PersonaPlex has no voice {asked!r}",
            param="session.voice",
            hint=f"its voices: {', '.join(self._voices or BUNDLED_VOICES)}",
        )
