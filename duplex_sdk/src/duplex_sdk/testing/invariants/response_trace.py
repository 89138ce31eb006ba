"""What a client was told of each response so far."""

from __future__ import annotations

from dataclasses import dataclass, field

from duplex_sdk.protocol.duplex import (
    AudioDelta,
    AudioTextMark,
    DuplexEvent,
    FunctionCallArgumentsDelta,
    ItemAdded,
    ItemDone,
    Listen,
    OutputItemAdded,
    ResponseCreated,
    ResponseDone,
    TextDelta,
    TranscriptDelta,
)

__all__ = ["ORDER", "RANK", "ResponseTrace", "ResponseTraces", "Told", "response_of"]

ORDER = (
    ("response.created",),
    ("response.output_item.added",),
    ("conversation.item.added",),
    ("response.content_part.added",),
    ("response.speak",),
    (
        "response.output_audio.delta",
        "response.output_audio_transcript.delta",
        "response.output_text.delta",
        "response.function_call_arguments.delta",
    ),
    (
        "response.output_audio.done",
        "response.output_text.done",
        "response.function_call_arguments.done",
    ),
    ("response.output_audio_transcript.done",),
    ("response.content_part.done",),
    ("conversation.item.done",),
    ("response.output_item.done",),
    ("response.done",),
)
RANK = {name: rank for rank, names in enumerate(ORDER) for name in names}

_TEXTS = frozenset({TranscriptDelta, TextDelta, FunctionCallArgumentsDelta})


def response_of(event: DuplexEvent) -> str | None:
    """The response an event belongs to, None for all others."""
    if event.type not in RANK:
        return None
    if type(event) is ItemAdded or type(event) is ItemDone:
        item_id = event.item.id
        return item_id.removeprefix("item_") if item_id.startswith("item_resp_") else None
    named: str = event.response_id  # type: ignore[attr-defined]
    return named


@dataclass(slots=True)
class ResponseTrace:
    """One response so far.

    Attributes:
        id: its id.
        epoch: in which it was begun.
        seen: types told, in order, deltas once.
        rank: place in the order of the last one.
        text: its deltas joined.
        marks: alignment of the text, as its audio told it.
        audio_ms: length of its audio.
        status: how it ended, None while it is open.
        overflowed: its closings may be missing.
        calls: it is a function call, and no message.
        bound: an append was to bring what it answers; ``accepted_before`` units were taken then.
        in_conversation: False: history must never see it.
        policy: its ``playback_commit_policy``.
        remembered: some of its text may enter history.
        kept: length of its text when it was cut for good; None: it never was.
    """

    id: str
    epoch: int | None = None
    seen: list[str] = field(default_factory=list)
    rank: int = -1
    text: str = ""
    marks: list[AudioTextMark] = field(default_factory=list)
    audio_ms: float = 0.0
    status: str | None = None
    overflowed: bool = False
    calls: bool = False
    bound: bool = False
    accepted_before: int = 0
    in_conversation: bool = True
    policy: str = "commit_all_on_done"
    remembered: bool = True
    kept: int | None = None

    def take(self, event: DuplexEvent) -> None:
        """It was told."""
        self.rank = RANK[event.type]
        if event.type not in self.seen:
            self.seen.append(event.type)
        kind = type(event)
        if kind in _TEXTS:
            self.text += event.delta  # type: ignore[attr-defined]
        elif isinstance(event, AudioDelta):
            self.audio_ms += event.duration_ms
            marks = (event.metadata or {}).get("audio_text_marks") or ()
            self.marks += [AudioTextMark(**mark) for mark in marks]
        elif isinstance(event, ResponseDone):
            self.status = event.response.status
        elif isinstance(event, ResponseCreated):
            self.epoch = event.epoch
            # Of the event itself, so that it is known of one that is told again too.
            ours = (event.response.metadata or {}).get("duplex") or {}
            self.in_conversation = ours.get("conversation") != "none"
        elif isinstance(event, OutputItemAdded):
            self.calls = event.item.type == "function_call"


@dataclass(slots=True)
class Told:
    """One event of a response, before it is taken into the trace.

    Attributes:
        event: the event.
        trace: what was told of its response before.
        cancelled_epoch: the newest epoch that a cancelled response ended; -1: none.
    """

    event: DuplexEvent
    trace: ResponseTrace
    cancelled_epoch: int


class ResponseTraces:
    """All responses of one session.

    Attributes:
        cancelled_epoch: the newest epoch that a cancelled response ended; -1: none.
        aside: responses outside the conversation.
    """

    def __init__(self) -> None:
        self._traces: dict[str, ResponseTrace] = {}
        self.aside: list[ResponseTrace] = []
        self.cancelled_epoch = -1

    @property
    def open_ids(self) -> tuple[str, ...]:
        """Responses that have begun and not ended."""
        return tuple(name for name, trace in self._traces.items() if trace.status is None)

    def known(self, response_id: str) -> ResponseTrace | None:
        """One response, None for one that was never told of."""
        return self._traces.get(response_id)

    def told(self, event: DuplexEvent) -> Told | None:
        """An event with what was told of its response; None for one of no response."""
        response_id = response_of(event)
        if response_id is None:
            return None
        trace = self._traces.get(response_id)
        if trace is None:
            trace = self._traces[response_id] = ResponseTrace(response_id)
        return Told(event, trace, self.cancelled_epoch)

    def break_off(self, event: Listen) -> None:
        """A response that would not end is ended: none of its text is remembered."""
        trace = self._traces.get(event.response_id or "")
        if trace is not None and event.response["metadata"]["reason"] == "continuation_limit":
            trace.remembered = False

    def take(self, told: Told) -> None:
        """It agrees with all laws: from now on it is what was told before."""
        told.trace.take(told.event)
        if told.trace.status == "cancelled" and isinstance(told.event, ResponseDone):
            assert told.event.epoch is not None
            self.cancelled_epoch = max(self.cancelled_epoch, told.event.epoch - 1)
