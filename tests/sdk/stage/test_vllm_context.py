"""The ledger of a vllm session's tokens: what its request holds, and what it must be given."""

from __future__ import annotations

import pytest
from duplex_sdk.stage import Array
from duplex_sdk.stage.vllm import Embeddings, TokenContext


def rows(count: int, first: int = 0) -> Embeddings:
    """Embeddings of two bytes for each position, numbered."""
    data = bytes(number for row in range(first, first + count) for number in (row, row))
    return Embeddings(Array(data, "uint8", (count, 2)))


def answered(context: TokenContext, *asked: int, said: tuple[int, ...]) -> None:
    """A unit that was fed whole and answered."""
    context.begin_span([asked])
    context.all_fed()
    context.sampled(said)
    context.segment_ended()


@pytest.fixture
def context() -> TokenContext:
    return TokenContext()


def test_the_last_token_of_an_answer_is_fed_again_before_the_next_unit(
    context: TokenContext,
) -> None:
    answered(context, 1, 2, said=(7, 8))
    context.begin_span([(3,)])
    assert context.unfed() == ((8, 3),)
    assert context.length == 5


def test_a_token_that_is_not_needed_is_forgotten(context: TokenContext) -> None:
    answered(context, 1, 2, said=(7, 8))
    context.forget_last_token()
    context.begin_span([(3,)])
    assert context.unfed() == ((3,),)
    assert context.token_ids == (1, 2, 7, 3)


def test_a_lost_request_is_followed_by_one_that_is_given_everything(context: TokenContext) -> None:
    answered(context, 1, 2, said=(7, 8))
    context.request_lost()
    context.begin_span([(3,)])
    assert context.unfed() == ((1, 2, 7, 8, 3),)


def test_what_is_handed_out_is_never_what_is_kept(context: TokenContext) -> None:
    context.begin_span([(1, 2)])
    (piece,) = context.unfed()
    assert isinstance(piece, tuple)
    context.all_fed()
    context.sampled([9])
    assert piece == (1, 2)


def test_embeddings_keep_their_place_among_tokens(context: TokenContext) -> None:
    context.begin_span([(1,), rows(3), (2,)])
    assert context.length == 5
    assert context.unfed() == ((1,), rows(3), (2,))
    assert context.token_ids is None


def test_a_unit_is_fed_from_where_the_request_stands(context: TokenContext) -> None:
    context.begin_span([rows(2)])
    context.all_fed()
    context.sampled([5])
    context.segment_ended()
    context.begin_span([rows(2, first=2), (6,)])
    assert context.unfed() == ((5,), rows(2, first=2), (6,))


def test_rolling_over_drops_whole_units_but_not_the_first(context: TokenContext) -> None:
    for number in range(5):
        answered(context, 10 * number, 10 * number + 1, said=(10 * number + 2,))
    assert context.roll_over(9, keep_first=1) == 6
    assert context.token_ids == (0, 1, 2, 30, 31, 32, 40, 41, 42)
    assert context.unfed() == ((0, 1, 2, 30, 31, 32, 40, 41, 42),)


def test_rolling_over_keeps_the_last_unit_whatever_is_asked(context: TokenContext) -> None:
    answered(context, 1, 2, 3, said=(4,))
    assert context.roll_over(1, keep_first=0) == 0
    assert context.length == 4
    assert context.fed == 3


def test_a_discarded_turn_leaves_the_turns_before_it(context: TokenContext) -> None:
    answered(context, 1, said=(2,))
    context.end_turn()
    answered(context, 3, said=(4,))
    assert context.discard_turn()
    assert context.token_ids == (1, 2)
    assert not context.discard_turn()


def test_discarding_after_rolling_over_finds_the_turn_where_it_is_now(
    context: TokenContext,
) -> None:
    for number in (1, 3, 5):
        answered(context, number, said=(number + 1,))
    context.end_turn()
    answered(context, 7, said=(8,))
    assert context.roll_over(6, keep_first=1) == 2
    context.discard_turn()
    assert context.token_ids == (1, 2, 5, 6)


def test_a_unit_that_failed_leaves_no_trace(context: TokenContext) -> None:
    answered(context, 1, said=(2,))
    context.begin_span([(3, 4)])
    context.undo_span()
    assert (context.length, context.fed) == (2, 1)
    context.begin_span([(5,)])
    assert context.unfed() == ((2, 5),)
