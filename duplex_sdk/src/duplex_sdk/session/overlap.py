"""What becomes of input while a response is in progress: the overlap policy, as one table."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Any, Literal

__all__ = [
    "SHORT_ACKNOWLEDGEMENTS",
    "OverlapDecisionResult",
    "OverlapSnapshot",
    "decide_overlap",
    "overlap_applies",
]

OverlapAction = Literal["barge_in", "listen", "drop"]

INTERRUPT_HINTS = frozenset({"barge_in", "interrupt", "cancel"})
LISTEN_HINTS = frozenset({"listen", "continue", "continue_output", "ack"})
DROP_HINTS = frozenset({"drop", "ignore", "silence"})

SHORT_ACKNOWLEDGEMENTS = frozenset(
    {
        *("ok", "okay", "yes", "yeah", "yep", "yup", "right", "sure", "go on", "i see", "uh huh"),
        *("uh-huh", "mm", "mhm", "mm-hmm", "mmhmm", "hm", "hmm", "got it", "aha", "ah", "oh"),
        *("嗯", "嗯嗯", "好", "好的", "对", "对对", "是", "是的", "行", "可以", "哦", "继续"),
        *("はい", "ええ", "うん", "うんうん", "そう", "そうですね", "なるほど", "へえ"),
        *("네", "예", "응", "그래", "그렇군요", "맞아요", "음"),
    }
)
"""What people say to show that they follow; in lower case, without punctuation around it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlapSnapshot:
    """All that the decision may depend on.

    Attributes:
        policy: the session's ``overlap_policy``; a plugin's own name acts as
            ``barge_in_on_sustained_speech``.
        supports_barge_in: the model can be interrupted.
        auto_responds: the session answers unasked.
        is_speech: the append is speech.
        duration_ms: its length.
        overlap_speech_ms: overlap speech before it.
        short_ack_ms: overlap speech up to this is a short acknowledgement.
        barge_in_ms: overlap speech from this on is sustained.
        overlap_hint: the client's ``overlap_action``.
        force_barge_in: the client insists on interrupting.
        force_listen: the client insists on not interrupting.
        transcript: what the client thinks was said.
        vad_onset: an utterance began in it; False: it was running before; None: no detector.
        has_frames: it carries video frames.
        frames_alone_allowed: the model takes video without audio.
        short_acks: see ``SHORT_ACKNOWLEDGEMENTS``.
    """

    policy: str
    supports_barge_in: bool
    auto_responds: bool
    is_speech: bool
    duration_ms: int
    overlap_speech_ms: int
    short_ack_ms: int
    barge_in_ms: int
    overlap_hint: str | None = None
    force_barge_in: bool = False
    force_listen: bool = False
    transcript: str | None = None
    vad_onset: bool | None = None
    has_frames: bool = False
    frames_alone_allowed: bool = False
    short_acks: frozenset[str] = SHORT_ACKNOWLEDGEMENTS

    @property
    def accumulated_ms(self) -> int:
        """Overlap speech with this append, if it is speech."""
        return self.overlap_speech_ms + (self.duration_ms if self.is_speech else 0)

    @property
    def server_reason(self) -> str:
        """Why a cancel that the server decides happened."""
        return "barge_in" if self.vad_onset is None else "turn_detected"


@dataclass(frozen=True, slots=True)
class OverlapDecisionResult:
    """What to do with one append.

    Attributes:
        overlap_speech_ms: the new value of the counter.
        buffer_audio: keep the audio.
        defer_append: keep it back from the stage until the response is over.
        force_listen: the model must only listen to it.
        cancel_reason: of a ``barge_in``, why the response ends.
    """

    action: OverlapAction
    reason: str
    duration_ms: int
    overlap_speech_ms: int
    buffer_audio: bool
    defer_append: bool = False
    force_listen: bool = False
    cancel_reason: str | None = None

    def metadata(self) -> dict[str, Any]:
        """The decision as ``overlap.decision`` shows it, a fresh dict."""
        shown: dict[str, Any] = {
            "action": self.action,
            "reason": self.reason,
            "duration_ms": self.duration_ms,
            "overlap_speech_ms": self.overlap_speech_ms,
            "buffer_audio": self.buffer_audio,
        }
        if self.defer_append:
            shown["defer_runtime_append"] = True
        if self.force_listen:
            shown["force_listen"] = True
        return shown


def overlap_applies(snapshot: OverlapSnapshot) -> bool:
    """Whether there is anything to decide; otherwise input simply streams on."""
    hinted = snapshot.overlap_hint is not None or snapshot.force_barge_in or snapshot.force_listen
    return not snapshot.auto_responds or hinted or snapshot.policy != "listen_only"


def is_short_acknowledgement(transcript: str | None, words: frozenset[str]) -> bool:
    """Whether a transcript is nothing but a word of assent."""
    if transcript is None:
        return False
    return _bare(" ".join(transcript.casefold().split())) in words


def _bare(text: str) -> str:
    """The text without punctuation, symbols and spaces around it, of any script."""
    start, end = 0, len(text)
    while start < end and unicodedata.category(text[start])[0] in "PSZ":
        start += 1
    while end > start and unicodedata.category(text[end - 1])[0] in "PSZ":
        end -= 1
    return text[start:end]


def decide_overlap(snapshot: OverlapSnapshot) -> OverlapDecisionResult:
    """Decide about one append; the first row that fits wins. Pure."""
    return (
        _by_client_hint(snapshot)
        or _by_auto_response(snapshot)
        or _by_content(snapshot)
        or _by_policy(snapshot)
    )


def _listen(
    snapshot: OverlapSnapshot,
    reason: str,
    *,
    total_ms: int,
    buffer: bool,
    defer: bool,
    force_listen: bool = False,
) -> OverlapDecisionResult:
    return OverlapDecisionResult(
        "listen",
        reason,
        snapshot.duration_ms,
        total_ms,
        buffer_audio=buffer,
        defer_append=defer,
        force_listen=force_listen,
    )


def _drop(snapshot: OverlapSnapshot, reason: str, *, total_ms: int) -> OverlapDecisionResult:
    return OverlapDecisionResult("drop", reason, snapshot.duration_ms, total_ms, buffer_audio=False)


def _barge_in(snapshot: OverlapSnapshot, reason: str, cancel_reason: str) -> OverlapDecisionResult:
    return OverlapDecisionResult(
        "barge_in",
        reason,
        snapshot.duration_ms,
        snapshot.accumulated_ms,
        buffer_audio=True,
        cancel_reason=cancel_reason,
    )


def _unsupported(snapshot: OverlapSnapshot) -> OverlapDecisionResult:
    return _listen(
        snapshot,
        "barge_in_unsupported",
        total_ms=snapshot.accumulated_ms,
        buffer=snapshot.is_speech,
        defer=True,
    )


def _by_client_hint(snapshot: OverlapSnapshot) -> OverlapDecisionResult | None:
    """Rows 1 to 5: what the client asked for."""
    hint = snapshot.overlap_hint
    wants_barge_in = hint in INTERRUPT_HINTS or snapshot.force_barge_in
    if wants_barge_in and not snapshot.supports_barge_in:
        return _unsupported(snapshot)
    if hint in INTERRUPT_HINTS:
        return _barge_in(snapshot, "client_overlap_action", "barge_in")
    if hint in LISTEN_HINTS:
        longer = snapshot.duration_ms > snapshot.short_ack_ms
        keep = hint == "listen" and snapshot.is_speech and longer
        return _listen(snapshot, "client_overlap_action", total_ms=0, buffer=keep, defer=True)
    if hint in DROP_HINTS:
        return _drop(snapshot, "client_overlap_action", total_ms=0)
    if snapshot.force_barge_in:
        return _barge_in(snapshot, "client_force_barge_in", "barge_in")
    return None


def _by_auto_response(snapshot: OverlapSnapshot) -> OverlapDecisionResult | None:
    """Rows 6 and 7: a session that answers unasked hears everything at once."""
    if not snapshot.auto_responds:
        return None
    if snapshot.is_speech and snapshot.supports_barge_in and _interrupts_auto(snapshot):
        onset = snapshot.vad_onset is True
        reason = "server_vad_speech_started" if onset else "barge_in_on_speech"
        return _barge_in(snapshot, reason, snapshot.server_reason)
    return _listen(
        snapshot,
        "auto_response_continuous",
        total_ms=snapshot.accumulated_ms,
        buffer=True,
        defer=False,
        force_listen=snapshot.force_listen,
    )


def _interrupts_auto(snapshot: OverlapSnapshot) -> bool:
    if snapshot.policy == "listen_only":
        return False
    if snapshot.policy == "barge_in_on_speech":
        return snapshot.vad_onset is not False
    return snapshot.accumulated_ms >= snapshot.barge_in_ms


def _by_content(snapshot: OverlapSnapshot) -> OverlapDecisionResult | None:
    """Rows 8 to 11: what the append holds."""
    if snapshot.force_listen:
        return _listen(
            snapshot,
            "client_force_listen",
            total_ms=0,
            buffer=snapshot.is_speech,
            defer=True,
            force_listen=True,
        )
    total = snapshot.overlap_speech_ms
    if not snapshot.is_speech:
        if snapshot.has_frames and snapshot.frames_alone_allowed:
            return _listen(snapshot, "vision_follow", total_ms=total, buffer=True, defer=False)
        return _drop(snapshot, "silence_or_noise", total_ms=total)
    if is_short_acknowledgement(snapshot.transcript, snapshot.short_acks):
        return _listen(snapshot, "short_ack_transcript", total_ms=0, buffer=False, defer=True)
    return None


def _by_policy(snapshot: OverlapSnapshot) -> OverlapDecisionResult:
    """Rows 12 to 16: speech, and the session's policy decides."""
    total = snapshot.accumulated_ms
    if snapshot.policy == "listen_only":
        return _listen(snapshot, "policy_listen_only", total_ms=total, buffer=True, defer=True)
    if snapshot.policy == "barge_in_on_speech":
        return _on_speech(snapshot)
    if total <= snapshot.short_ack_ms:
        return _listen(snapshot, "short_ack", total_ms=total, buffer=True, defer=True)
    if total < snapshot.barge_in_ms:
        return _listen(
            snapshot, "accumulating_overlap_speech", total_ms=total, buffer=True, defer=True
        )
    if not snapshot.supports_barge_in:
        return _unsupported(snapshot)
    return _barge_in(snapshot, "long_overlap_speech", snapshot.server_reason)


def _on_speech(snapshot: OverlapSnapshot) -> OverlapDecisionResult:
    if not snapshot.supports_barge_in:
        return _unsupported(snapshot)
    if snapshot.vad_onset is False:
        return _listen(
            snapshot,
            "server_vad_utterance_active",
            total_ms=snapshot.accumulated_ms,
            buffer=True,
            defer=False,
            force_listen=True,
        )
    onset = snapshot.vad_onset is True
    reason = "server_vad_speech_started" if onset else "policy_barge_in_on_speech"
    return _barge_in(snapshot, reason, snapshot.server_reason)
