from __future__ import annotations

import json
from collections.abc import Mapping

from duplex_sdk.plugin import PluginSpec
from duplex_sdk.stage import Json
from duplex_sdk.testing import ModelConformance
from duplex_sdk.testing.scripted import plugin

# Counter audio names the ordinal of its session, which another run does not repeat.
SPOKEN = {"answers": [{"audio": "tone"}]}
NATIVE = {"answers": [{"audio": "tone", "ms": 400}], "turns": "native"}


class TestScripted(ModelConformance):
    @property
    def spec(self) -> PluginSpec:
        return plugin

    @property
    def options(self) -> Mapping[str, Json]:
        return {"script": json.dumps(SPOKEN)}


class TestScriptedNative(TestScripted):
    @property
    def options(self) -> Mapping[str, Json]:
        return {"script": json.dumps(NATIVE)}

    @property
    def session(self) -> Mapping[str, Json]:
        return {"auto_response": True}
