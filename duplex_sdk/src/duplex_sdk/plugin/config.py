"""The configuration of one session: what is in force, and how a client changes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from duplex_sdk.protocol.duplex import (
    ANY_RATE_PROTOCOL,
    G711_FORMATS,
    G711_RATE,
    OPENAI_PROTOCOL,
    AudioFormat,
    RealtimeInputDefaults,
    RealtimeProtocolError,
)

from .config_errors import DuplexConfigError
from .format_merge import merged_format
from .public_session import (
    MAX_EXTRA_BYTES,
    MAX_SESSION_BYTES,
    client_fields,
    session_size,
    stage_fields,
)
from .session_fields import OVERLAP_POLICIES, PLAYBACK_POLICIES, SessionReader
from .turn_detection import TurnDetection

if TYPE_CHECKING:
    from .capabilities import DuplexCapabilities

__all__ = ["DuplexSessionConfig"]

VoiceInUse: TypeAlias = "Callable[[DuplexSessionConfig], str | None]"

LISTEN_ONLY = OVERLAP_POLICIES[0]
_NOTHING: Mapping[str, Any] = {}

# Fields that a running session cannot change, and the code that says so.
_FIXED = {
    "model": "model_update_unsupported",
    "ref_audio": "ref_audio_update_unsupported",
    "initial_user_text": "bad_event",
    "use_tts_template": "bad_event",
    "idle_timeout_s": "bad_event",
}


class DuplexSessionConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Everything in force for one session. Immutable: an update makes a new one.

    Attributes:
        model: served name; None until the session is opened.
        modalities: ``text``, ``audio`` or both, in the client's order.
        instructions: the system prompt.
        initial_user_text: opens the conversation as the user's first words.
        voice: its name; once the session is open, that of the voice really heard.
        ref_audio: reference voice, a data URL of audio.
        input_format: canonical name of the format an append has unless it says otherwise.
        input_sample_rate_hz: its rate; None: the model's own (8000 for G.711).
        response_format: canonical name of the output format.
        output_sample_rate_hz: its rate; None: the model's own (8000 for G.711).
        temperature: None: the model's own.
        speed: None: 1.
        max_tokens: None: no limit.
        use_tts_template: a switch for the model's prompt.
        auto_response: the model answers unasked.
        idle_timeout_s: silence of a socket, in seconds, that counts as a disconnect.
        overlap_policy: one of ``OVERLAP_POLICIES``.
        overlap_short_ack_ms: overlap speech up to this is an acknowledgement.
        overlap_barge_in_ms: overlap speech from this on interrupts.
        overlap_silence_rms: level, full scale 1, below which a chunk is silence.
        playback_commit_policy: when an answer enters history.
        turn_detection: the server's detector; None: none runs.
        announced_turn_detection: what the client is told; differs where the model itself does
            what a detector would.
        tools: function tools as the client gave them.
        tool_choice: None: not stated, as ``auto``.
        parallel_tool_calls, tracing, metadata, include, prompt, reasoning, truncation,
        transcription, noise_reduction: kept and shown as the client gave them.
        duplex_events: event types of ours this client asked for; ``("all",)`` for every one.
        extra_body: the plugin's own knobs.
        profile_defaults: session object a connection began from; where null leads back to.
    """

    model: str | None = None
    modalities: tuple[str, ...] = ("text", "audio")
    instructions: str | None = None
    initial_user_text: str | None = None
    voice: str | None = None
    ref_audio: str | None = None
    input_format: str = "pcm16"
    input_sample_rate_hz: int | None = None
    response_format: str = "pcm16"
    output_sample_rate_hz: int | None = None
    temperature: float | None = None
    speed: float | None = None
    max_tokens: int | None = None
    use_tts_template: bool = True
    auto_response: bool = False
    idle_timeout_s: float = 300.0
    overlap_policy: str = LISTEN_ONLY
    overlap_short_ack_ms: int = 700
    overlap_barge_in_ms: int = 1200
    overlap_silence_rms: float = 0.003
    playback_commit_policy: Literal["commit_all_on_done", "ack_only"] = "commit_all_on_done"
    turn_detection: TurnDetection | None = None
    announced_turn_detection: TurnDetection | None = None
    tools: tuple[dict[str, Any], ...] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    tracing: str | dict[str, Any] | None = None
    metadata: dict[str, str] | None = None
    include: Any = None
    prompt: Any = None
    reasoning: Any = None
    truncation: Any = None
    transcription: dict[str, Any] | None = None
    noise_reduction: dict[str, Any] | None = None
    duplex_events: tuple[str, ...] | None = None
    extra_body: Mapping[str, Any] = msgspec.field(default_factory=dict)
    profile_defaults: Mapping[str, Any] = msgspec.field(default_factory=dict)

    @classmethod
    def from_realtime(
        cls,
        session: Mapping[str, Any],
        *,
        capabilities: DuplexCapabilities,
        profile_defaults: Mapping[str, Any] = _NOTHING,
        lenient: bool = False,
    ) -> DuplexSessionConfig:
        """The configuration a session opens with.

        What the client says goes before what the plugin prefers (``session_defaults``), that
        before the profile's defaults.

        Args:
            session: the client's session object; may be empty.
            capabilities: the model's.
            profile_defaults: a session object in wire spelling.
            lenient: OpenAI's own formats only, names nobody knows are dropped, null is allowed
                anywhere, ``semantic_vad`` runs as ``server_vad``.

        Raises:
            DuplexConfigError: the first problem, in the order formats, turn detection,
                ``extra_body``, the rest.
        """
        base = _defaults(capabilities, profile_defaults, lenient=lenient)
        update = _Update(
            base, base, session, "invalid_session_config", capabilities, lenient=lenient
        )
        return update.apply(running=None)

    def updated(
        self,
        patch: Mapping[str, Any],
        *,
        audio_started: bool,
        context_locked: bool,
        capabilities: DuplexCapabilities,
        lenient: bool = False,
        voice_in_use: VoiceInUse | None = None,
    ) -> DuplexSessionConfig:
        """The configuration after an update; this one stays as it is, also when it is refused.

        Absent keys keep their value, nested objects merge key by key, null resets.

        Args:
            patch: the client's session object.
            audio_started: the session has produced audio, so the voice is settled.
            context_locked: the model's context is built, so the instructions are settled.
            capabilities: the model's.
            lenient: as in ``from_realtime``; what is settled keeps its value instead of being
                refused.
            voice_in_use: the voice that the model has with a configuration; None: the one named.

        Raises:
            DuplexConfigError: the first problem, as in ``from_realtime``; then what cannot
                change any more.
        """
        defaults = _defaults(capabilities, self.profile_defaults, lenient=lenient)
        update = _Update(self, defaults, patch, "bad_event", capabilities, lenient=lenient)
        settled = _Settled(voice=audio_started, instructions=context_locked)
        return update.apply(running=settled, voice_in_use=voice_in_use)

    def keeping(self, previous: DuplexSessionConfig, *names: str) -> DuplexSessionConfig:
        """This configuration with some fields as another one has them."""
        return msgspec.structs.replace(self, **{name: getattr(previous, name) for name in names})

    def with_voice(self, name: str | None) -> DuplexSessionConfig:
        """This configuration with the voice that is really heard."""
        return self if name == self.voice else msgspec.structs.replace(self, voice=name)

    def for_model(self, name: str) -> DuplexSessionConfig:
        """This configuration with the served model filled in where the client named none."""
        return self if self.model is not None else msgspec.structs.replace(self, model=name)

    def normalized(self) -> DuplexSessionConfig:
        """This configuration with every figure in range; a second call changes nothing."""
        policy = self.overlap_policy if self.overlap_policy in OVERLAP_POLICIES else LISTEN_ONLY
        playback = self.playback_commit_policy
        return msgspec.structs.replace(
            self,
            overlap_policy=policy,
            overlap_short_ack_ms=max(0, self.overlap_short_ack_ms),
            overlap_barge_in_ms=max(0, self.overlap_barge_in_ms),
            overlap_silence_rms=max(0.0, self.overlap_silence_rms),
            playback_commit_policy=playback
            if playback in PLAYBACK_POLICIES
            else PLAYBACK_POLICIES[0],
            announced_turn_detection=self.announced_turn_detection or self.turn_detection,
        )

    @property
    def return_stage_metrics(self) -> bool:
        """Whether each response ends with its per-stage timing."""
        return self.extra_body.get("return_stage_metrics") is True

    def input_defaults(self, capabilities: DuplexCapabilities) -> RealtimeInputDefaults:
        """What an append that says nothing of its audio is taken to hold."""
        return RealtimeInputDefaults(
            format=self.input_format,
            rate=self.input_sample_rate_hz,
            native_rate=capabilities.input_sample_rate_hz,
        )

    def output_rate(self, capabilities: DuplexCapabilities) -> int:
        """Hz at which answers are sent."""
        if self.output_sample_rate_hz is not None:
            return self.output_sample_rate_hz
        is_g711 = self.response_format in G711_FORMATS
        return G711_RATE if is_g711 else capabilities.output_sample_rate_hz

    def for_stages(self, session_id: str) -> dict[str, Any]:
        """The configuration as the plugin and its stages see it: a fresh dict of JSON values."""
        return stage_fields(self, session_id)

    def public(
        self,
        *,
        session_id: str,
        capabilities: DuplexCapabilities,
        state: str,
        turn_state: str,
        epoch: int,
        turn_id: int,
        playback: Mapping[str, Any],
        active_request_id: str | None = None,
        active_response_id: str | None = None,
        active_response_turn_id: int | None = None,
        expires_at: int | None = None,
    ) -> dict[str, Any]:
        """The session object as clients see it: what is in force, in GA names, and its state.

        Returns:
            A fresh dict of JSON values, without ``extra_body`` and the reference voice.
        """
        return {
            "id": session_id,
            "object": "realtime.session",
            **client_fields(self, capabilities),
            "expires_at": expires_at,
            "state": state,
            "turn_state": turn_state,
            "epoch": epoch,
            "turn_id": turn_id,
            "active_request_id": active_request_id,
            "active_response_id": active_response_id,
            "active_response_turn_id": active_response_turn_id,
            "playback": dict(playback),
            "capabilities": capabilities.as_dict(),
        }


class _Settled(msgspec.Struct, frozen=True):
    """What a running session can no longer change."""

    voice: bool
    instructions: bool


class _Update:
    """One session object on its way into a configuration. Nothing is changed but ``changes``."""

    def __init__(
        self,
        base: DuplexSessionConfig,
        defaults: DuplexSessionConfig,
        session: Mapping[str, Any],
        code: str,
        capabilities: DuplexCapabilities,
        *,
        lenient: bool,
    ) -> None:
        protocol = OPENAI_PROTOCOL if lenient else ANY_RATE_PROTOCOL
        self._protocol = protocol
        self._base = base
        self._defaults = defaults
        self._capabilities = capabilities
        self._lenient = lenient
        self._code = code
        self._reader = SessionReader(session, code=code, protocol=protocol, lenient=lenient)
        self._changes: dict[str, Any] = {}

    def apply(
        self, *, running: _Settled | None, voice_in_use: VoiceInUse | None = None
    ) -> DuplexSessionConfig:
        try:
            self._formats()
            detection_mentioned, param = self._turn_detection()
            self._extra_body()
            fields = self._reader.other_fields()
        except RealtimeProtocolError as error:
            raise DuplexConfigError(error.code, error.message, param=error.param) from None
        self._fields(fields)
        self._overlap_policy(fields, detection_mentioned, param)
        if voice_in_use is not None:
            # Before it is compared: two names of one voice are no change.
            wanted = msgspec.structs.replace(self._base, **self._changes)
            self._changes["voice"] = voice_in_use(wanted)
        if running is not None:
            self._check_settled(running)
        self._manner()
        config = msgspec.structs.replace(self._base, **self._changes)
        if session_size(config, self._capabilities) > MAX_SESSION_BYTES:
            raise DuplexConfigError("event_too_large", "the session object is too large to answer")
        return config

    def _formats(self) -> None:
        heard = self._reader.input_format()
        before = AudioFormat(self._base.input_format, self._base.input_sample_rate_hz)
        merged = self._with_pcm_rate(merged_format(before, heard))
        self._changes |= {"input_format": merged.name, "input_sample_rate_hz": merged.rate}
        spoken = self._reader.output_format()
        before = AudioFormat(self._base.response_format, self._base.output_sample_rate_hz)
        merged = self._with_pcm_rate(merged_format(before, spoken))
        self._changes |= {"response_format": merged.name, "output_sample_rate_hz": merged.rate}

    def _with_pcm_rate(self, chosen: AudioFormat) -> AudioFormat:
        only = self._protocol.pcm_rate
        return AudioFormat("pcm16", only) if chosen.name == "pcm16" and only else chosen

    def _turn_detection(self) -> tuple[bool, str]:
        mentioned, value, param = self._reader.turn_detection()
        if mentioned:
            announced = TurnDetection.parse(
                value,
                base=self._base.announced_turn_detection or self._base.turn_detection,
                plugin_figures=_plugin_figures(self._capabilities),
                lenient=self._lenient,
                param=param,
            )
            self._detect(announced, param)
        return mentioned, param

    def _detect(self, announced: TurnDetection | None, param: str) -> None:
        effective = announced
        if announced is not None and not self._capabilities.supports_barge_in:
            if not self._lenient:
                raise DuplexConfigError(
                    "unsupported_turn_detection", "this model cannot be interrupted", param=param
                )
            # The model itself answers and gives way: that is what the client is told.
            effective = None
            announced = msgspec.structs.replace(
                announced, create_response=True, interrupt_response=True
            )
        self._changes |= {"turn_detection": effective, "announced_turn_detection": announced}

    def _extra_body(self) -> None:
        merged = {**self._base.extra_body, **self._reader.extra_body()}
        kept = {name: value for name, value in merged.items() if value is not None}
        if kept and len(msgspec.json.encode(kept)) > MAX_EXTRA_BYTES:
            raise DuplexConfigError(
                "event_too_large", "there is too much in extra_body", param="extra_body"
            )
        self._changes["extra_body"] = kept

    def _fields(self, fields: Mapping[str, Any]) -> None:
        for name, value in fields.items():
            if name == "max_tokens" or value is not None:
                self._changes[name] = value
            else:
                self._changes[name] = getattr(self._defaults, name)

    def _overlap_policy(
        self, fields: Mapping[str, Any], detection_mentioned: bool, param: str
    ) -> None:
        stated = fields.get("overlap_policy")
        if stated is None:
            if detection_mentioned or "overlap_policy" in fields:
                self._changes["overlap_policy"] = self._derived_policy()
            return
        derived = self._derived_policy()
        if (stated == LISTEN_ONLY) == (derived == LISTEN_ONLY):
            return
        if not self._lenient:
            raise DuplexConfigError(
                "unsupported_turn_detection",
                "overlap_policy and turn_detection contradict each other",
                param=param,
            )
        self._changes["overlap_policy"] = derived

    def _derived_policy(self) -> str:
        detection = self._changes.get("turn_detection", self._base.turn_detection)
        interrupts = detection is not None and detection.interrupt_response
        return self._capabilities.interrupt_policy if interrupts else LISTEN_ONLY

    def _manner(self) -> None:
        """Whether it answers unasked: only a request that goes on can hear all the time."""
        able = self._capabilities
        if not able.supports_client_commit:
            self._changes["auto_response"] = True
        elif self._changes.get("auto_response") and not able.supports_core_resumable_request:
            if not self._lenient:
                raise DuplexConfigError(
                    "unsupported", "this model answers committed turns only", param="auto_response"
                )
            self._changes["auto_response"] = False

    def _check_settled(self, settled: _Settled) -> None:
        fixed = dict(_FIXED)
        if settled.instructions:
            fixed["instructions"] = "instructions_update_unsupported"
        if settled.voice:
            fixed["voice"] = "voice_update_after_audio_unsupported"
        for name, code in fixed.items():
            if self._changes.get(name, getattr(self._base, name)) == getattr(self._base, name):
                continue
            if not self._lenient and not self._names_no_model(name):
                raise DuplexConfigError(code, f"{name} can no longer change", param=name)
            del self._changes[name]

    def _names_no_model(self, name: str) -> bool:
        return name == "model" and self._changes["model"] is None


def _plugin_figures(capabilities: DuplexCapabilities) -> Mapping[str, Any]:
    figures: Mapping[str, Any] = capabilities.session_defaults.get("turn_detection") or {}
    return figures


def _defaults(
    capabilities: DuplexCapabilities, profile_defaults: Mapping[str, Any], *, lenient: bool
) -> DuplexSessionConfig:
    """What holds before the client says anything."""
    builtin = DuplexSessionConfig(profile_defaults=profile_defaults)
    profile = _Update(
        builtin, builtin, profile_defaults, "invalid_session_config", capabilities, lenient=lenient
    ).apply(running=None)
    preferred = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in capabilities.session_defaults.items()
        if name != "turn_detection"
    }
    return msgspec.structs.replace(profile, **preferred)
