"""How many bytes an event takes as JSON, without making that JSON for every delta."""

from __future__ import annotations

import msgspec

from duplex_sdk.protocol.duplex import AudioDelta, DuplexEvent, TextDelta, TranscriptDelta

__all__ = ["EventSizer", "event_size"]

_encode = msgspec.json.Encoder().encode
_METADATA_KEY = len(b',"metadata":')


def event_size(event: DuplexEvent) -> int:
    """Bytes of an event's compact UTF-8 JSON; base64 audio is counted, not made."""
    if isinstance(event, AudioDelta):
        bare = msgspec.structs.replace(event, delta=b"")
        return _base64_length(event.delta) + len(_encode(bare.to_realtime()))
    return len(_encode(event.to_realtime()))


class EventSizer:
    """``event_size`` for the events of one session, quick for deltas.

    The deltas of a response differ in id, content and metadata only. What the rest of them takes
    is worked out once: rendering each would cost more than all else on its way.
    """

    __slots__ = ("_audio_key", "_audio_rest", "_text_key", "_text_rest")

    def __init__(self) -> None:
        self._audio_key: tuple[object, ...] | None = None
        self._audio_rest = 0
        self._text_key: tuple[object, ...] | None = None
        self._text_rest = 0

    def size(self, event: DuplexEvent) -> int:
        """The same as ``event_size``, exactly."""
        kind = type(event)
        if kind is AudioDelta:
            return self._audio(event)  # type: ignore[arg-type]
        if kind is TranscriptDelta or kind is TextDelta:
            return self._text(event)  # type: ignore[arg-type]
        return event_size(event)

    def _audio(self, event: AudioDelta) -> int:
        key = (
            event.response_id,
            event.item_id,
            event.output_index,
            event.content_index,
            event.format,
            event.sample_rate_hz,
        )
        if key != self._audio_key:
            bare = msgspec.structs.replace(event, event_id="", delta=b"", metadata=None)
            self._audio_rest = len(_encode(bare.to_realtime())) - len(b'""')
            self._audio_key = key
        size = self._audio_rest + len(_encode(event.event_id)) + _base64_length(event.delta)
        if event.metadata is not None:
            size += _METADATA_KEY + len(_encode(event.metadata))
        return size

    def _text(self, event: TranscriptDelta | TextDelta) -> int:
        key = (
            event.type,
            event.response_id,
            event.item_id,
            event.output_index,
            event.content_index,
        )
        if key != self._text_key:
            bare = msgspec.structs.replace(event, event_id="", delta="")
            self._text_rest = len(_encode(bare.to_realtime())) - 2 * len(b'""')
            self._text_key = key
        return self._text_rest + len(_encode(event.event_id)) + len(_encode(event.delta))


def _base64_length(data: bytes) -> int:
    return 4 * ((len(data) + 2) // 3)
