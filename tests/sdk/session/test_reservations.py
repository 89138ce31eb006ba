from __future__ import annotations

import pytest
from duplex_sdk.session.reservations import ByteLedger, Reservation, TurnLedger
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

LIMIT = 100


def reserved(ledger: ByteLedger, amount: int) -> Reservation:
    token = ledger.reserve(amount)
    assert token is not None
    return token


def test_room_is_reserved_to_the_last_byte_and_not_beyond() -> None:
    ledger = ByteLedger(LIMIT)
    reserved(ledger, LIMIT)
    assert ledger.reserve(1) is None
    assert (ledger.total, ledger.room) == (LIMIT, 0)


def test_a_negative_amount_counts_as_nothing() -> None:
    ledger = ByteLedger(LIMIT)
    assert reserved(ledger, -5).amount == 0
    assert ledger.total == 0


def test_a_second_release_gives_nothing_back() -> None:
    ledger = ByteLedger(LIMIT)
    token = reserved(ledger, 40)
    reserved(ledger, 40)
    assert token.release() == 40
    assert token.release() == 0
    assert ledger.total == 40
    assert not token.active


def test_a_reservation_grows_only_into_room() -> None:
    ledger = ByteLedger(LIMIT)
    token = reserved(ledger, 40)
    reserved(ledger, 50)
    assert not token.resize(51)
    assert token.amount == 40
    assert token.resize(50)
    assert ledger.room == 0
    assert token.resize(0)
    assert ledger.total == 50


def test_a_released_reservation_does_not_come_back() -> None:
    ledger = ByteLedger(LIMIT)
    token = reserved(ledger, 40)
    token.release()
    assert not token.resize(10)
    with pytest.raises(ValueError, match="released"):
        token.split(1)
    assert ledger.total == 0


def test_splitting_and_absorbing_move_bytes_without_counting_them_twice() -> None:
    ledger = ByteLedger(LIMIT)
    whole = reserved(ledger, 60)
    part = whole.split(25)
    assert (whole.amount, part.amount, ledger.total) == (35, 25, 60)
    whole.absorb(part)
    assert (whole.amount, part.active, ledger.total) == (60, False, 60)
    whole.absorb(part)
    assert ledger.total == 60


def test_a_reservation_of_another_ledger_is_not_absorbed() -> None:
    ours, theirs = reserved(ByteLedger(LIMIT), 1), reserved(ByteLedger(LIMIT), 1)
    with pytest.raises(ValueError, match="same ledger"):
        ours.absorb(theirs)
    assert theirs.active


def test_turns_are_counted_one_by_one() -> None:
    ledger = TurnLedger(2)
    first = ledger.reserve_turn()
    assert ledger.reserve_turn() is not None
    assert ledger.reserve_turn() is None
    assert first is not None
    first.release()
    assert ledger.reserve_turn() is not None


def test_a_ledger_without_room_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="above 0"):
        ByteLedger(0)


class Accounting(RuleBasedStateMachine):
    """The total is always what the live tokens hold, within the limit."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = ByteLedger(LIMIT)
        self.tokens: list[Reservation] = []

    @rule(amount=st.integers(-10, 150))
    def reserve(self, amount: int) -> None:
        token = self.ledger.reserve(amount)
        if token is not None:
            self.tokens.append(token)

    @rule(n=st.integers(0, 20))
    def release(self, n: int) -> None:
        if self.tokens:
            self.tokens[n % len(self.tokens)].release()

    @rule(n=st.integers(0, 20), amount=st.integers(-10, 150))
    def resize(self, n: int, amount: int) -> None:
        if self.tokens:
            self.tokens[n % len(self.tokens)].resize(amount)

    @rule(n=st.integers(0, 20), amount=st.integers(-10, 150))
    def split(self, n: int, amount: int) -> None:
        if self.tokens and (token := self.tokens[n % len(self.tokens)]).active:
            self.tokens.append(token.split(amount))

    @rule(n=st.integers(0, 20), m=st.integers(0, 20))
    def absorb(self, n: int, m: int) -> None:
        if not self.tokens:
            return
        one, other = self.tokens[n % len(self.tokens)], self.tokens[m % len(self.tokens)]
        if one is not other and one.active:
            one.absorb(other)

    @invariant()
    def total_is_exact(self) -> None:
        assert self.ledger.total == sum(token.amount for token in self.tokens)
        assert 0 <= self.ledger.total <= LIMIT


TestAccounting = Accounting.TestCase
