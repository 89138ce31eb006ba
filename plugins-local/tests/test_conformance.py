from __future__ import annotations

from functools import cache

import numpy as np
from duplex_plugin_local import plugin
from duplex_plugin_local.speech import say
from duplex_sdk.audio import PcmChunk
from duplex_sdk.plugin import PluginSpec
from duplex_sdk.testing import ModelConformance


@cache
def spoken(text: str) -> PcmChunk:
    samples, rate = say(text)
    return PcmChunk.of(samples.astype(np.float32), rate)


class TestLocal(ModelConformance):
    @property
    def spec(self) -> PluginSpec:
        return plugin

    @property
    def turns(self) -> tuple[PcmChunk, ...]:
        return (
            spoken("What is seven plus five?"),
            spoken("Hello, what is your name?"),
            spoken("Thank you."),
        )

    @property
    def longest_turn_s(self) -> float:
        return 8.0

    @property
    def lives(self) -> int:
        return 30
