"""One response while it is open: what was opened of it and what it has said so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from duplex_sdk.protocol.duplex import RisingMarks

from .stage_metrics import StageMetrics

if TYPE_CHECKING:
    from duplex_sdk.audio import OutputEncoder
    from duplex_sdk.plugin import DuplexSessionConfig
    from duplex_sdk.stage import TokenUsage

__all__ = ["MOST_TEXT", "Response", "fitting", "json_size"]

MOST_TEXT = 320 * 1024
"""Bytes of one answer's text in JSON, hours of speech. At its end five events tell all of it: each
must fit a frame, and all of them the output that waits for its reader."""

MOST_MARKS = 1024
"""As many as an answer of 80 s has with one for each 80 ms; beyond that older ones are thinned."""

MOST_PIECES = 1024
"""A string of its own takes ten times as much memory as the word in it."""


@dataclass(slots=True)
class Response:
    """The open response of a session.

    Text is kept as pieces and counted, and seldom joined before the end: the cost of a delta must
    not grow with the length of the answer.

    Attributes:
        id: ``resp_`` and 32 hex characters.
        epoch: the epoch it began in.
        turn_id: the model turn it answers.
        commit_seq: how many user inputs had been committed when it began.
        config: the session's config with this response's own options applied.
        metadata: the client's own pairs, None when it gave none.
        in_conversation: False for an out-of-band response, which history never sees.
        apart: it runs beside the one of the conversation by a stage request of its own: out of
            band, or the last of an earlier turn while the next one is answered already.
        request_id: that request; empty until it is planned.
        releases: the model can begin another turn while this one still speaks.
        bound: an append carries what it answers; while that append is under way nothing ends it.
        audio_ms: length of the audio generated so far, from samples.
        item_id: of its assistant message item.
        speaks: whether it has audio; else it is written.
        text_bytes: of its text, in JSON.
        full: it has as much text as an answer may have.
        usage: tokens it cost so far; None: no stage told of any.
    """

    id: str
    epoch: int
    turn_id: int
    commit_seq: int
    config: DuplexSessionConfig
    metadata: dict[str, str] | None = None
    in_conversation: bool = True
    apart: bool = False
    request_id: str = ""
    releases: bool = False
    bound: bool = False
    encoder: OutputEncoder | None = None
    text_pieces: list[str] = field(default_factory=list)
    text_chars: int = 0
    text_bytes: int = 0
    full: bool = False
    audio_ms: float = 0.0
    marks: RisingMarks = field(default_factory=lambda: RisingMarks(most=MOST_MARKS))
    item_open: bool = False
    audio_part_open: bool = False
    text_part_open: bool = False
    spoke: bool = False
    requires_complete_audio: bool = False
    audio_complete: bool = False
    stage_metrics: StageMetrics = field(default_factory=dict)
    finish_reason: str = ""
    usage: TokenUsage | None = None
    item_id: str = field(init=False)
    speaks: bool = field(init=False)

    def __post_init__(self) -> None:
        self.item_id = f"item_{self.id}"
        self.speaks = "audio" in self.config.modalities

    @property
    def text(self) -> str:
        """All text so far."""
        if len(self.text_pieces) > 1:
            self.text_pieces = ["".join(self.text_pieces)]
        return self.text_pieces[0] if self.text_pieces else ""

    def fit(self, piece: str) -> str:
        """So much of new text as an answer may still take; if that is not all, it is ``full``."""
        size, left = json_size(piece), MOST_TEXT - self.text_bytes
        if size > left:
            self.full = True
            piece = fitting(piece, left)
            size = json_size(piece)
        self.text_bytes += size
        return piece

    def add_text(self, piece: str) -> None:
        """Take in a new piece of text."""
        self.text_pieces.append(piece)
        if len(self.text_pieces) > MOST_PIECES:
            self.text_pieces = ["".join(self.text_pieces)]
        self.text_chars += len(piece)


def json_size(text: str) -> int:
    """Bytes of a text in JSON, without the quotes."""
    return len(msgspec.json.encode(text)) - 2


def fitting(text: str, most: int) -> str:
    """The text, or where it takes more than so many bytes in JSON, a beginning of it."""
    # No character takes more than six.
    return text if json_size(text) <= most else text[: max(0, most) // 6]
