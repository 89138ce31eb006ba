from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from duplex_sdk.protocol.duplex import (
    AudioDelta,
    DuplexErrorDetails,
    DuplexEvent,
    ErrorEvent,
    ResponseDone,
    ResponseObject,
    SessionClosed,
    SessionExpired,
    TranscriptDelta,
)
from duplex_sdk.session.event_size import event_size
from duplex_sdk.session.output_queue import (
    DuplexOutputOverflowError,
    OutputLimits,
    OutputQueue,
)
from hypothesis import given
from hypothesis import strategies as st


def queue(**limits: Any) -> OutputQueue:
    return OutputQueue(OutputLimits(**limits))


def audio(n: int = 960, *, response: str = "resp_a", epoch: int | None = 0) -> AudioDelta:
    return AudioDelta(
        event_id="event_1",
        epoch=epoch,
        response_id=response,
        item_id=f"item_{response}",
        delta=bytes(n),
        format="pcm16",
        sample_rate_hz=24_000,
        duration_ms=n / 48,
    )


def words(text: str = "word", response: str = "resp_a") -> TranscriptDelta:
    return TranscriptDelta(
        event_id="event_2", response_id=response, item_id=f"item_{response}", delta=text
    )


def error() -> ErrorEvent:
    details = DuplexErrorDetails(type="server_error", code="output_backpressure", message="full")
    return ErrorEvent(event_id="event_3", error=details)


def done(response: str = "resp_a") -> ResponseDone:
    ended = ResponseObject(id=response, status="failed", output_modalities=("audio",))
    return ResponseDone(event_id="event_4", response_id=response, response=ended)


def closed(reason: str = "client_close") -> SessionClosed:
    return SessionClosed(event_id="event_5", session_id="duplex-1", reason=reason)


def drain(q: OutputQueue) -> list[DuplexEvent]:
    taken = []
    while (event := q.get(0.0)) is not None:
        taken.append(event)
    return taken


def test_ordinary_bytes_fit_to_the_last_one() -> None:
    size = event_size(words())
    q = queue(max_bytes=3 * size)
    for _ in range(3):
        assert q.put(words(), 0.0)
    with pytest.raises(DuplexOutputOverflowError) as overflow:
        q.put(words(), 0.0)
    assert overflow.value.limit == "bytes"
    assert q.pending_bytes == 3 * size


def test_one_byte_too_many_does_not_fit() -> None:
    size = event_size(words())
    with pytest.raises(DuplexOutputOverflowError):
        queue(max_bytes=size - 1).put(words(), 0.0)


def test_ordinary_events_fit_to_the_last_one() -> None:
    q = queue(max_events=3)
    for _ in range(3):
        q.put(words(), 0.0)
    with pytest.raises(DuplexOutputOverflowError) as overflow:
        q.put(words(), 0.0)
    assert overflow.value.limit == "events"
    assert q.pending_events == 3


def test_errors_and_endings_use_the_reserve_and_keep_their_place() -> None:
    q = queue(max_events=1, reserve_events=2)
    q.put(words("first"), 0.0)
    q.put(done(), 0.0)
    q.put(error(), 0.0)
    with pytest.raises(DuplexOutputOverflowError):
        q.put(error(), 0.0)
    q.get(0.0)
    q.put(words("last"), 0.0)
    assert [type(event) for event in drain(q)] == [ResponseDone, ErrorEvent, TranscriptDelta]


def test_the_reserve_fits_to_the_last_byte() -> None:
    size = event_size(error())
    exact = queue(max_events=1, reserve_bytes=size)
    short = queue(max_events=1, reserve_bytes=size - 1)
    for q in (exact, short):
        q.put(words(), 0.0)
    exact.put(error(), 0.0)
    with pytest.raises(DuplexOutputOverflowError):
        short.put(error(), 0.0)


def test_room_in_the_reserve_comes_back_to_the_reserve() -> None:
    q = queue(max_events=1, reserve_events=1)
    q.put(words(), 0.0)
    q.put(error(), 0.0)
    q.get(0.0)
    q.get(0.0)
    assert q.pending_bytes == 0
    q.put(words(), 0.0)
    q.put(error(), 0.0)


def test_the_held_event_is_outside_the_budget() -> None:
    q = queue(max_events=1)
    q.put(words(), 0.0)
    q.get(0.0)
    assert (q.pending_bytes, q.pending_events) == (0, 0)
    q.put(words(), 0.0)


def test_the_terminal_comes_last_and_once_even_from_a_full_queue() -> None:
    q = queue(max_events=1, reserve_events=1)
    q.put(words(), 0.0)
    q.put(error(), 0.0)
    assert q.put(closed("output_backpressure"), 0.0)
    assert not q.put(words(), 0.0)
    assert not q.put(closed("again"), 0.0)
    taken = drain(q)
    assert [type(event) for event in taken] == [TranscriptDelta, ErrorEvent, SessionClosed]
    assert taken[-1] == closed("output_backpressure")
    assert q.exhausted
    assert q.get(0.0) is None


def test_an_expiry_is_a_terminal_too() -> None:
    q = queue()
    q.put(SessionExpired(event_id="event_6", reason="idle_ttl_expired"), 0.0)
    assert q.closed
    assert len(drain(q)) == 1


def test_a_queue_can_close_without_a_terminal() -> None:
    q = queue()
    q.put(words(), 0.0)
    q.close()
    assert not q.exhausted
    assert len(drain(q)) == 1
    assert q.exhausted


@pytest.mark.parametrize(("extra", "cut"), [(0, False), (1, True)])
def test_details_of_a_close_are_cut_beyond_four_kilobytes(extra: int, cut: bool) -> None:
    room = 4096 - event_size(closed(""))
    terminal = closed("x" * (room + extra))
    q = queue()
    q.put(terminal, 0.0)
    (taken,) = drain(q)
    assert isinstance(taken, SessionClosed)
    assert (taken.event_id, taken.session_id) == ("event_5", "duplex-1")
    assert (taken.reason == "close_details_exceed_output_limit") is cut
    assert (taken == terminal) is not cut


def test_invalidation_removes_audio_of_that_response_up_to_that_epoch_only() -> None:
    q = queue()
    stale = [audio(epoch=0), audio(epoch=1)]
    kept: list[DuplexEvent] = [
        words("a"),
        audio(epoch=2),
        audio(epoch=None),
        audio(response="resp_b"),
        done(),
    ]
    for event in (kept[0], stale[0], kept[1], kept[2], stale[1], kept[3], kept[4]):
        q.put(event, 0.0)
    removed = q.invalidate("resp_a", 1)
    assert removed.events == 2
    assert removed.duration_ms == 40.0
    assert removed.size == sum(map(event_size, stale))
    assert q.pending_bytes == sum(map(event_size, kept))
    assert drain(q) == kept


def test_held_audio_becomes_invalid_and_counts_as_removed() -> None:
    q = queue()
    q.put(audio(), 0.0)
    held = q.get(0.0)
    assert held is not None
    assert q.is_valid(held)
    assert q.invalidate("resp_a", 0).duration_ms == 20.0
    assert not q.is_valid(held)
    assert not q.settle(held)
    assert q.invalidate("resp_a", 0).duration_ms == 0.0


def test_audio_that_was_settled_is_not_taken_back() -> None:
    q = queue()
    q.put(audio(), 0.0)
    held = q.get(0.0)
    assert held is not None
    assert q.settle(held)
    assert q.invalidate("resp_a", 0).duration_ms == 0.0


def test_audio_is_valid_only_while_it_is_held() -> None:
    q = queue()
    q.put(audio(), 0.0)
    q.put(words(), 0.0)
    held = q.get(0.0)
    assert held is not None
    following = q.get(0.0)
    assert following is not None
    assert not q.is_valid(held)
    assert q.is_valid(following)


def test_output_waits_for_a_reader_that_reads() -> None:
    q = queue(max_events=10, stall_timeout_s=5.0)
    for _ in range(5):
        q.put(words(), 0.0)
    assert not q.holds_back(0.0)
    q.put(words(), 0.0)
    assert q.holds_back(4.9)
    assert not q.holds_back(5.0)


def test_taking_an_event_shows_that_the_reader_lives() -> None:
    q = queue(max_events=10, stall_timeout_s=5.0)
    for _ in range(8):
        q.put(words(), 0.0)
    q.get(4.0)
    assert q.holds_back(8.9)
    assert not q.holds_back(9.0)


def test_a_reader_that_had_nothing_to_take_has_not_stalled() -> None:
    q = queue(max_events=10, stall_timeout_s=5.0)
    q.put(words(), 0.0)
    q.get(0.0)
    for _ in range(6):
        q.put(words(), 100.0)
    assert q.holds_back(100.0)


@pytest.mark.parametrize("field", ["max_bytes", "max_events", "reserve_bytes", "reserve_events"])
def test_a_limit_of_nothing_is_refused(field: str) -> None:
    with pytest.raises(ValueError, match="above 0"):
        OutputLimits(**{field: 0})


OPERATIONS = st.one_of(
    st.tuples(st.just("audio"), st.integers(0, 400), st.integers(0, 2)),
    st.tuples(st.sampled_from(["words", "error", "done"]), st.just(0), st.just(0)),
    st.tuples(st.just("get"), st.just(0), st.just(0)),
    st.tuples(st.just("invalidate"), st.just(0), st.integers(0, 2)),
)


@given(st.lists(OPERATIONS, max_size=60), st.integers(200, 3000), st.integers(1, 8))
def test_budgets_order_and_validity_hold_on_any_way(
    operations: list[tuple[str, int, int]], max_bytes: int, max_events: int
) -> None:
    limits = OutputLimits(
        max_bytes=max_bytes, max_events=max_events, reserve_bytes=400, reserve_events=2
    )
    q = OutputQueue(limits)
    model: list[DuplexEvent] = []
    make: dict[str, Callable[[], DuplexEvent]] = {"words": words, "error": error, "done": done}
    for kind, n, epoch in operations:
        if kind == "get":
            expected = model.pop(0) if model else None
            assert q.get(0.0) is expected
        elif kind == "invalidate":
            q.invalidate("resp_a", epoch)
            model = [
                e
                for e in model
                if not (isinstance(e, AudioDelta) and e.epoch is not None and e.epoch <= epoch)
            ]
        else:
            event = audio(n, epoch=epoch) if kind == "audio" else make[kind]()
            try:
                q.put(event, 0.0)
            except DuplexOutputOverflowError:
                pass
            else:
                model.append(event)
        assert q.pending_bytes == sum(map(event_size, model))
        assert q.pending_events == len(model)
        assert q.pending_bytes <= max_bytes + limits.reserve_bytes
        assert q.pending_events <= max_events + limits.reserve_events
    q.put(closed(), 0.0)
    assert drain(q) == [*model, closed()]
