"""Whole sessions in virtual time: how long one may last, and what its client is told."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from duplex_sdk.audio import float_to_pcm16
from duplex_sdk.plugin import load_duplex_plugin
from duplex_sdk.protocol.duplex import CancelResponse
from duplex_sdk.testing.session_lab import SessionLab
from model_runs import speech

from duplex_plugin_personaplex import plugin
from duplex_plugin_personaplex.testing import write_tiny_checkpoint


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_checkpoint(tmp_path_factory.mktemp("window"), layers=1, context=96)


def lab(folder: Path, **options: Any) -> SessionLab:
    made = load_duplex_plugin(plugin, {"checkpoint": str(folder), **options})
    return SessionLab(made, {"instructions": "Be brief.", "extra_body": {"greedy": True}})


def told(lab: SessionLab, *kinds: str) -> list[dict[str, Any]]:
    events = [event.to_realtime() for event in lab.events]
    return [event for event in events if event["type"] in kinds]


def test_a_session_is_told_half_a_minute_before_its_window_is_full(folder: Path) -> None:
    subject = lab(folder)
    (created,) = told(subject, "session.created")
    assert created["session"]["expires_at"] == 210
    subject.append(float_to_pcm16(speech(3, seed=1).ravel()))
    subject.run(179_000)
    assert not told(subject, "duplex.session.expiring")
    subject.run(2_000)
    (expiring,) = told(subject, "duplex.session.expiring")
    assert expiring["event"]["reason"] == "session_length_reached"
    assert expiring["event"]["remaining_ms"] == 30_000
    subject.run(30_000)
    (expired,) = told(subject, "session.expired")
    assert expired["reason"] == "session_length_reached"
    assert subject.session.closed


def test_a_session_that_may_drift_has_no_end(folder: Path) -> None:
    subject = lab(folder, window_policy="drift")
    (created,) = told(subject, "session.created")
    assert created["session"]["expires_at"] is None
    assert created["session"]["capabilities"]["max_session_s"] is None
    subject.append(float_to_pcm16(speech(3, seed=1).ravel()))
    subject.run(250_000)
    assert not told(subject, "duplex.session.expiring", "session.expired")


def test_a_client_that_speaks_faster_than_time_passes_fills_its_window_sooner(folder: Path) -> None:
    subject = lab(folder)
    for _ in range(10):
        subject.append(float_to_pcm16(speech(12, seed=1).ravel()))
        subject.run(200)
    (error,) = told(subject, "error")
    assert "window is full" in error["error"]["message"]
    assert subject.session.closed


# Two utterances: from the 3rd frame to the 11th, and from the 18th to the 26th.
HEARD = speech(110, seed=1)[:30]


@pytest.fixture(scope="module")
def roomy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_checkpoint(tmp_path_factory.mktemp("roomy"), layers=1, context=400)


def utterances(
    folder: Path, after_frame: Callable[[SessionLab], None] = lambda lab: None
) -> list[dict[str, Any]]:
    """The responses of one session that hears the same sound each time: status, sound, words."""
    subject = lab(folder, role="")
    for frame in HEARD:
        subject.append(float_to_pcm16(frame))
        subject.run(80)
        after_frame(subject)
    found: dict[str, dict[str, Any]] = {}
    for event in (event.to_realtime() for event in subject.events):
        match event["type"]:
            case "response.created":
                found[event["response"]["id"]] = {"status": None, "sound": b"", "words": ""}
            case "response.output_audio.delta":
                found[event["response_id"]]["sound"] += base64.b64decode(event["delta"])
            case "response.output_audio_transcript.delta":
                found[event["response_id"]]["words"] += event["delta"]
            case "response.done":
                found[event["response"]["id"]]["status"] = event["response"]["status"]
    return list(found.values())


def test_a_cancel_drops_the_rest_of_its_utterance_and_nothing_of_the_next(roomy: Path) -> None:
    """The model goes on as if nothing had been said, so what is heard later is the same."""
    whole = utterances(roomy)
    assert [each["status"] for each in whole] == ["completed"] * 2
    cancels = 0

    def cancel_in_the_first(subject: SessionLab) -> None:
        nonlocal cancels
        if not cancels and subject.types().count("response.output_audio.delta") == 2:
            cancels += 1
            subject.send(CancelResponse())

    muted = utterances(roomy, cancel_in_the_first)
    assert cancels == 1
    first, expected = muted[0], whole[0]
    assert first["status"] == "cancelled"
    assert expected["sound"].startswith(first["sound"])
    assert len(first["sound"]) < len(expected["sound"])
    assert expected["words"].startswith(first["words"])
    assert muted[1:] == whole[1:]
