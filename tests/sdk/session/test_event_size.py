from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from duplex_sdk.protocol.duplex import (
    AudioDelta,
    DuplexErrorDetails,
    DuplexEvent,
    ErrorEvent,
    SessionClosed,
    TextDelta,
    TranscriptDelta,
)
from duplex_sdk.session.event_size import EventSizer, event_size
from duplex_sdk.testing.simulation import SCRIPTED_KINDS, draw, run
from duplex_sdk.testing.simulation.talker import Talker
from hypothesis import given
from hypothesis import strategies as st


def audio(data: bytes = b"", **fields: Any) -> AudioDelta:
    values: dict[str, Any] = {"event_id": "event_1", "response_id": "resp_a", "format": "pcm16"}
    return AudioDelta(item_id="item_resp_a", delta=data, **(values | fields))


def rendered_size(event: DuplexEvent) -> int:
    compact = json.dumps(event.to_realtime(), separators=(",", ":"), ensure_ascii=False)
    return len(compact.encode())


@pytest.mark.parametrize(
    "event",
    [
        *(audio(bytes(n)) for n in (0, 1, 2, 3, 4, 959, 960, 48_000)),
        audio(b"x", metadata={"audio_text_marks": [{"text_chars": 1, "audio_end_ms": 80}]}),
        TranscriptDelta(event_id="e", response_id="r", item_id="i", delta='größer, "元気"\n'),
        ErrorEvent(error=DuplexErrorDetails(type="server_error", code="c", message="m")),
        SessionClosed(reason="client_close", event={"type": "session.closed"}),
    ],
    ids=lambda event: type(event).__name__,
)
def test_a_size_is_that_of_the_compact_json(event: DuplexEvent) -> None:
    assert event_size(event) == rendered_size(event)
    assert EventSizer().size(event) == rendered_size(event)


def test_the_size_of_every_event_of_a_life_is_that_of_its_json(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[DuplexEvent] = []

    class Kept(Talker):
        def come_to_rest(self) -> None:
            super().come_to_rest()
            told.extend(self.lab.events)

    monkeypatch.setattr("duplex_sdk.testing.simulation.world.Talker", Kept)
    for seed in range(60):
        assert run(draw(seed, SCRIPTED_KINDS), SCRIPTED_KINDS) is None
    assert len({type(event) for event in told}) > 20
    for event in told:
        assert event_size(event) == rendered_size(event), event


def test_audio_is_counted_as_base64() -> None:
    assert event_size(audio(bytes(1000))) - event_size(audio()) == len(
        base64.b64encode(bytes(1000))
    )


IDS = st.text(max_size=4)
AUDIO = st.builds(
    audio,
    st.binary(max_size=9),
    event_id=IDS,
    response_id=IDS,
    format=st.sampled_from(["pcm16", "g711_ulaw"]),
    sample_rate_hz=st.none() | st.integers(8000, 9000),
    content_index=st.integers(0, 11),
    metadata=st.none() | st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)
TEXT = st.builds(TextDelta, event_id=IDS, response_id=IDS, item_id=IDS, delta=st.text(max_size=9))
SPOKEN = st.builds(
    TranscriptDelta, event_id=IDS, response_id=IDS, item_id=IDS, delta=st.text(max_size=9)
)


@given(st.lists(AUDIO | TEXT | SPOKEN, max_size=12))
def test_what_a_sizer_remembers_never_makes_it_wrong(events: list[DuplexEvent]) -> None:
    sizer = EventSizer()
    for event in events:
        assert sizer.size(event) == rendered_size(event)
