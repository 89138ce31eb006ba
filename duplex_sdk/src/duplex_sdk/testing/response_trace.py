"""What a client must see of each response: everything opened once, closed once, in order."""

from __future__ import annotations

from dataclasses import dataclass, field

from duplex_sdk.protocol.duplex import (
    AudioDelta,
    DuplexEvent,
    FunctionCallArgumentsDelta,
    Item,
    ItemAdded,
    ItemDone,
    ResponseDone,
    TextDelta,
    TextDone,
    TranscriptDelta,
    TranscriptDone,
)

__all__ = ["ResponseTrace", "ResponseTraces", "response_of"]

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
REPEATED = RANK["response.output_audio.delta"]
PAIRS = (
    ("response.output_item.added", "response.output_item.done"),
    ("conversation.item.added", "conversation.item.done"),
    ("response.content_part.added", "response.content_part.done"),
)


def response_of(event: DuplexEvent) -> str | None:
    """The response an event belongs to, None for all others."""
    named = getattr(event, "response_id", None)
    if isinstance(named, str):
        return named if event.type in RANK else None
    item = getattr(event, "item", None)
    if isinstance(event, ItemAdded | ItemDone) and isinstance(item, Item):
        return item.id.removeprefix("item_") if item.id.startswith("item_resp_") else None
    return None


@dataclass(slots=True)
class ResponseTrace:
    """One response so far.

    Attributes:
        seen: types told, in order, deltas once.
        rank: place in the order of the last one.
        text: its deltas joined.
        status: how it ended, None while it is open.
        overflowed: its closings may be missing.
    """

    seen: list[str] = field(default_factory=list)
    rank: int = -1
    text: str = ""
    status: str | None = None
    overflowed: bool = False

    def tell(self, event: DuplexEvent) -> None:
        """Take the next event in.

        Raises:
            AssertionError: it comes out of order, twice, or does not fit what was told before.
        """
        assert self.status is None, f"{event.type} follows the end of its response"
        rank = RANK[event.type]
        again = rank == self.rank == REPEATED
        assert rank > self.rank or again, f"{event.type} follows {self.seen[-1]}"
        assert self.seen or event.type == "response.created", f"{event.type} opens a response"
        if event.type not in self.seen:
            self.seen.append(event.type)
        self.rank = rank
        self._take_text(event)
        if isinstance(event, ResponseDone):
            self.status = event.response.status
            self._check_closed()

    def _take_text(self, event: DuplexEvent) -> None:
        if isinstance(event, TranscriptDelta | TextDelta | FunctionCallArgumentsDelta):
            self.text += event.delta
        elif isinstance(event, TranscriptDone):
            assert event.transcript == self.text, "the transcript is not what its deltas said"
        elif isinstance(event, TextDone):
            assert event.text == self.text, "the text is not what its deltas said"

    def _check_closed(self) -> None:
        if self.overflowed:
            return
        for opening, closing in PAIRS:
            told = (opening in self.seen, closing in self.seen)
            assert told[0] == told[1], f"{opening} without {closing}, or the other way round"


class ResponseTraces:
    """All responses of one session."""

    def __init__(self) -> None:
        self._traces: dict[str, ResponseTrace] = {}

    @property
    def open_ids(self) -> tuple[str, ...]:
        """Responses that have begun and not ended."""
        return tuple(name for name, trace in self._traces.items() if trace.status is None)

    def trace(self, response_id: str) -> ResponseTrace:
        """One response; a fresh trace for an unknown one."""
        return self._traces.setdefault(response_id, ResponseTrace())

    def tell(self, event: DuplexEvent, *, overflowed: bool = False) -> None:
        """Take the next event of the session in; see ``ResponseTrace.tell``."""
        response_id = response_of(event)
        if response_id is None:
            return
        trace = self.trace(response_id)
        trace.overflowed = trace.overflowed or overflowed
        trace.tell(event)

    def audio_ms(self, events: list[DuplexEvent], response_id: str) -> float:
        """Length of a response's audio among these events."""
        return sum(
            event.duration_ms
            for event in events
            if isinstance(event, AudioDelta) and event.response_id == response_id
        )
