from __future__ import annotations

import pytest
from duplex_sdk.plugin import DuplexFence, DuplexFenceMismatchError
from duplex_sdk.session.append_sequence import AppendSequence, StaleAppendError
from hypothesis import given
from hypothesis import strategies as st

SESSION = "duplex-1"


def fence(epoch: int = 0, turn_id: int = 0, session_id: str = SESSION) -> DuplexFence:
    return DuplexFence(session_id, epoch, turn_id)


def accept(sequence: AppendSequence, at: DuplexFence) -> tuple[int, int]:
    numbers = sequence.prepare(at)
    sequence.commit(numbers)
    return (numbers.seq, numbers.turn_seq)


def test_appends_count_in_the_epoch_and_in_the_turn() -> None:
    sequence = AppendSequence(SESSION)
    steps = [fence(), fence(), fence(0, 1), fence(0, 1), fence(1, 1), fence(1, 1), fence(1, 2)]
    assert [accept(sequence, at) for at in steps] == [
        (1, 1),
        (2, 2),
        (3, 1),
        (4, 2),
        (1, 1),
        (2, 2),
        (3, 1),
    ]


def test_preparing_changes_nothing() -> None:
    sequence = AppendSequence(SESSION)
    assert sequence.prepare(fence(3)) == sequence.prepare(fence(3))
    assert sequence.accepted_fence == fence()
    assert (sequence.seq, sequence.turn_seq) == (0, 0)


def test_the_second_of_two_prepared_appends_is_stale() -> None:
    sequence = AppendSequence(SESSION)
    first, second = sequence.prepare(fence()), sequence.prepare(fence())
    sequence.commit(first)
    with pytest.raises(StaleAppendError):
        sequence.commit(second)
    assert (sequence.seq, sequence.turn_seq) == (1, 1)


def test_an_epoch_that_comes_between_makes_an_append_stale() -> None:
    sequence = AppendSequence(SESSION)
    numbers = sequence.prepare(fence())
    sequence.accept_fence(fence(1))
    with pytest.raises(StaleAppendError):
        sequence.commit(numbers)
    assert sequence.accepted_fence == fence(1)
    assert sequence.seq == 0


@pytest.mark.parametrize("refused", [fence(0, 9), fence(1, 0), fence(2, 5, session_id="duplex-2")])
def test_an_older_or_foreign_fence_is_refused(refused: DuplexFence) -> None:
    sequence = AppendSequence(SESSION)
    sequence.accept_fence(fence(1, 1))
    for attempt in (sequence.accept_fence, sequence.prepare):
        with pytest.raises(DuplexFenceMismatchError) as mismatch:
            attempt(refused)
        assert (mismatch.value.expected, mismatch.value.actual) == (fence(1, 1), refused)
    assert sequence.accepted_fence == fence(1, 1)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.booleans()), max_size=40))
def test_numbers_have_no_gap_whatever_is_prepared_in_vain(
    steps: list[tuple[int, int, bool]],
) -> None:
    sequence = AppendSequence(SESSION)
    accepted: list[tuple[tuple[int, int], int, int]] = []
    epoch = turn_id = 0
    for more_epochs, more_turns, commits in steps:
        epoch, turn_id = epoch + more_epochs // 2, turn_id + more_turns // 2
        at = fence(epoch, turn_id)
        numbers = sequence.prepare(at)
        if commits:
            sequence.commit(numbers)
            accepted.append((at.position, numbers.seq, numbers.turn_seq))
    for e in {position[0] for position, _, _ in accepted}:
        seqs = [seq for position, seq, _ in accepted if position[0] == e]
        assert seqs == list(range(1, len(seqs) + 1))
    for p in {position for position, _, _ in accepted}:
        turn_seqs = [turn_seq for position, _, turn_seq in accepted if position == p]
        assert turn_seqs == list(range(1, len(turn_seqs) + 1))
