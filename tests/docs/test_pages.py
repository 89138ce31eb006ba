"""The pages say what is true: their tables are compared with the code, their code is run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from duplex_sdk.plugin import load_duplex_plugin
from duplex_sdk.protocol import duplex as protocol
from duplex_sdk.session import effects, inputs
from duplex_sdk.testing.scripted import plugin as scripted
from duplex_sdk.testing.session_lab import SessionLab
from duplex_server.settings import resolve_settings
from duplex_server.settings.model import StageSettings

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
NEVER_SENT = "conversation.item.created"


def section(page: str, heading: str) -> str:
    """The text below a heading, up to the next one of any level."""
    text = (DOCS / page).read_text(encoding="utf-8")
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#|\Z)", text, re.M | re.S)
    assert found, f"{page} has no section {heading!r}"
    return found[1]


def rows(text: str) -> list[list[str]]:
    """Cells of the tables in a text, without their heads."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells[2:] if not set(row[0]) <= set("- ")]


def code(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_every_command_is_listed_with_its_tier() -> None:
    listed = rows(section("protocol.md", "What a client may send"))
    commands = {code(row[0])[0]: int(row[1]) for row in listed if len(row) == 3}
    tiers = (protocol.TIER_1_COMMANDS, protocol.TIER_2_COMMANDS, protocol.TIER_3_COMMANDS)
    assert commands == {
        command.type: tier for tier, known in enumerate(tiers, 1) for command in known
    }


def test_every_other_spelling_is_listed() -> None:
    listed = rows(section("protocol.md", "What a client may send"))
    spellings = {name: code(row[1])[0] for row in listed if len(row) == 2 for name in code(row[0])}
    spellings.pop("spelling", None)
    assert spellings == dict(protocol.COMMAND_ALIASES)


def test_every_event_is_listed_in_its_tier() -> None:
    listed = {int(row[0]): set(code(row[1])) for row in rows(section("protocol.md", SERVER))}
    first = (*protocol.TIER_1_EVENTS, *protocol.EXTENSION_EVENTS)
    assert listed[1] == {event.type for event in first} - {NEVER_SENT}
    assert listed[2] == {event.type for event in protocol.TIER_2_EVENTS}
    raw = protocol.DuplexRawEvent.type
    third = {event.type for event in protocol.TIER_3_EVENTS}
    assert listed[3] == third - {raw} | {f"{raw}."}


SERVER = "What a server sends"
ALL_EVENTS = (*protocol.TIER_1_EVENTS, *protocol.TIER_2_EVENTS, *protocol.TIER_3_EVENTS)


def test_every_key_of_a_stage_is_listed() -> None:
    listed = {code(row[0])[0] for row in rows(section("workers.md", "Placing stages"))}
    assert listed == set(StageSettings.model_fields)


def test_the_settings_of_stages_that_are_shown_can_be_given(tmp_path: Path) -> None:
    shown = re.search(r"```yaml\n(.*?)```", section("workers.md", "Placing stages"), re.S)
    assert shown
    config = tmp_path / "duplex.yaml"
    config.write_text(shown[1])
    resolved = resolve_settings({}, {}, config=config)
    plugin = load_duplex_plugin(resolved.spec, resolved.plugin_options)
    stages = resolved.deployment.apply(plugin.pipeline()).stages
    placed = {stage.id: (stage.backends[0], stage.replicas) for stage in stages}
    assert placed["recogniser"] == ("process", 2)
    assert placed["speech"] == ("process", 1)


def test_every_code_of_an_error_that_is_named_exists() -> None:
    named = {code(row[0])[0] for row in rows(section("protocol.md", "Errors"))}
    assert named
    assert named <= protocol.ERROR_CODES.keys()


def test_every_effect_that_takes_time_is_listed_with_its_outcome() -> None:
    listed = {code(row[0])[0]: code(row[1])[0] for row in rows(section("sessions.md", "The core"))}
    timed = {
        name
        for name in effects.__all__
        if "op" in getattr(getattr(effects, name), "__struct_fields__", ())
    }
    outcomes = {
        name
        for name in inputs.__all__
        if "op" in getattr(getattr(inputs, name), "__struct_fields__", ())
    }
    assert listed.keys() == timed
    assert set(listed.values()) == outcomes


SESSION = ROOT / "duplex_sdk/src/duplex_sdk/session"
FLOWS = [
    "An append",
    "A commit",
    "An answer",
    "A cancel",
    "An answer outside the conversation",
    "An overflow",
    "A close",
]


def steps(heading: str) -> list[tuple[str, str]]:
    """Each line of a flow with the module it belongs to: the last one in the margin."""
    found = re.search(r"```\n(.*?)```", section("sessions.md", heading), re.S)
    assert found, f"{heading!r} has no diagram"
    module, lines = "", []
    for line in found[1].splitlines():
        margin = re.match(r"[a-z]+(?:_[a-z]+)*", line)
        module = margin[0] if margin else module
        lines.append((module, line[len(margin[0]) if margin else 0 :]))
    return lines


@pytest.mark.parametrize("heading", FLOWS)
def test_every_module_a_flow_names_exists(heading: str) -> None:
    modules = {module for module, _ in steps(heading)}
    assert modules - {""}
    assert [name for name in modules if not (SESSION / f"{name}.py").exists()] == []


@pytest.mark.parametrize("heading", FLOWS)
def test_every_module_asks_for_what_its_flow_says(heading: str) -> None:
    asked = 0
    for module, line in steps(heading):
        source = (SESSION / f"{module}.py").read_text()
        for name in re.findall(r"─► ([A-Z]\w+)", line):
            asked += 1
            assert name in effects.__all__
            told = "emit(" in source or "fail(" in source
            assert told if name == "Emit" else name in source, f"{module} asks for no {name}"
        for wire_type in re.findall(r"\b[a-z_]+(?:\.[a-z_]+)+\b", line.partition("─► Emit")[2]):
            (event,) = (each for each in ALL_EVENTS if each.type == wire_type)
            where = source + (SESSION / "response_events.py").read_text()
            assert event.__name__ in where, f"{module} tells of no {wire_type}"
    assert asked


@pytest.mark.parametrize("heading", FLOWS)
def test_every_input_a_flow_names_is_one(heading: str) -> None:
    named = [name for _, line in steps(heading) for name in re.findall(r"◄─ ([A-Z]\w+)", line)]
    assert named
    assert [name for name in named if name not in inputs.__all__] == []


def test_every_module_of_the_core_is_listed() -> None:
    listed = [name for row in rows(section("sessions.md", "The modules")) for name in code(row[0])]
    assert len(listed) == len({*listed})
    assert {*listed} == {path.stem for path in SESSION.glob("*.py")} - {"__init__"}


def test_every_module_the_resume_flow_names_exists() -> None:
    margin = re.findall(r"^([a-z]+) {2,}", section("sessions.md", "A resume"), re.M)
    serving = ROOT / "duplex_server/src/duplex_server/serving"
    assert set(margin) == {"attachments", "delivery", "resuming"}
    assert [name for name in margin if not (serving / f"{name}.py").exists()] == []


def test_the_lab_example_runs_and_hears_an_answer() -> None:
    example = re.search(r"```python\n(lab = .*?)```", (DOCS / "plugins.md").read_text(), re.S)
    assert example
    names: dict[str, Any] = {
        **{name: getattr(protocol, name) for name in ("AudioDelta", "Commit", "CreateResponse")},
        "SessionLab": SessionLab,
        "plugin": scripted,
        "load_duplex_plugin": load_duplex_plugin,
    }
    exec(example[1], names)
    assert names["answers"]


def test_every_link_of_the_readme_leads_somewhere() -> None:
    links = re.findall(r"\]\((?!http)([^)#]+)", (ROOT / "README.md").read_text())
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
