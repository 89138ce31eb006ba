"""The wire trace: enough to see what went wrong, and nothing that must not be shown."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest
from duplex_sdk.clients import DuplexClient, WireTrace
from duplex_sdk.clients.trace import Direction


def shown(payload: dict[str, Any]) -> Any:
    trace = WireTrace(clock=lambda: 1.5)
    trace.sent(payload)
    [frame] = trace.frames()
    assert (frame.at, frame.direction) == (1.5, Direction.SENT)
    return frame.payload


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ({"resume_token": "TOKEN-1"}, {"resume_token": "***"}),
        ({"a": [{"api_key": "sk"}]}, {"a": [{"api_key": "***"}]}),
        (
            {
                "tools": [
                    {"headers": {"Authorization": "Bearer x", "X-Api-Key": "k", "Accept": "*"}}
                ]
            },
            {"tools": [{"headers": {"Authorization": "***", "X-Api-Key": "***", "Accept": "*"}}]},
        ),
        ({"client_secret": {"value": "ek_1"}}, {"client_secret": "***"}),
        ({"max_output_tokens": 7}, {"max_output_tokens": 7}),
        ({"k" * 1000: 1}, {"k" * 200 + "... (1000)": 1}),
        (
            {"type": "input_audio_buffer.append", "delta": "AAAA"},
            {"type": "input_audio_buffer.append", "delta": "<4>"},
        ),
        ({"audio": "AAAA"}, {"audio": "<4>"}),
        ({"video_frames": ["AAAA", "BB"]}, {"video_frames": "<2>"}),
        (
            {"session": {"audio": {"input": {"format": "pcm16"}}, "ref_audio": "data:..."}},
            {"session": {"audio": {"input": {"format": "pcm16"}}, "ref_audio": "<8>"}},
        ),
        ({"session": {"extra_body": {"voice": 1}}}, {"session": {"extra_body": "<1>"}}),
        ({"content": [{"image_url": "data:"}]}, {"content": [{"image_url": "<5>"}]}),
        (
            {"type": "response.output_audio.delta", "delta": "AAAA"},
            {"type": "response.output_audio.delta", "delta": "<4>"},
        ),
        (
            {"type": "response.output_text.delta", "delta": "hello"},
            {"type": "response.output_text.delta", "delta": "hello"},
        ),
        ({"text": "x" * 1000}, {"text": "x" * 200 + "... (1000)"}),
        ({"n": 1, "f": None, "b": True}, {"n": 1, "f": None, "b": True}),
    ],
)
def test_secrets_recordings_and_length_stay_out(
    payload: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert shown(payload) == expected


def test_deep_and_wide_frames_are_bounded() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100):
        deep = {"deeper": deep}
    assert len(str(shown(deep))) < 300
    assert len(shown({"wide": list(range(10_000))})["wide"]) == 32


def test_only_the_newest_frames_are_kept() -> None:
    trace = WireTrace(2)
    for n in range(5):
        trace.received({"n": n})
    assert [frame.payload["n"] for frame in trace.frames()] == [3, 4]


def test_trace_of_size_zero_keeps_nothing() -> None:
    trace = WireTrace(0)
    trace.sent({"a": 1})
    assert trace.frames() == ()


async def test_both_directions_of_a_session_are_traced_without_its_token(
    socket: Any, client: DuplexClient
) -> None:
    socket.says_resumable("TOKEN-SECRET")
    async with client:
        await client.append_audio(b"\1\2" * 50)
        socket.says("input_audio_buffer.cleared")
        await asyncio.sleep(0.01)
        frames = client.trace.frames()
        socket.says("session.closed", session_id="s", epoch=0, reason="r", event={})
    assert [(f.direction.value, f.payload["type"]) for f in frames] == [
        ("sent", "session.update"),
        ("received", "session.created"),
        ("sent", "input_audio_buffer.append"),
        ("received", "input_audio_buffer.cleared"),
    ]
    assert "TOKEN-SECRET" not in str(frames)
    assert base64.b64encode(b"\1\2" * 50).decode() not in str(frames)
