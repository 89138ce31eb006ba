"""The plugins that the pages show keep the contract and do what the pages say."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from duplex_sdk.plugin import PluginSpec, load_duplex_plugin
from duplex_sdk.protocol.duplex import (
    AppendAudio,
    Commit,
    CreateItem,
    CreateResponse,
)
from duplex_sdk.testing import ModelConformance
from duplex_sdk.testing.conformance import run_laws
from duplex_sdk.testing.session_lab import SessionLab, tone

pytestmark = pytest.mark.timeout(300)

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "plugins"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py"))
JPEG = b"\xff\xd8\xff\xe0" + bytes(60)


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield
    for name in NAMES:
        sys.modules.pop(name, None)


def lab_of(name: str, session: dict[str, Any] | None = None) -> SessionLab:
    return SessionLab(load_duplex_plugin(import_module(name).plugin), session)


def of(lab: SessionLab, kind: str) -> list[dict[str, Any]]:
    return [told for event in lab.events if (told := event.to_realtime())["type"] == kind]


def said(lab: SessionLab) -> str:
    kinds = ("response.output_audio_transcript.delta", "response.output_text.delta")
    return "".join(told["delta"] for kind in kinds for told in of(lab, kind))


@pytest.mark.parametrize("name", NAMES)
def test_every_example_keeps_every_law(name: str) -> None:
    class Suite(ModelConformance):
        @property
        def spec(self) -> PluginSpec:
            spec: PluginSpec = import_module(name).plugin
            return spec

    results = run_laws(Suite)
    assert [f"{each.law}: {each.detail}" for each in results if each.outcome == "broken"] == []
    assert sum(each.outcome == "holds" for each in results) > 25


def test_the_cascade_speaks_a_sentence_while_it_writes_the_next() -> None:
    lab = lab_of("cascade")
    lab.speak(500)
    lab.send(Commit(), CreateResponse())
    lab.run(5000)
    assert said(lab).rstrip() == "You spoke for 500 milliseconds. That is all I know."
    assert [done["response"]["status"] for done in of(lab, "response.done")] == ["completed"]


def test_a_tool_is_called_and_its_result_is_said() -> None:
    clock = {"type": "function", "name": "clock", "parameters": {"type": "object"}}
    lab = lab_of("tools", {"tools": [clock]})
    lab.speak(500)
    lab.send(Commit(), CreateResponse())
    lab.run(1000)
    (call,) = of(lab, "response.function_call_arguments.done")
    item = {"type": "function_call_output", "call_id": call["call_id"], "output": "noon"}
    lab.send(CreateItem(item=item), CreateResponse())
    lab.run(1000)
    assert said(lab) == "I am told: noon"


def test_without_a_tool_the_model_says_so() -> None:
    lab = lab_of("tools")
    lab.speak(500)
    lab.send(Commit(), CreateResponse())
    lab.run(1000)
    assert said(lab) == "I have no clock."


def test_frames_reach_the_model_with_the_sound_they_came_with() -> None:
    lab = lab_of("video")
    for _ in range(2):
        lab.send(AppendAudio(audio=tone(1000), video_frames=(JPEG,)))
        lab.run(1000)
    lab.pause(2000)
    assert said(lab) == f"I saw 2 pictures, {2 * len(JPEG)} bytes in all."
