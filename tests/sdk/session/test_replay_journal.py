from __future__ import annotations

import json
from typing import Any

import pytest
from duplex_sdk.session.replay_journal import (
    JournalGapError,
    JournalPositionError,
    ReplayJournal,
)
from hypothesis import given
from hypothesis import strategies as st


def journal(max_bytes: int = 10_000, ttl_s: float = 60.0, **options: Any) -> ReplayJournal:
    return ReplayJournal(max_bytes, ttl_s, **options)


def event(n: int = 0) -> dict[str, Any]:
    return {"type": "response.listen", "n": n}


def filled(count: int, **options: Any) -> ReplayJournal:
    kept = journal(**options)
    for n in range(1, count + 1):
        kept.append(event(n), 0.0)
    return kept


def numbers(frames: tuple[bytes, ...]) -> list[int]:
    return [json.loads(frame)["server_event_seq"] for frame in frames]


def test_events_are_numbered_from_one_and_carry_their_number() -> None:
    kept = journal()
    payload = event()
    first, second = kept.append(payload, 0.0), kept.append(payload, 0.0)
    assert (first.seq, second.seq) == (1, 2)
    assert json.loads(second.frame) == {**payload, "server_event_seq": 2}
    assert "server_event_seq" not in payload


def test_replay_is_what_came_after_unchanged_and_in_order() -> None:
    kept = journal()
    frames = [kept.append(event(n), 0.0).frame for n in range(5)]
    assert kept.replay_after(2, 0.0) == tuple(frames[2:])
    assert kept.replay_after(5, 0.0) == ()
    assert kept.replay_after(0, 0.0) == tuple(frames)


def test_acknowledged_events_are_gone() -> None:
    kept = filled(5)
    kept.acknowledge(3)
    assert kept.boundary == 3
    assert numbers(kept.replay_after(3, 0.0)) == [4, 5]
    with pytest.raises(JournalGapError):
        kept.replay_after(2, 0.0)


def test_acknowledging_again_or_backwards_changes_nothing() -> None:
    kept = filled(5)
    kept.acknowledge(3)
    kept.acknowledge(3)
    kept.acknowledge(0)
    assert numbers(kept.replay_after(3, 0.0)) == [4, 5]


@pytest.mark.parametrize("seq", [-1, 6])
def test_acknowledging_what_was_never_sent_is_refused(seq: int) -> None:
    kept = filled(5)
    with pytest.raises(JournalPositionError):
        kept.acknowledge(seq)
    assert kept.boundary == 0


def test_a_replay_position_beyond_the_newest_is_refused() -> None:
    with pytest.raises(JournalPositionError):
        filled(5).replay_after(6, 0.0)


def test_events_grow_too_old() -> None:
    kept = journal(ttl_s=60.0)
    kept.append(event(), 0.0)
    kept.append(event(), 30.0)
    assert numbers(kept.replay_after(0, 60.0)) == [1, 2]
    assert numbers(kept.replay_after(1, 60.1)) == [2]
    with pytest.raises(JournalGapError):
        kept.replay_after(0, 60.1)


def test_bytes_fit_to_the_last_one() -> None:
    size = len(journal().append(event(), 0.0).frame)
    exact, short = journal(max_bytes=2 * size), journal(max_bytes=2 * size - 1)
    for kept in (exact, short):
        kept.append(event(), 0.0)
    assert not exact.append(event(), 0.0).overflowed
    assert exact.byte_count == 2 * size
    assert short.append(event(), 0.0).overflowed


def test_an_acknowledgement_makes_room() -> None:
    size = len(journal().append(event(), 0.0).frame)
    kept = journal(max_bytes=2 * size)
    for seq in range(1, 9):
        assert kept.append(event(), 0.0).seq == seq
        kept.acknowledge(seq)
    assert kept.byte_count == 0


def test_an_overflow_is_told_once_and_is_for_ever() -> None:
    kept = journal(max_bytes=100)
    while not (last := kept.append(event(), 0.0)).overflowed:
        pass
    assert last.seq is None
    assert json.loads(last.frame) == event()
    following = kept.append(event(), 0.0)
    assert (following.seq, following.overflowed) == (None, False)
    assert kept.byte_count == 0
    for seq in (0, kept.newest):
        with pytest.raises(JournalGapError):
            kept.replay_after(seq, 0.0)


def test_a_journal_can_begin_late() -> None:
    kept = journal(max_bytes=60, keeping=False)
    for n in range(1, 50):
        assert kept.append(event(n), 0.0).seq == n
    assert kept.byte_count == 0
    kept.keep()
    assert kept.boundary == 49
    assert kept.append(event(50), 0.0).seq == 50
    assert numbers(kept.replay_after(49, 0.0)) == [50]
    with pytest.raises(JournalGapError):
        kept.replay_after(48, 0.0)


STEPS = st.lists(
    st.tuples(st.sampled_from(["append", "ack", "wait", "replay"]), st.integers(0, 40)),
    max_size=80,
)


@given(STEPS, st.integers(100, 600))
def test_replay_has_no_silent_hole(steps: list[tuple[str, int]], max_bytes: int) -> None:
    kept = journal(max_bytes=max_bytes, ttl_s=60.0)
    now, sent = 0.0, 0
    for kind, n in steps:
        if kind == "append":
            journaled = kept.append(event(n), now)
            if journaled.seq is not None:
                assert journaled.seq == sent + 1
                sent = journaled.seq
            else:
                assert kept.overflowed
        elif kind == "ack" and n <= sent:
            kept.acknowledge(n)
        elif kind == "wait":
            now += n
        elif kind == "replay" and n <= sent:
            try:
                frames = kept.replay_after(n, now)
            except JournalGapError:
                assert kept.overflowed or n < kept.boundary
            else:
                assert numbers(frames) == list(range(n + 1, sent + 1))
        assert kept.byte_count <= max_bytes
