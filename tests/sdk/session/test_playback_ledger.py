from __future__ import annotations

import pytest
from duplex_sdk.session.ack_target import resolve_ack_target
from duplex_sdk.session.playback import PlaybackCursor, PlaybackLedger
from duplex_sdk.session.refusal import RefusalError
from hypothesis import given
from hypothesis import strategies as st

POSITIONS = st.floats(min_value=-1000, max_value=20_000, allow_nan=False)


def cursor(sent_ms: float = 0.0, generated_ms: float | None = None) -> PlaybackCursor:
    made = sent_ms if generated_ms is None else generated_ms
    return PlaybackCursor(generated_ms=made, sent_ms=sent_ms)


def test_an_ack_counts_as_heard_unless_it_says_otherwise() -> None:
    plain, split = cursor(1000), cursor(1000)
    plain.acknowledge(600)
    split.acknowledge(600, 400)
    assert (plain.played_ms, plain.committed_ms) == (600, 600)
    assert (split.played_ms, split.committed_ms) == (600, 400)


def test_an_ack_beyond_what_was_sent_is_clamped() -> None:
    c = cursor(1000, generated_ms=3000)
    c.acknowledge(9000)
    assert (c.played_ms, c.committed_ms) == (1000, 1000)


def test_an_ack_backwards_changes_nothing() -> None:
    c = cursor(1000)
    c.acknowledge(800)
    c.acknowledge(200)
    assert (c.played_ms, c.committed_ms) == (800, 800)


def test_only_truncation_lowers_what_was_heard() -> None:
    c = cursor(2650)
    c.acknowledge(2000)
    c.truncate_committed(500)
    assert (c.played_ms, c.committed_ms) == (2000, 500)


@pytest.mark.parametrize(
    ("position", "committed"), [(9100, 2650), (2651, 2650), (2650, 2650), (-1, 0), (0, 0)]
)
def test_truncation_is_clamped_to_the_audio(position: float, committed: float) -> None:
    c = cursor(2650)
    c.truncate_committed(position)
    assert c.committed_ms == committed


def test_the_smallest_truncation_holds_also_against_later_acks() -> None:
    c = cursor(10_000)
    c.truncate_committed(4000)
    c.truncate_committed(8000)
    c.acknowledge(9000)
    assert c.committed_ms == 4000


@given(
    sent=st.floats(min_value=0, max_value=10_000),
    generated=st.floats(min_value=0, max_value=10_000),
    steps=st.lists(st.tuples(st.sampled_from(["ack", "truncate"]), POSITIONS), max_size=20),
)
def test_played_never_falls_and_committed_falls_only_by_truncation(
    sent: float, generated: float, steps: list[tuple[str, float]]
) -> None:
    c = cursor(sent, generated)
    for kind, position in steps:
        played, committed = c.played_ms, c.committed_ms
        if kind == "ack":
            c.acknowledge(position)
            assert c.committed_ms >= committed
        else:
            c.truncate_committed(position)
            assert 0 <= c.committed_ms <= max(sent, generated)
        assert c.played_ms >= played
        assert 0 <= c.played_ms <= sent


def test_heard_is_what_was_sent_until_the_client_speaks_up() -> None:
    c = cursor(3000)
    assert c.heard_ms("commit_all_on_done") == 3000
    assert c.heard_ms("ack_only") == 0
    c.acknowledge(600)
    assert c.heard_ms("commit_all_on_done") == 600


def test_truncation_to_nothing_means_that_nothing_was_heard() -> None:
    c = cursor(3000)
    c.truncate_committed(0)
    assert c.heard_ms("commit_all_on_done") == 0


def test_a_client_that_names_whole_ms_can_hear_all_of_it() -> None:
    c = cursor(1000.9)
    c.acknowledge(1000)
    assert c.complete
    assert not c.still_playing(0.0, server_vad=True)


def test_a_resampler_that_keeps_half_a_ms_leaves_no_audio_missing() -> None:
    c = cursor(sent_ms=999.6, generated_ms=1000.0)
    c.acknowledge(1000)
    assert c.complete


def test_audio_taken_back_from_the_queue_is_missing() -> None:
    c = cursor(sent_ms=400, generated_ms=1000.0)
    c.acknowledge(1000)
    assert not c.complete
    assert c.audio_ms == 1000


def test_a_stock_client_plays_in_real_time_from_the_first_audio() -> None:
    ledger = PlaybackLedger()
    ledger.open("resp_a")
    ledger.add_sent("resp_a", 500, now=10.0)
    ledger.add_sent("resp_a", 1500, now=10.1)
    assert ledger.still_playing(11.99, server_vad=True)
    assert not ledger.still_playing(12.0, server_vad=True)
    assert ledger.plays_until(server_vad=True) == 12.0


def test_without_detector_and_acks_nothing_is_known_to_play() -> None:
    ledger = PlaybackLedger()
    ledger.open("resp_a")
    ledger.add_sent("resp_a", 2000, now=10.0)
    assert not ledger.still_playing(10.1, server_vad=False)


def test_a_client_that_acks_plays_until_it_has_acked_all() -> None:
    ledger = PlaybackLedger()
    c = ledger.open("resp_a")
    ledger.add_sent("resp_a", 2000, now=10.0)
    c.acknowledge(1999)
    assert ledger.still_playing(99.0, server_vad=False)
    c.acknowledge(2000)
    assert not ledger.still_playing(10.0, server_vad=True)


def test_after_a_cut_nothing_plays_and_the_response_keeps_its_cursor() -> None:
    ledger = PlaybackLedger()
    ledger.open("resp_a")
    ledger.add_sent("resp_a", 2000, now=10.0)
    ledger.cut()
    assert not ledger.still_playing(10.0, server_vad=True)
    assert ledger.current.snapshot()["sent_ms"] == 0
    kept = ledger.cursor("resp_a")
    assert kept is not None
    assert kept.sent_ms == 2000


def test_audio_taken_back_lowers_what_was_sent() -> None:
    ledger = PlaybackLedger()
    ledger.open("resp_a")
    ledger.add_sent("resp_a", 2000, now=0.0)
    taken = ledger.take_back("resp_a", 1500)
    assert taken is not None
    assert taken.sent_ms == 500
    assert ledger.take_back("resp_x", 5) is None


def test_an_ack_for_one_response_leaves_the_other_alone() -> None:
    ledger = PlaybackLedger()
    first = ledger.open("resp_a")
    second = ledger.open("resp_b")
    ledger.add_sent("resp_a", 1000, now=0.0)
    ledger.add_sent("resp_b", 1000, now=0.0)
    first.acknowledge(700)
    assert second.snapshot() == {
        "generated_ms": 0,
        "sent_ms": 1000,
        "played_ms": 0,
        "committed_ms": 0,
    }


def test_an_open_response_is_never_released() -> None:
    ledger = PlaybackLedger()
    ledger.open("resp_a")
    assert not ledger.release("resp_a", commit_seq=0)
    ledger.finish("resp_a")
    assert ledger.release("resp_a", commit_seq=0)
    assert ledger.cursor("resp_a") is None


def test_finished_responses_are_kept_up_to_a_bound() -> None:
    ledger = PlaybackLedger(retained=3)
    evicted: list[str] = []
    for n in range(10):
        ledger.open(f"resp_{n}")
        evicted += ledger.finish(f"resp_{n}")
    assert evicted == [f"resp_{n}" for n in range(7)]
    assert len(ledger) == 3


def target(ledger: PlaybackLedger, **named: str | None) -> str:
    return resolve_ack_target(
        ledger,
        response_id=named.get("response_id"),
        item_id=named.get("item_id"),
        active_id=named.get("active_id"),
        commit_seq=1,
    )


def test_an_ack_is_resolved_by_response_then_item_then_what_waits_then_what_is_active() -> None:
    ledger = PlaybackLedger()
    ledger.open("resp_a")
    ledger.add_sent("resp_a", 100, now=0.0)
    assert target(ledger, response_id="resp_a") == "resp_a"
    assert target(ledger, item_id="item_resp_a") == "resp_a"
    assert target(ledger, active_id="resp_a") == "resp_a"
    ledger.finish("resp_a")
    ledger.open("resp_b")
    assert target(ledger, active_id="resp_b") == "resp_a"


@pytest.mark.parametrize(
    ("named", "code"),
    [
        ({"response_id": "resp_a", "item_id": "item_resp_b"}, "playback_item_mismatch"),
        ({"response_id": "resp_z"}, "playback_item_not_found"),
        ({"item_id": "item_u1"}, "playback_item_not_found"),
        ({}, "playback_item_not_found"),
    ],
)
def test_an_ack_that_means_nothing_is_refused(named: dict[str, str], code: str) -> None:
    ledger = PlaybackLedger()
    ledger.open("resp_a")
    with pytest.raises(RefusalError) as refusal:
        target(ledger, **named)
    assert refusal.value.code == code
    assert len(ledger) == 1


def test_an_ack_after_a_later_turn_and_the_release_is_too_late() -> None:
    ledger = PlaybackLedger()
    ledger.open("resp_a")
    ledger.finish("resp_a")
    ledger.release("resp_a", commit_seq=0)
    with pytest.raises(RefusalError) as refusal:
        target(ledger, response_id="resp_a")
    assert refusal.value.code == "playback_ack_too_late"


def test_an_ack_after_the_release_without_a_later_turn_finds_nothing() -> None:
    ledger = PlaybackLedger()
    ledger.open("resp_a")
    ledger.finish("resp_a")
    ledger.release("resp_a", commit_seq=1)
    with pytest.raises(RefusalError) as refusal:
        target(ledger, response_id="resp_a")
    assert refusal.value.code == "playback_item_not_found"
