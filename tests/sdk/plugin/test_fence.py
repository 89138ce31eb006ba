from __future__ import annotations

import pytest
from duplex_sdk.plugin import (
    DuplexFence,
    belongs_to_session,
    request_epoch,
    request_session_id,
    request_turn_id,
    same_turn_requests,
    stage_request_id,
    stage_role,
)
from hypothesis import given
from hypothesis import strategies as st

ANY_TEXT = st.text(st.characters(codec=None))
NUMBERS = st.integers(0, 10**17)


@given(session=ANY_TEXT, epoch=NUMBERS, stage=st.integers(0, 99), turn=st.none() | NUMBERS)
def test_an_id_reads_back_as_what_it_was_built_from(
    session: str, epoch: int, stage: int, turn: int | None
) -> None:
    built = stage_request_id(DuplexFence(session, epoch), stage_role(stage, turn))
    assert request_session_id(built) == session
    assert request_epoch(built) == epoch
    assert request_turn_id(built) == turn
    assert belongs_to_session(built, session)


@given(session=ANY_TEXT, first=NUMBERS, second=NUMBERS)
def test_epochs_never_share_an_id(session: str, first: int, second: int) -> None:
    ids = {stage_request_id(DuplexFence(session, epoch), "stage0") for epoch in (first, second)}
    assert len(ids) == len({first, second})


@pytest.mark.parametrize(
    "malformed",
    [
        "",
        "duplex-s.YQ.e.1",
        "duplex-s.YQ.e.01.r.stage0",
        "duplex-s.YQ.e.-1.r.stage0",
        "duplex-s.YQ.e.1.r.",
        "duplex-s.YQ.e.1.r.stage0\n",
        "duplex-s.YQ==.e.1.r.stage0",
        "duplex-s.Y.e.1.r.stage0",
        "duplex-s.YR.e.1.r.stage0",
        "duplex-s._w.e.1.r.stage0",
        "duplex-s.YQ.e." + "9" * 5_000 + ".r.stage0",
        "duplex-s.YQ.e.\u0661.r.stage0",
        None,
        7,
    ],
)
def test_malformed_ids_are_nobodys(malformed: str) -> None:
    assert request_session_id(malformed) is None
    assert request_epoch(malformed) is None
    assert request_turn_id(malformed) is None
    assert not belongs_to_session(malformed, "a")
    assert same_turn_requests(malformed, [malformed]) == []


@given(ANY_TEXT)
def test_reading_any_text_raises_nothing(text: str) -> None:
    request_session_id(text)
    request_turn_id("duplex-s." + text)


def test_a_resident_request_has_no_turn() -> None:
    resident = stage_request_id(DuplexFence("s", 1, 5), stage_role(0))
    assert request_turn_id(resident) is None
    assert same_turn_requests(resident, [resident]) == []


def test_requests_of_one_turn_know_each_other() -> None:
    def request(stage: int, turn: int, *, session: str = "s", epoch: int = 3) -> str:
        return stage_request_id(DuplexFence(session, epoch), stage_role(stage, turn))

    own, sibling = request(0, 7), request(1, 7)
    strangers = [
        request(1, 8),
        request(1, 7, epoch=4),
        request(1, 7, session="t"),
        stage_request_id(DuplexFence("s", 3), "stage1"),
        "nonsense",
    ]
    assert same_turn_requests(own, [own, sibling, *strangers]) == [sibling]


@pytest.mark.parametrize("role", ["", "stage 0", "stage.0", "stäge", "stage0\n"])
def test_a_role_of_other_letters_is_refused(role: str) -> None:
    with pytest.raises(ValueError, match="role"):
        stage_request_id(DuplexFence("s"), role)


def test_fences_of_a_session_are_ordered_by_epoch_then_turn() -> None:
    fences = [DuplexFence("s", 1, 0), DuplexFence("s", 0, 9), DuplexFence("s", 1, 2)]
    ordered = sorted(fences, key=lambda fence: fence.position)
    assert [fence.position for fence in ordered] == [(0, 9), (1, 0), (1, 2)]
