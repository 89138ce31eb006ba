"""What a model can do: the record that clients branch on, and a few figures for the engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from .read_only import ReadOnlyDict

if TYPE_CHECKING:
    from duplex_sdk.stage import Json

__all__ = ["SUPPORT_NAMES", "DuplexCapabilities"]

_ENGINE_ONLY = frozenset(
    {
        "supports_core_resumable_request",
        "supports_chat_completions",
        "text_turn_priming_units",
        "session_defaults",
    }
)
_MODALITIES = frozenset({"audio", "video"})
_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplexCapabilities:
    """What a model can do, constant for a process.

    A client sees all fields but the last four, which are the engine's own.

    Attributes:
        supports_model_native_turn_policy: the model decides when to listen and when to speak.
        supports_input_append: streamed input.
        supports_client_commit: the client may end the input of a turn.
        supports_external_turn_signal: the client may signal turns by itself.
        supports_barge_in: user speech may interrupt.
        supports_playback_ack: the client may say how much was heard.
        supports_audio_truncate: an answer may be cut to what was heard.
        supports_session_resume: a new socket may take the session.
        supports_session_lease: a heartbeat extends the session.
        supports_multi_session: more than one session at a time.
        supports_image_input: images in conversation items.
        supports_text_only_turn: an answer without any audio input.
        supports_tools: function calls.
        supports_out_of_band_responses: answers outside the conversation.
        supports_concurrent_turn_requests: a commit is taken while older speech still drains.
        required_input_modalities: what each append must carry.
        optional_input_modalities: what it may carry besides.
        input_modes: how input comes.
        signal_sources: who may signal turns.
        chunk_period_ms: length of one model unit; None: the model has none.
        input_sample_rate_hz: what the model hears.
        output_sample_rate_hz: what the model speaks.
        target_barge_in_latency_ms: information only.
        cancel_effect: ``mutes``: the model cannot be stopped, only be unheard.
        interrupt_policy: the overlap policy that interrupting turn detection means.
        max_session_s: the longest session the model can hold; None: any length.
        supports_core_resumable_request: one resident stage request takes all units of an epoch.
        supports_chat_completions: the model also serves requests without a session.
        text_turn_priming_units: silent units that go before a turn of text alone.
        session_defaults: config the model prefers when the client says nothing.
    """

    supports_model_native_turn_policy: bool = True
    supports_input_append: bool = True
    supports_client_commit: bool = True
    supports_external_turn_signal: bool = True
    supports_barge_in: bool = True
    supports_playback_ack: bool = True
    supports_audio_truncate: bool = False
    supports_session_resume: bool = False
    supports_session_lease: bool = False
    supports_multi_session: bool = False
    supports_image_input: bool = False
    supports_text_only_turn: bool = False
    supports_tools: bool = False
    supports_out_of_band_responses: bool = False
    supports_concurrent_turn_requests: bool = False
    required_input_modalities: tuple[str, ...] = ("audio",)
    optional_input_modalities: tuple[str, ...] = ("video",)
    input_modes: tuple[str, ...] = ("append_audio_chunk",)
    signal_sources: tuple[str, ...] = ("client_event", "server_policy", "model_native")
    chunk_period_ms: int | None = 1000
    input_sample_rate_hz: int = 16_000
    output_sample_rate_hz: int = 24_000
    target_barge_in_latency_ms: int | None = 1000
    cancel_effect: Literal["stops", "mutes"] = "stops"
    interrupt_policy: Literal["barge_in_on_speech", "barge_in_on_sustained_speech"] = (
        "barge_in_on_speech"
    )
    max_session_s: float | None = None
    supports_core_resumable_request: bool = True
    supports_chat_completions: bool = False
    text_turn_priming_units: int = 0
    session_defaults: Mapping[str, Json] = field(default_factory=lambda: _NOTHING, hash=False)

    def __post_init__(self) -> None:
        unknown = self.accepted_modalities - _MODALITIES
        if unknown:
            raise ValueError(f"no such input modality: {', '.join(sorted(unknown))}")
        for name in ("input_sample_rate_hz", "output_sample_rate_hz"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be above zero")
        for name in ("chunk_period_ms", "max_session_s"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ValueError(f"{name} must be above zero, or None")
        if self.text_turn_priming_units < 0:
            raise ValueError("text_turn_priming_units must not be negative")

    @classmethod
    def turn_based(cls, **changes: Any) -> DuplexCapabilities:
        """The usual record of a model whose turns the server ends.

        It takes audio only and has no unit of its own; history, resume and lease are the engine's
        work, so they are on. ``changes`` are fields of this class.
        """
        usual: dict[str, Any] = {
            "supports_model_native_turn_policy": False,
            "supports_audio_truncate": True,
            "supports_session_resume": True,
            "supports_session_lease": True,
            "optional_input_modalities": (),
            "signal_sources": ("client_event", "server_policy"),
            "chunk_period_ms": None,
            "target_barge_in_latency_ms": None,
        }
        return cls(**{**usual, **changes})

    @classmethod
    def native(cls, **changes: Any) -> DuplexCapabilities:
        """The usual record of a model that decides by itself when to speak.

        It takes audio only, in units of ``chunk_period_ms``. ``changes`` are fields of this class.
        """
        usual: dict[str, Any] = {"optional_input_modalities": ()}
        return cls(**{**usual, **changes})

    @property
    def implementation_level(self) -> Literal["model_native_duplex", "turn_based_duplex"]:
        """Who decides about turns, in the word that clients read."""
        native = self.supports_model_native_turn_policy
        return "model_native_duplex" if native else "turn_based_duplex"

    @property
    def accepted_modalities(self) -> frozenset[str]:
        """What an append may carry at all."""
        return frozenset(self.required_input_modalities) | frozenset(self.optional_input_modalities)

    @property
    def supported(self) -> frozenset[str]:
        """The true ``supports_*`` that a client sees, without the prefix; as descriptors say it."""
        return frozenset(name for name in SUPPORT_NAMES if getattr(self, f"supports_{name}"))

    @property
    def unit_samples(self) -> int | None:
        """Samples of one unit at the input rate; None without a unit."""
        if self.chunk_period_ms is None:
            return None
        return self.input_sample_rate_hz * self.chunk_period_ms // 1000

    def as_dict(self) -> dict[str, Any]:
        """What a client sees: JSON values, modality sets sorted.

        One for all sessions: read-only, and nobody may change what is in it.
        """
        return _shown(self)

    def _as_clients_see_it(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"implementation_level": self.implementation_level}
        for item in fields(self):
            if item.name in _ENGINE_ONLY:
                continue
            value = getattr(self, item.name)
            shown[item.name] = list(value) if isinstance(value, tuple) else value
        for name in ("required_input_modalities", "optional_input_modalities"):
            shown[name] = sorted(set(shown[name]))
        return shown

    def validate_append_modalities(self, has_audio: bool, has_video: bool) -> str | None:
        """Whether an append may carry this; None: yes, else what is wrong with it."""
        if has_audio and not has_video and self.required_input_modalities == ("audio",):
            # Nearly every append of nearly every model: the sets below take 4 us.
            return None
        present = {name for name, there in (("audio", has_audio), ("video", has_video)) if there}
        required = set(self.required_input_modalities)
        if not present:
            return "an append must carry audio or video"
        refused = sorted(present - self.accepted_modalities)
        if refused:
            return f"this model takes no {' and no '.join(refused)} input"
        missing = sorted(required - present)
        if missing:
            return f"this model needs {' and '.join(missing)} in every append"
        return None


@lru_cache(maxsize=64)
def _shown(capabilities: DuplexCapabilities) -> ReadOnlyDict:
    return ReadOnlyDict(capabilities._as_clients_see_it())


SUPPORT_NAMES = frozenset(
    item.name.removeprefix("supports_")
    for item in fields(DuplexCapabilities)
    if item.name.startswith("supports_") and item.name not in _ENGINE_ONLY
)
