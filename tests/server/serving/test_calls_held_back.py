"""Random conversations in the `openai` profile: function calls wait for the open response."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from duplex_sdk.protocol.duplex import (
    AudioDelta,
    DuplexEvent,
    FunctionCallArgumentsDone,
    Item,
    ItemAdded,
    ItemDone,
    OutputItemAdded,
    OutputItemDone,
    RateLimitsUpdated,
    ResponseCreated,
    ResponseDone,
    ResponseObject,
)
from duplex_server.serving import OpenAIProfile

CONVERSATIONS = range(300)


def response(name: str, *, aside: bool = False) -> tuple[ResponseCreated, ResponseDone]:
    metadata = {"duplex": {"conversation": "none"}} if aside else None
    begun = ResponseObject(id=name, status="in_progress", output_modalities=(), metadata=metadata)
    over = ResponseObject(id=name, status="completed", output_modalities=(), metadata=metadata)
    return (
        ResponseCreated(response_id=name, response=begun),
        ResponseDone(response_id=name, response=over),
    )


def message(name: str, deltas: int, *, aside: bool = False) -> list[DuplexEvent]:
    """A response that speaks."""
    created, done = response(name, aside=aside)
    item = Item(id=f"item_{name}", type="message", role="assistant")
    shown: list[DuplexEvent] = [] if aside else [ItemAdded(item=item)]
    said = [
        AudioDelta(response_id=name, item_id=item.id, delta=bytes([n, 0]), format="pcm16")
        for n in range(deltas)
    ]
    told: list[DuplexEvent] = [] if aside else [ItemDone(item=item)]
    return [
        created,
        OutputItemAdded(response_id=name, item=item),
        *shown,
        *said,
        *told,
        OutputItemDone(response_id=name, item=item),
        done,
        RateLimitsUpdated(event_id=f"after {name}"),
    ]


def call(name: str) -> list[DuplexEvent]:
    """A response that calls a function: the core tells it in one go."""
    created, done = response(name)
    item = Item(id=f"item_{name}", type="function_call", name="f", call_id=name, arguments="{}")
    return [
        created,
        OutputItemAdded(response_id=name, item=item),
        ItemAdded(item=item),
        FunctionCallArgumentsDone(
            response_id=name, item_id=item.id, call_id=name, name="f", arguments="{}"
        ),
        ItemDone(item=item),
        OutputItemDone(response_id=name, item=item),
        done,
        RateLimitsUpdated(event_id=f"after {name}"),
    ]


def conversation(random: Random) -> list[DuplexEvent]:
    """Several answers, one after the other; over some of them functions are called."""
    stream: list[DuplexEvent] = []
    for turn in range(random.randint(1, 4)):
        stream.append(ItemAdded(item=Item(id=f"user {turn}", type="message", role="user")))
        if random.random() < 0.2:
            stream += call(f"alone {turn}")
        answer = message(f"msg {turn}", random.randint(0, 4))
        over = [call(f"call {turn} {n}") for n in range(random.randint(0, 2))]
        over += [[ItemAdded(item=Item(id=f"over {turn}", type="message", role="user"))]]
        if random.random() < 0.3:
            over += [message(f"aside {turn}", random.randint(0, 2), aside=True)]
        end = next(n for n, e in enumerate(answer) if isinstance(e, ResponseDone))
        for place in sorted((random.randint(1, end) for _ in over), reverse=True):
            answer[place:place] = over.pop(random.randrange(len(over)))
        stream += answer
    return [msgspec.structs.replace(e, event_id=f"event {n}") for n, e in enumerate(stream)]


def _owner(event: DuplexEvent) -> str:
    """The response an event tells of."""
    named = getattr(event, "response_id", None)
    if isinstance(named, str):
        return named
    if isinstance(event, ItemAdded | ItemDone):
        return event.item.id.removeprefix("item_")
    return ""


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_no_call_is_told_while_a_response_is_open_and_nothing_is_lost(seed: int) -> None:
    over_answers = 0
    for life in CONVERSATIONS:
        stream = conversation(Random(seed * len(CONVERSATIONS) + life))
        profile = OpenAIProfile()
        sent = [out for event in stream for out in profile.outgoing(event)]
        assert sorted(e.event_id for e in sent) == sorted(e.event_id for e in stream)
        open_message: str | None = None
        for event in sent:
            owner = _owner(event)
            if owner.startswith("msg") and isinstance(event, ResponseCreated):
                open_message = owner
            assert open_message is None or not owner.startswith(("call", "alone")), owner
            if owner == open_message and isinstance(event, ResponseDone):
                open_message = None
        for owner in {_owner(e) for e in stream} - {""}:
            before = [e.event_id for e in stream if _owner(e) == owner]
            assert [e.event_id for e in sent if _owner(e) == owner] == before
        over_answers += sent != stream
    assert over_answers > len(CONVERSATIONS) // 3, "hardly anything had to wait"
