"""Which sessions a simulation opens: scripted models of every manner, or those of one plugin."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from msgspec.structs import replace as replace_field

from duplex_sdk.plugin import (
    DuplexCapabilities,
    DuplexDataPlane,
    DuplexModelPlugin,
    DuplexSessionConfig,
    ModelResult,
)
from duplex_sdk.stage import StageOutput
from duplex_sdk.testing.scripted.model import Scripted
from duplex_sdk.testing.session_lab import SessionLab, prepared
from duplex_sdk.testing.shared_models import SharedModels
from duplex_sdk.testing.strict_lab import StrictLab

__all__ = ["SCRIPTED_KINDS", "Kind", "kinds_of"]


@dataclass(frozen=True)
class Kind:
    """A way to be a session.

    Attributes:
        plugin: makes the model's light half; it is made once and shared.
        session: what its client asks for at the opening.
        lab: makes the bench of one session, as ``SessionLab`` does.
        plain: what the plugin prepares at the opening depends on nothing but the config, and is
            asked for once.
    """

    plugin: Callable[[], DuplexModelPlugin]
    session: Mapping[str, Any] = field(default_factory=dict)
    lab: Callable[..., SessionLab] = SessionLab
    plain: bool = False
    _configs: dict[str, DuplexSessionConfig] = field(default_factory=dict)
    _prepared: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    @cached_property
    def capabilities(self) -> DuplexCapabilities:
        """Of its plugin, asked once."""
        return self.plugin().capabilities(max_sessions=1)

    def config(self, policy: str) -> DuplexSessionConfig:
        """What its sessions open with, under a ``playback_commit_policy``; read once."""
        if policy not in self._configs:
            self._configs[policy] = DuplexSessionConfig.from_realtime(
                {**self.session, "playback_commit_policy": policy},
                capabilities=self.capabilities,
                profile_defaults={},
            )
        return self._configs[policy]

    def runtime_config(self, policy: str) -> Mapping[str, Any] | None:
        """What a plain plugin prepares under that policy; None: each session asks for itself."""
        if not self.plain:
            return None
        if policy not in self._prepared:
            self._prepared[policy] = prepared(self.plugin(), self.config(policy))
        return self._prepared[policy]


class _Early(Scripted):
    """Hears units before their commit."""

    early_input = True


class _Patient(Scripted):
    """Interrupted by sustained speech only."""

    def capabilities(self, *, max_sessions: int) -> DuplexCapabilities:
        known = super().capabilities(max_sessions=max_sessions)
        return replace(known, interrupt_policy="barge_in_on_sustained_speech")


class _Ears(_Patient):
    """Hears early, and is interrupted by sustained speech only, as a real local model."""

    early_input = True


class _Unstoppable(Scripted):
    """Can only be muted."""

    def capabilities(self, *, max_sessions: int) -> DuplexCapabilities:
        return replace(super().capabilities(max_sessions=max_sessions), cancel_effect="mutes")


class _Deaf(Scripted):
    """Cannot be interrupted."""

    def capabilities(self, *, max_sessions: int) -> DuplexCapabilities:
        return replace(super().capabilities(max_sessions=max_sessions), supports_barge_in=False)


class _WholeWords(DuplexDataPlane):
    """Words that are true only of the whole audio."""

    def project(self, output: StageOutput, *, state: Any, context: object) -> Iterable[ModelResult]:
        for result in super().project(output, state=state, context=context):
            yield replace_field(
                result, text_requires_complete_audio=True, audio_complete=result.end_of_turn
            )


class _Unaligned(Scripted):
    """Cannot say which words lie where in its audio."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(options)
        self.data_plane = _WholeWords()


class _Forgetful(Scripted):
    """Takes a new request for each turn."""

    def capabilities(self, *, max_sessions: int) -> DuplexCapabilities:
        known = super().capabilities(max_sessions=max_sessions)
        return replace(known, supports_core_resumable_request=False)


def _scripted(script: Mapping[str, Any], kind: type[Scripted] = Scripted, **session: Any) -> Kind:
    made: list[Scripted] = []

    def plugin() -> Scripted:
        if not made:
            made.append(kind({"script": dict(script)}))
        return made[0]

    return Kind(plugin, session, plain=True)


_SHORT = {"answers": [{"ms": 320}]}
"""As long as needed: every unit of an answer costs time."""

_COMMIT = {"turns": "commit", **_SHORT}
_TALKS = {
    "turns": "native",
    "unit_ms": 160,
    "at": [{"ms": 500, "say": {"delay_ms": 0, "ms": 640}}] * 3,
}
_VAD = {"type": "server_vad"}
_SUSTAINED = {
    "turn_detection": _VAD,
    "overlap_short_ack_ms": 400,
    "overlap_barge_in_ms": 600,
}
_G711 = {"output": {"format": {"type": "g711_ulaw"}}}
_LIMITED = {**_COMMIT, "limit_units": 500}

SCRIPTED_KINDS: Mapping[str, Kind] = {
    "manual": _scripted(_COMMIT),
    "unaligned": _scripted(_COMMIT, _Unaligned),
    "manual burst": _scripted({**_COMMIT, "pace": "burst"}),
    "ephemeral": _scripted(_COMMIT, _Forgetful),
    "uninterruptible": _scripted(_COMMIT, _Deaf),
    "limited": _scripted(_LIMITED),
    "detector": _scripted(_SHORT, turn_detection=_VAD),
    "detector, patient": _scripted(_SHORT, turn_detection={**_VAD, "interrupt_response": False}),
    "early": _scripted(_COMMIT, _Early),
    "early detector": _scripted(_SHORT, _Early, turn_detection=_VAD),
    "auto": _scripted(_COMMIT, auto_response=True),
    "native": _scripted({"turns": "native", "answers": [{"delay_ms": 0, "ms": 1200}]}),
    "native auto": _scripted(_TALKS, auto_response=True),
    "native mutes": _scripted(_TALKS, _Unstoppable, auto_response=True),
    "native detector": _scripted(_TALKS, auto_response=True, turn_detection=_VAD),
    "sustained": _scripted(_SHORT, _Patient, **_SUSTAINED),
    "sustained early": _scripted({"answers": [{"ms": 1600}]}, _Ears, **_SUSTAINED),
    "silent": _scripted({**_COMMIT, "answers": [None, {"ms": 300}]}),
    "tools": _scripted({**_COMMIT, "tools": {"name": "look", "turn": 1}}),
    "other rates": _scripted({**_COMMIT, "in_rate": 24_000, "out_rate": 16_000}, audio=_G711),
}


def kinds_of(
    plugin: DuplexModelPlugin,
    models: SharedModels | None = None,
    session: Mapping[str, Any] | None = None,
) -> Mapping[str, Kind]:
    """Every manner in which sessions of one plugin may be opened, and none may fail of itself.

    Args:
        plugin: whose.
        models: of its stages; None: they are loaded here, once for all sessions.
        session: what every client asks for.

    Raises:
        StageLoadError: a stage's model does not load.
    """
    capabilities = plugin.capabilities(max_sessions=1)
    manners: dict[str, dict[str, Any]] = {"as it is": {}, "auto": {"auto_response": True}}
    if not capabilities.supports_client_commit:
        manners = {"as it is": {}}
    if capabilities.supports_barge_in:
        manners["detector"] = {"turn_detection": _VAD}
    lab = partial(StrictLab, models or SharedModels.load(plugin.pipeline()))
    return {
        name: Kind(lambda: plugin, {**(session or {}), **manner}, lab)
        for name, manner in manners.items()
    }
