"""Laws 92 to 105: what waits for its reader, and what a reader that comes back is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duplex_sdk.protocol.duplex import AudioDelta, ResponseDone, SessionClosed
from duplex_sdk.session import inputs
from duplex_sdk.session.event_size import event_size

from .law import law
from .line_step import Resumed, Sent
from .queue_step import (
    Changing,
    Cut,
    Full,
    Got,
    Invalidated,
    Over,
    Put,
    ReadAll,
    Refused,
    is_audio_of,
    unchanged,
)

if TYPE_CHECKING:
    from duplex_sdk.protocol.duplex import DuplexEvent

    from .step import Rest, Step


# of the queue


@law(92, "queue", Full)
def the_queue_stays_within_its_budget(put: Put) -> bool:
    """And within its reserve, when more waits than ordinary events may take or one was refused."""
    limits, queue = put.limits, put.queue
    assert queue.pending_bytes <= limits.max_bytes + limits.reserve_bytes
    assert queue.pending_events <= limits.max_events + limits.reserve_events
    return True


@law(93, "queue", Refused)
def a_full_queue_counts_every_byte(put: Put) -> bool:
    """What waits adds up to what is accounted."""
    total = sum(map(event_size, put.life.waits))
    assert put.queue.pending_bytes == total, f"{put.queue.pending_bytes} of {total} bytes"
    return True


@law(93, "rest")
def an_empty_queue_holds_no_bytes(rest: Rest) -> bool:
    """All of what its client could read is out of the account."""
    if not rest.reading:
        return False
    assert not rest.queued_bytes, f"{rest.queued_bytes} bytes of nothing"
    return rest.life.terminals > 0 or bool(rest.life.told)


@law(94, "queue", Refused)
def a_refused_event_changes_nothing(put: Put) -> bool:
    """The queue is as it was."""
    assert (put.queue.pending_bytes, put.queue.pending_events) == put.before
    return True


@law(95, "queue", Got)
def events_are_handed_out_in_their_order(got: Got) -> bool:
    """None is left out but audio that was taken back."""
    if got.event is got.expected:
        return True
    assert isinstance(got.event, SessionClosed), f"{got.event.type} is not the first in line"
    return False


@law(96, "queue", Over)
def the_end_of_a_session_is_handed_out_last(got: Got) -> bool:
    """Once, and behind all that waited."""
    assert not got.life.terminals, f"{got.event.type} follows the end"
    if got.event is got.expected or not isinstance(got.event, SessionClosed):
        return False
    assert got.expected is None, "something is left behind the end"
    return True


@law(96, "queue", ReadAll)
def the_end_of_a_session_finds_room(read: ReadAll) -> bool:
    """However full the queue was: whoever reads gets it."""
    assert read.ends == read.queue.closed, f"{read.ends} ends of a session were read"
    return read.queue.closed


@law(97, "queue", Invalidated)
def audio_that_was_taken_back_is_gone(taken: Invalidated) -> bool:
    """From the queue, and from the hands of a reader that has not passed it on."""
    for event in _waiting(taken):
        assert not is_audio_of(event, taken.response_id, taken.through_epoch), "it still waits"
    held = taken.held
    if held is not None and is_audio_of(held, taken.response_id, taken.through_epoch):
        assert not taken.queue.is_valid(held), "the reader's is still good"
    return taken.removed.events > 0


@law(97, "queue", Cut)
def audio_that_was_taken_back_never_comes(got: Got) -> bool:
    """Not even when it is offered again."""
    event = got.event
    if type(event) is not AudioDelta or event.response_id not in got.life.cut:
        return False
    assert not is_audio_of(event, event.response_id, got.life.cut[event.response_id])
    return True


@law(98, "queue", Invalidated)
def all_but_audio_survives(taken: Invalidated) -> bool:
    """In its order."""
    kept = [id(event) for event in _waiting(taken) if type(event) is not AudioDelta]
    had = [id(event) for event in taken.before if type(event) is not AudioDelta]
    assert kept == had, f"{len(had) - len(kept)} others went with the audio"
    return bool(had) and taken.removed.events > 0


@law(99, "queue", Changing)
def a_queued_event_never_changes(got: Got) -> bool:
    """It is written as when it was taken in."""
    same = unchanged(got.event, got.life)
    assert same is not False, f"{got.event.type} changed while it waited"
    return same is True


def _waiting(taken: Invalidated) -> list[DuplexEvent]:
    return taken.queue.waiting


# of the session


@law(101, "step", inputs.OutputRefused)
def an_overflowed_response_is_out_of_the_conversation(step: Step) -> bool:
    """It ends once, as failed, and no message of it stays."""
    looked = False
    for event in step.tells(ResponseDone):
        details = event.response.status_details
        if details is None or details.reason != "output_backpressure":
            continue
        assert event.response.status == "failed"
        shown = step.state.history.message(f"item_{event.response_id}")
        assert shown is None, "its words stay"
        looked = True
    return looked


# of the line


@law(102, "line", Sent)
def numbers_on_the_wire_have_no_gap(sent: Sent) -> bool:
    """They go on where the connection began, until a loss is announced."""
    if sent.number is None:
        assert sent.announced, "an event without a number, and nothing was announced"
        return True
    assert not sent.announced, "a number follows the announcement of a loss"
    assert sent.number == sent.last + 1, f"{sent.number} follows {sent.last}"
    return True


@law(103, "line", Resumed)
def a_resume_replays_what_was_missed(resumed: Resumed) -> bool:
    """All of it and nothing else, as it was sent; or it says that this cannot be."""
    expected = [number for number in resumed.sent if number > resumed.seen]
    if resumed.replayed is None:
        lost = resumed.overflowed or resumed.seen < resumed.boundary
        assert lost, "it was refused for nothing"
        return True
    assert [number for number, _ in resumed.replayed] == expected
    for number, frame in resumed.replayed:
        assert frame == resumed.sent[number], f"event {number} changed"
    return bool(expected)
