"""``ModelConformance``: what an author subclasses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np

from duplex_sdk.audio import PcmChunk
from duplex_sdk.plugin import PluginSpec
from duplex_sdk.stage import Json

from .buffer_laws import BufferLaws
from .config_laws import ConfigLaws
from .descriptor_laws import DescriptorLaws
from .engine_laws import EngineLaws
from .isolation_laws import IsolationLaws
from .lease_laws import LeaseLaws
from .limit_laws import LimitLaws
from .packing_laws import PackingLaws
from .policy_laws import PolicyLaws
from .request_laws import RequestLaws
from .session_laws import SessionLaws
from .soak_laws import SoakLaws
from .stage_laws import StageLaws
from .subject import Settings, Subject

__all__ = ["ModelConformance"]

_RATE = 16_000


# The last base comes first when pytest collects.
class ModelConformance(
    EngineLaws,
    SoakLaws,
    LimitLaws,
    LeaseLaws,
    SessionLaws,
    IsolationLaws,
    PackingLaws,
    RequestLaws,
    StageLaws,
    ConfigLaws,
    PolicyLaws,
    BufferLaws,
    DescriptorLaws,
    ABC,
):
    """The laws of the plugin contract, as tests.

    Subclass it, say which plugin, run pytest::

        class TestEcho(ModelConformance):
            @property
            def spec(self) -> PluginSpec:
                return plugin

    Only ``spec`` must be written. What the plugin does not claim is skipped, with the reason. A law
    that the plugin breaks knowingly is overridden, marked ``xfail`` with a reason, and calls its
    ``super()``; dropping one in any other way is an error.
    """

    @property
    @abstractmethod
    def spec(self) -> PluginSpec:
        """The descriptor of the plugin under test."""

    @property
    def options(self) -> Mapping[str, Json]:
        """Options of the plugin for the run, such as a small stand-in for the weights."""
        return {}

    @property
    def session(self) -> Mapping[str, Json]:
        """The session object of all sessions, as a client would send it."""
        return {}

    @property
    def turns(self) -> tuple[PcmChunk, ...]:
        """What users say, each turn different: by default humming; a recogniser needs speech."""
        return tuple(_hum(600 + 200 * number, 140.0 + 30 * number) for number in range(3))

    @property
    def answers_within_s(self) -> float:
        """How long to wait for an answer to end, in seconds of the virtual clock."""
        return 10.0

    @property
    def audio_tolerance(self) -> float:
        """How much two samples may differ that should be the same; full scale is 1.0."""
        return 1e-3

    @property
    def tools(self) -> tuple[Mapping[str, Json], ...]:
        """Functions that sessions of the laws about tools declare, as a client would."""
        parameters = {"type": "object", "properties": {"place": {"type": "string"}}}
        return ({"type": "function", "name": "look", "parameters": parameters},)

    @property
    def calling_turn(self) -> int | None:
        """Which of ``turns``, from 0, makes the model call one of ``tools``; None: none does."""
        return None

    @property
    def longest_turn_s(self) -> float:
        """How long the monologue is that the model must bear, in seconds."""
        return 20.0

    @property
    def cancel_points(self) -> int:
        """At how many points of an answer, spread over it, it is cancelled or its session closed.

        Each costs a turn or two: fewer make the run of a slow model shorter.
        """
        return 8

    @property
    def lives(self) -> int:
        """How many random lives of sessions the soak runs, with commands and faults of all kinds.

        `duplex simulate --plugin` runs as many as you like.
        """
        return 100

    @property
    def soak_s(self) -> float:
        """How long the soak may take, in seconds of real time: at least one life is run."""
        return 15.0

    @classmethod
    def subject(cls) -> Subject:
        """The plugin under test, with the settings of this suite."""
        suite = cls()
        settings = Settings(
            options=suite.options,
            session=suite.session,
            turns=suite.turns,
            answers_within_s=suite.answers_within_s,
            audio_tolerance=suite.audio_tolerance,
            tools=suite.tools,
            calling_turn=suite.calling_turn,
            longest_turn_s=suite.longest_turn_s,
            cancel_points=suite.cancel_points,
            lives=suite.lives,
            soak_s=suite.soak_s,
        )
        return Subject(suite.spec, settings)


def _hum(ms: float, hz: float) -> PcmChunk:
    """A voice-like sound: a pitch with overtones, swelling as syllables do."""
    time = np.arange(round(_RATE * ms / 1000)) / _RATE
    tones = [np.sin(2 * np.pi * hz * harmonic * time) / harmonic for harmonic in range(1, 8)]
    syllables = 0.55 - 0.45 * np.cos(2 * np.pi * 4 * time)
    return PcmChunk.of(0.2 * syllables * np.sum(tones, axis=0), _RATE)
