from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from duplex_sdk.plugin import DuplexRuntimeConfigError
from duplex_sdk.protocol.duplex import UpdateSession
from duplex_sdk.stage import Json
from duplex_sdk.testing.scripted.model import Scripted
from duplex_sdk.testing.session_lab import SessionLab


class Choosy(Scripted):
    """Has one voice, settles its role at once, and knows a role that it refuses."""

    def runtime_config_for_update(
        self, config: Mapping[str, Json], current: Mapping[str, Json], *, started: bool
    ) -> Mapping[str, Json]:
        if config.get("voice") not in (None, "own"):
            raise DuplexRuntimeConfigError("no_such_voice", param="session.voice")
        if config.get("instructions") == "too long":
            raise DuplexRuntimeConfigError("no_room", param="session.instructions")
        if config.get("instructions") is not None:
            raise DuplexRuntimeConfigError("instructions_update_unsupported")
        return current


@pytest.fixture
def lab() -> SessionLab:
    return SessionLab(Choosy({"script": {}}), {"voice": "own"})


def of(lab: SessionLab, wire_type: str) -> list[dict[str, Any]]:
    return [event.to_realtime() for event in lab.events if event.type == wire_type]


def update(lab: SessionLab, *, lenient: bool, **fields: Any) -> dict[str, Any] | None:
    lab.send(UpdateSession(session=fields), lenient=lenient)
    updated = of(lab, "session.updated")
    return updated[-1]["session"] if updated else None


def test_a_voice_the_model_has_not_is_dropped_and_the_rest_is_done(lab: SessionLab) -> None:
    session = update(lab, lenient=True, voice="marin", speed=1.5)
    assert session is not None
    assert session["audio"]["output"]["voice"] == "own"
    assert session["audio"]["output"]["speed"] == 1.5


def test_what_the_model_has_settled_stays_as_it_was(lab: SessionLab) -> None:
    session = update(lab, lenient=True, voice="marin", instructions="Sing.", speed=1.5)
    assert session is not None
    assert session["audio"]["output"]["voice"] == "own"
    assert session.get("instructions") is None
    assert session["audio"]["output"]["speed"] == 1.5


def test_a_role_that_cannot_be_is_refused_all_the_same(lab: SessionLab) -> None:
    assert update(lab, lenient=True, instructions="too long") is None
    assert [event["error"]["code"] for event in of(lab, "error")] == ["no_room"]


def test_without_leniency_the_refusal_names_the_field(lab: SessionLab) -> None:
    assert update(lab, lenient=False, voice="marin") is None
    error = of(lab, "error")[0]["error"]
    assert (error["code"], error["param"]) == ("no_such_voice", "session.voice")
