from __future__ import annotations

import pytest
from duplex_sdk.session.refusal import RefusalError
from duplex_sdk.session.tools import ToolLedger


def refused(ledger: ToolLedger, call_id: str) -> RefusalError:
    with pytest.raises(RefusalError) as refusal:
        ledger.accept_result(call_id)
    return refusal.value


def test_a_result_is_accepted_once() -> None:
    ledger = ToolLedger()
    ledger.open_call("call_1", "clock", "{}", epoch=3)
    assert ledger.accept_result("call_1").status == "completed"
    second = refused(ledger, "call_1")
    assert second.code == "invalid_function_call_output"
    assert second.detail == "duplicate_function_call_output"
    assert second.param == "item.output"


def test_a_result_nobody_asked_for_is_refused() -> None:
    refusal = refused(ToolLedger(), "call_1")
    assert refusal.detail == "unknown_function_call"
    assert refusal.param == "item.call_id"
    assert "unknown_function_call" in str(refusal)


def test_a_result_of_a_deleted_call_is_late() -> None:
    ledger = ToolLedger()
    ledger.open_call("call_1", "clock", "{}", epoch=0)
    assert ledger.cancel_call("call_1")
    assert refused(ledger, "call_1").detail == "late_function_call_output"
    assert not ledger.cancel_call("call_1")


def test_deleting_an_answered_call_keeps_its_answer() -> None:
    ledger = ToolLedger()
    ledger.open_call("call_1", "clock", "{}", epoch=0)
    ledger.accept_result("call_1")
    assert not ledger.cancel_call("call_1")
    call = ledger.get("call_1")
    assert call is not None
    assert call.status == "completed"


@pytest.mark.parametrize(
    ("call_id", "name", "code"),
    [
        ("", "clock", "invalid_function_call"),
        ("call_2", "", "invalid_function_call"),
        ("call_1", "clock", "duplicate_function_call"),
    ],
)
def test_a_call_needs_a_name_and_an_id_of_its_own(call_id: str, name: str, code: str) -> None:
    ledger = ToolLedger()
    ledger.open_call("call_1", "clock", "{}", epoch=0)
    with pytest.raises(RefusalError) as refusal:
        ledger.open_call(call_id, name, "{}", epoch=0)
    assert refusal.value.code == code
    assert len(ledger) == 1


def test_results_pile_up_only_so_far() -> None:
    ledger = ToolLedger(max_unread=2)
    for n in range(3):
        ledger.open_call(f"call_{n}", "clock", "{}", epoch=0)
    ledger.accept_result("call_0")
    ledger.accept_result("call_1")
    assert refused(ledger, "call_2").code == "function_response_backlog"
    assert ledger.unread == ("call_0", "call_1")
    ledger.mark_read("call_0")
    assert ledger.accept_result("call_2").status == "completed"
    for call_id in ledger.unread:
        ledger.mark_read(call_id)
    assert not ledger.unread


def test_settled_calls_are_forgotten_before_open_ones() -> None:
    ledger = ToolLedger(max_unread=100, retained=2)
    ledger.open_call("call_open", "clock", "{}", epoch=0)
    for n in range(5):
        ledger.open_call(f"call_{n}", "clock", "{}", epoch=0)
        ledger.accept_result(f"call_{n}")
    assert len(ledger) == 3
    assert ledger.get("call_open") is not None
    assert refused(ledger, "call_0").detail == "unknown_function_call"


def test_of_too_many_open_calls_the_oldest_are_given_up() -> None:
    ledger = ToolLedger(retained=2)
    for n in range(10):
        ledger.open_call(f"call_{n}", "clock", "{}", epoch=0)
    assert len(ledger) == 4
    assert refused(ledger, "call_7").detail == "late_function_call_output"
    assert refused(ledger, "call_0").detail == "unknown_function_call"
    assert ledger.accept_result("call_8").status == "completed"
    assert ledger.accept_result("call_9").status == "completed"
