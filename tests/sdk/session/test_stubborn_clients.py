"""114: whatever a client repeats without end, what its session holds stops growing."""

from __future__ import annotations

import gc
import types
from collections.abc import Callable
from typing import Any

import pytest
from duplex_sdk.protocol.duplex import (
    AckPlayback,
    BargeIn,
    CancelResponse,
    ClearInput,
    Commit,
    CreateItem,
    CreateResponse,
    DeleteItem,
    RealtimeCommand,
    RetrieveItem,
    SignalTurn,
    TruncateItem,
    UpdateSession,
)
from duplex_sdk.session.message_log import HistoryLimits
from duplex_sdk.testing.session_lab import SessionLab, tone

ROUNDS = 130
SOUND = tone(100)
PART = {"type": "input_text", "text": "hello " * 20}
_NOT_ITS_OWN = (type, types.ModuleType, types.FunctionType, types.MethodType, types.CodeType)

Behaviour = Callable[[SessionLab, int], None]


def item(number: int, **fields: Any) -> CreateItem:
    return CreateItem(item={"role": "user", "content": [PART], "id": f"i{number}"} | fields)


def said(*commands: Callable[[int], RealtimeCommand]) -> Behaviour:
    def do(lab: SessionLab, number: int) -> None:
        lab.send(*(command(number) for command in commands))

    return do


def talks(lab: SessionLab, number: int) -> None:
    """Whole turns; nothing is ever acknowledged."""
    lab.append(SOUND)
    lab.send(Commit(response_create=True))
    lab.run(120)


def interrupts(lab: SessionLab, number: int) -> None:
    lab.append(SOUND)
    lab.send(Commit(response_create=True))
    lab.run(50)
    lab.send(BargeIn() if number % 2 else CancelResponse())


STUBBORN: dict[str, Behaviour] = {
    "talks": talks,
    "interrupts": interrupts,
    "commits nothing": said(lambda _: Commit()),
    "asks for answers": said(lambda _: CreateResponse()),
    "writes": said(item),
    "writes and deletes": said(item, lambda number: DeleteItem(item_id=f"i{number}")),
    "cuts what never was": said(lambda n: TruncateItem(item_id=f"item_resp_{n}", audio_end_ms=1)),
    "heard what never was": said(lambda n: AckPlayback(played_ms=1, response_id=f"resp_{n}")),
    "deletes what never was": said(lambda n: DeleteItem(item_id=f"i{n}")),
    "reads what never was": said(lambda n: RetrieveItem(item_id=f"i{n}")),
    "answers calls nobody made": said(
        lambda n: CreateItem(item={"type": "function_call_output", "call_id": str(n), "output": ""})
    ),
    "changes its mind": said(
        lambda n: UpdateSession(
            session={"temperature": 0.5 + n % 2 / 10, "metadata": {"n": str(n)}}
        )
    ),
    "signals": said(lambda n: SignalTurn(event=f"e{n}")),
    "clears": said(lambda _: ClearInput()),
}


def held(lab: SessionLab) -> int:
    """How many objects a session keeps alive, those it shares with others left out."""
    shared = {id(each) for each in (lab.plugin, lab.pipeline, lab.limits, lab.capabilities)}
    seen: set[int] = set(shared)
    todo: list[Any] = [lab.session.state]
    while todo:
        each = todo.pop()
        if id(each) in seen or isinstance(each, _NOT_ITS_OWN):
            continue
        seen.add(id(each))
        todo.extend(gc.get_referents(each))
    return len(seen) - len(shared)


@pytest.fixture
def lab(make_lab: Any, monkeypatch: pytest.MonkeyPatch) -> SessionLab:
    # Bounds that a hundred repetitions reach.
    small = HistoryLimits(characters=8_000)
    monkeypatch.setattr("duplex_sdk.session.history.HistoryLimits", lambda: small)
    monkeypatch.setattr(
        "duplex_sdk.session.conversation_items.ConversationItems.__init__.__defaults__", (8_000,)
    )
    made: SessionLab = make_lab(
        script={"turns": "commit", "pace": "burst", "answers": [{"ms": 100, "delay_ms": 0}]}
    )
    return made


@pytest.mark.parametrize("behaviour", STUBBORN)
def test_a_client_that_repeats_itself_costs_no_more_and_no_more(
    lab: SessionLab, behaviour: str
) -> None:
    sizes = []
    for rounds in range(3):
        for number in range(ROUNDS):
            STUBBORN[behaviour](lab, rounds * ROUNDS + number)
        lab.run(1000)
        lab.events.clear()
        sizes.append(held(lab))
    assert not lab.session.closed
    assert sizes[2] <= sizes[1] + 100, sizes
