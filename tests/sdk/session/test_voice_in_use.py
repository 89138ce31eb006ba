"""Clients are told of the voice they hear, whatever they called it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from duplex_sdk.plugin import DuplexConfigError, DuplexRuntimeConfigError
from duplex_sdk.protocol.duplex import UpdateSession
from duplex_sdk.stage import Json
from duplex_sdk.testing.scripted.model import Scripted
from duplex_sdk.testing.session_lab import SessionLab

OWN = ("ann", "bob")


class Aliased(Scripted):
    """Ann speaks for those who name nobody and for OpenAI's names that begin with an a."""

    def voice_in_use(self, config: Mapping[str, Json]) -> str | None:
        named = config.get("voice") or "ann"
        return "ann" if named in ("alloy", "ash") else named

    def runtime_config_for_update(
        self, config: Mapping[str, Json], current: Mapping[str, Json], *, started: bool
    ) -> Mapping[str, Json]:
        if config["voice"] not in OWN:
            raise DuplexRuntimeConfigError("no_such_voice", param="session.voice")
        return current


class Nameless(Aliased):
    def voice_in_use(self, config: Mapping[str, Json]) -> str | None:
        raise RuntimeError("who am I?")


def lab(session: Mapping[str, Any], plugin: type[Scripted] = Aliased) -> SessionLab:
    return SessionLab(plugin({"script": {}}), session)


def told(lab: SessionLab, wire_type: str) -> list[dict[str, Any]]:
    return [event.to_realtime() for event in lab.events if event.type == wire_type]


def voice_of(event: dict[str, Any]) -> str | None:
    voice: str | None = event["session"]["audio"]["output"].get("voice")
    return voice


@pytest.mark.parametrize(
    ("session", "voice"), [({}, "ann"), ({"voice": "alloy"}, "ann"), ({"voice": "bob"}, "bob")]
)
def test_the_first_event_names_the_voice_in_use(session: dict[str, Any], voice: str) -> None:
    assert voice_of(told(lab(session), "session.created")[0]) == voice


def test_by_default_it_is_the_one_the_client_named() -> None:
    plain = lab({"voice": "alloy"}, Scripted)
    assert voice_of(told(plain, "session.created")[0]) == "alloy"


@pytest.mark.parametrize("lenient", [True, False])
def test_an_update_is_answered_with_the_voice_it_led_to(lenient: bool) -> None:
    subject = lab({"voice": "bob"})
    subject.send(UpdateSession(session={"voice": "ash"}), lenient=lenient)
    subject.send(UpdateSession(session={"voice": "bob"}), lenient=lenient)
    subject.send(UpdateSession(session={"voice": None}), lenient=lenient)
    assert [voice_of(event) for event in told(subject, "session.updated")] == ["ann", "bob", "ann"]


def test_another_name_of_the_same_voice_is_no_change_once_it_was_heard() -> None:
    subject = lab({"voice": "alloy"})
    subject.session.state.audio_started = True
    subject.send(UpdateSession(session={"voice": "ash", "speed": 1.5}))
    subject.send(UpdateSession(session={"voice": "bob"}))
    (updated,) = told(subject, "session.updated")
    assert (voice_of(updated), updated["session"]["audio"]["output"]["speed"]) == ("ann", 1.5)
    (error,) = told(subject, "error")
    assert error["error"]["code"] == "voice_update_after_audio_unsupported"


def test_a_name_that_means_nothing_is_refused_or_leaves_the_voice_as_it_was() -> None:
    subject = lab({"voice": "bob"})
    subject.send(UpdateSession(session={"voice": "zoe"}))
    assert [event["error"]["code"] for event in told(subject, "error")] == ["no_such_voice"]
    subject.send(UpdateSession(session={"voice": "zoe", "speed": 1.5}), lenient=True)
    assert voice_of(told(subject, "session.updated")[0]) == "bob"


def test_a_plugin_that_cannot_say_opens_no_session() -> None:
    with pytest.raises(DuplexConfigError, match="who am I"):
        lab({}, Nameless)


def test_a_plugin_that_cannot_say_any_more_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    subject = lab({"voice": "bob"})
    monkeypatch.setattr(Aliased, "voice_in_use", Nameless.voice_in_use)
    subject.send(UpdateSession(session={"voice": "ann"}))
    assert [event["error"]["code"] for event in told(subject, "error")] == ["runtime_signal_failed"]
    assert not told(subject, "session.updated")
    assert subject.session.state.config.voice == "bob"
