from __future__ import annotations

from typing import Any

import pytest
from duplex_sdk.clients import PlaybackQueue, PlayedAudio, audio_ms
from duplex_sdk.protocol.duplex import AudioDelta, DuplexEvent, decode_event


def delta(identity: str, pcm: bytes, epoch: int = 0, **changes: Any) -> AudioDelta:
    fields: dict[str, Any] = {"format": "pcm16", "sample_rate_hz": 24_000} | changes
    return AudioDelta(
        response_id=identity, item_id=f"item_{identity}", delta=pcm, epoch=epoch, **fields
    )


def done(identity: str, status: str, epoch: int = 0) -> DuplexEvent:
    response = {"id": identity, "status": status, "output": [], "output_modalities": ["audio"]}
    return decode_event(
        {
            "type": "response.done",
            "event_id": "e",
            "epoch": epoch,
            "response_id": identity,
            "response": response,
        }
    )


def cleared(identity: str | None) -> DuplexEvent:
    payload = {"type": "output_audio_buffer.cleared", "event_id": "e", "response_id": identity}
    return decode_event(payload)


def test_audio_is_played_in_order_in_the_pieces_asked_for() -> None:
    queue = PlaybackQueue()
    queue.feed(delta("r", b"abcdef"))
    queue.feed(delta("r", b"gh"))
    assert [queue.read(4), queue.read(4), queue.read(4)] == [b"abcd", b"ef", b"gh"]
    assert queue.read(4) == b""


def test_next_response_waits_for_the_end_of_the_one_before() -> None:
    queue = PlaybackQueue()
    queue.feed(delta("first", b"ab"))
    queue.feed(delta("second", b"cd"))
    assert queue.read(2) == b"ab"
    assert queue.read(2) == b""
    queue.feed(done("first", "completed"))
    assert queue.read(2) == b"cd"


def test_cancelled_response_falls_silent_and_says_how_far_it_came() -> None:
    queue = PlaybackQueue()
    queue.feed(delta("r", bytes(48_000)))
    queue.read(4_800)
    queue.feed(done("r", "cancelled", epoch=1))
    assert queue.read(4_800) == b""
    assert queue.reports() == (PlayedAudio("r", "item_r", 100, cut=True),)


def test_completed_response_goes_on_playing() -> None:
    queue = PlaybackQueue()
    queue.feed(delta("r", bytes(9_600)))
    queue.feed(done("r", "completed"))
    assert len(queue.read(9_600)) == 9_600
    assert queue.read(1) == b""
    assert queue.reports() == (PlayedAudio("r", "item_r", 200, cut=False),)
    assert queue.reports() == ()


@pytest.mark.parametrize("named", ["r", None])
def test_cleared_output_falls_silent(named: str | None) -> None:
    queue = PlaybackQueue()
    queue.feed(delta("r", bytes(9_600)))
    queue.feed(done("r", "completed"))
    queue.feed(cleared(named))
    assert queue.read(9_600) == b""


def test_clearing_another_response_changes_nothing() -> None:
    queue = PlaybackQueue()
    queue.feed(delta("r", b"ab"))
    queue.feed(cleared("other"))
    assert queue.read(2) == b"ab"


def test_audio_of_an_older_epoch_is_never_played() -> None:
    queue = PlaybackQueue()
    queue.feed(done("r", "cancelled", epoch=1))
    queue.feed(delta("r", b"ab", epoch=0))
    assert queue.read(2) == b""


def test_progress_of_what_plays_is_reported() -> None:
    queue = PlaybackQueue()
    queue.feed(delta("r", bytes(48_000)))
    assert queue.reports() == ()
    queue.read(2_400)
    assert queue.reports() == (PlayedAudio("r", "item_r", 50, cut=False),)
    assert queue.waiting_ms == 950


@pytest.mark.parametrize(
    ("changes", "size", "expected"),
    [
        ({}, 4_800, 100),
        ({"sample_rate_hz": None}, 4_800, 100),
        ({"sample_rate_hz": 16_000}, 3_200, 100),
        ({"format": "g711_ulaw", "sample_rate_hz": None}, 800, 100),
        ({"format": "wav"}, 4_844, 100),
    ],
)
def test_length_of_audio_goes_by_format_and_rate(
    changes: dict[str, Any], size: int, expected: float
) -> None:
    assert audio_ms(delta("r", bytes(size), **changes)) == expected
