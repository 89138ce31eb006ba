"""Every example conversation: client frames decode, server frames come out as they went in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from duplex_sdk.protocol import realtime
from duplex_sdk.protocol.duplex import (
    AckPlayback,
    AppendAudio,
    CloseSession,
    Commit,
    CreateItem,
    EventAck,
    RealtimeProtocolError,
    ResumeRequest,
    UpdateSession,
    decode_command,
    decode_event,
    decode_server_frame,
    encode_command,
)

FRAMES = [
    json.loads(line)
    for line in Path(__file__).with_name("example_frames.jsonl").read_text("utf-8").splitlines()
]
CLIENT_CLASSES = {
    "session.update": UpdateSession,
    "input_audio_buffer.append": AppendAudio,
    "input_audio_buffer.commit": Commit,
    "playback.ack": AckPlayback,
    "session.event_ack": EventAck,
    "session.close": CloseSession,
    "session.resume": ResumeRequest,
    "conversation.item.create": CreateItem,
}


def frames(sender: str) -> list[Any]:
    return [
        pytest.param(entry["frame"], id=f"{entry['conversation']}-{index}-{entry['frame']['type']}")
        for index, entry in enumerate(FRAMES)
        if entry["from"] == sender
    ]


def without_stamps(frame: dict[str, Any], event_type: str) -> dict[str, Any]:
    """The frame as the event alone renders it: what the connection adds is taken off."""
    stamped = {"event_id", "server_event_seq"}
    if event_type not in {"overlap.decision", "session.closed"}:
        stamped.add("epoch")
    return {key: value for key, value in frame.items() if key not in stamped}


def test_all_five_conversations_are_here() -> None:
    assert {entry["conversation"] for entry in FRAMES} == {
        "one_turn",
        "barge_in",
        "resume",
        "slow_reader",
        "function_call",
    }
    assert len(FRAMES) == 75


@pytest.mark.parametrize("frame", frames("client"))
def test_client_frame_decodes_to_its_command(frame: dict[str, Any]) -> None:
    command = decode_command(json.dumps(frame))
    assert type(command) is CLIENT_CLASSES[frame["type"]]
    assert command.event_id == frame.get("event_id")


@pytest.mark.parametrize("frame", frames("client"))
def test_client_frame_is_encoded_as_it_was_written(frame: dict[str, Any]) -> None:
    encoded = encode_command(decode_command(frame))
    assert encoded == encoded | frame
    assert decode_command(encoded) == decode_command(frame)


@pytest.mark.parametrize("frame", frames("server"))
def test_server_frame_is_rendered_as_it_was_read(frame: dict[str, Any]) -> None:
    rendered = without_stamps(decode_event(frame).to_realtime(), frame["type"])
    assert rendered == without_stamps(frame, frame["type"])


@pytest.mark.parametrize("frame", frames("server"))
def test_server_frame_keeps_its_number_and_epoch(frame: dict[str, Any]) -> None:
    read = decode_server_frame(json.dumps(frame))
    assert read.server_event_seq == frame.get("server_event_seq")
    assert read.event.epoch == frame.get("epoch")


@pytest.mark.parametrize("frame", frames("server"))
def test_openai_tier_renders_a_frame_without_our_keys(frame: dict[str, Any]) -> None:
    """The twin of a Tier 2 event says the same, less what we add; Tier 3 it does not know."""
    known = {event.type for event in realtime.REALTIME_EVENTS}
    if frame["type"] not in known:
        with pytest.raises(RealtimeProtocolError, match="unknown event type"):
            realtime.decode_event(frame)
        return
    rendered = realtime.decode_event(frame).to_realtime()
    for key, value in rendered.items():
        if key not in {"event_id", "error"}:
            assert frame[key] == value
    ours = {"server_event_seq", "epoch", "resume_token", "attachment_generation", "event"}
    assert not ours & set(rendered)
    assert ("response_id" in rendered) == (
        "response_id" in frame and frame["type"] not in {"response.created", "response.done"}
    )
