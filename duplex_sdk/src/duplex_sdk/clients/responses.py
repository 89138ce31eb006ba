"""One response as its reader sees it: audio as it comes, the words, the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Self

from duplex_sdk.protocol.duplex import (
    AudioDelta,
    AudioDone,
    DuplexEvent,
    FunctionCallArgumentsDone,
    OutputAudioCleared,
    ResponseCreated,
    ResponseDone,
    TextDelta,
    TranscriptDelta,
)

from .player import audio_ms
from .streams import BoundedStream

__all__ = ["ResponseHandle", "ResponseStream"]


class ResponseHandle:
    """A response in progress or done. Belongs to the client's loop.

    Attributes:
        response_id: the server's id of this response.
        metadata: what ``response.created`` carried, empty when nothing.
        audio_format: canonical name of the audio's format; None before the first audio.
        sample_rate_hz: rate of the audio; None before the first audio.
        received_ms: how much audio came, in ms.
    """

    def __init__(self, created: ResponseCreated, *, stream_size: int) -> None:
        self.response_id = created.response_id
        self.metadata = created.response.metadata or {}
        self.audio_format: str | None = None
        self.sample_rate_hz: int | None = None
        self.received_ms = 0.0
        self._audio: BoundedStream[bytes] = BoundedStream(stream_size)
        self._transcript: list[str] = []
        self._text: list[str] = []
        self._calls: list[FunctionCallArgumentsDone] = []
        self._done: ResponseDone | None = None
        self._failure: Exception | None = None
        self._ended = asyncio.Event()

    @property
    def item_id(self) -> str:
        """Id of the message item of this response."""
        return f"item_{self.response_id}"

    @property
    def transcript(self) -> str:
        """The words spoken so far."""
        return "".join(self._transcript)

    @property
    def text(self) -> str:
        """The answer so far: what was written, or else what was spoken."""
        return "".join(self._text) or self.transcript

    @property
    def function_calls(self) -> tuple[FunctionCallArgumentsDone, ...]:
        """The calls this response made."""
        return tuple(self._calls)

    @property
    def finished(self) -> bool:
        """Whether the response ended, in whatever way."""
        return self._ended.is_set()

    @property
    def status(self) -> str:
        """``in_progress`` until the end, then the status the server gave."""
        return "in_progress" if self._done is None else self._done.response.status

    def audio(self) -> AsyncIterator[bytes]:
        """The audio in the negotiated format, piece by piece; one reader.

        Ends with the response. When the response is cancelled, or its output cleared, what was
        not read yet is thrown away: an interrupted answer falls silent at once.

        Raises:
            SubscriberOverflowError: the reader let more than the client's queue size pile up.
        """
        return self._audio

    async def wait(self) -> ResponseDone:
        """Return the end of this response.

        Raises:
            ClientError: the session or connection ended first.
        """
        await self._ended.wait()
        if self._done is None:
            assert self._failure is not None
            raise self._failure
        return self._done

    def take(self, event: DuplexEvent) -> None:
        """Note an event of this response; called by the client in order of arrival."""
        match event:
            case AudioDelta():
                self._take_audio(event)
            case TranscriptDelta():
                self._transcript.append(event.delta)
            case TextDelta():
                self._text.append(event.delta)
            case AudioDone():
                self._audio.finish()
            case FunctionCallArgumentsDone():
                self._calls.append(event)
            case OutputAudioCleared():
                self._audio.close()
            case ResponseDone():
                self._finish(event)

    def fail(self, failure: Exception) -> None:
        """The session ended before this response did."""
        if self.finished:
            return
        self._failure = failure
        self._audio.finish(failure)
        self._ended.set()

    def _take_audio(self, event: AudioDelta) -> None:
        self.audio_format = event.format
        if event.sample_rate_hz is not None:
            self.sample_rate_hz = event.sample_rate_hz
        self.received_ms += audio_ms(event)
        self._audio.put(event.delta)

    def _finish(self, event: ResponseDone) -> None:
        self._done = event
        if event.response.status == "cancelled":
            self._audio.close()
        else:
            self._audio.finish()
        self._ended.set()


class ResponseStream(AsyncIterator[ResponseHandle]):
    """The responses of a session, as one listener sees them: each begins, and is then fed.

    Responses may interleave (a function call beside speech), so nothing goes by order alone.
    Iteration ends with the session.
    """

    def __init__(self, *, stream_size: int, on_close: Callable[[ResponseStream], None]) -> None:
        self._stream_size = stream_size
        self._on_close = on_close
        self._begun: BoundedStream[ResponseHandle] = BoundedStream(
            stream_size, on_close=self._stream_ended
        )
        self._open: dict[str, ResponseHandle] = {}
        self._last: ResponseHandle | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ResponseHandle:
        return await anext(self._begun)

    def close(self) -> None:
        """The listener is no longer interested; handles it holds are no longer fed."""
        self._begun.close()

    def take(self, event: DuplexEvent) -> None:
        """Note an event of the session; called by the client in order of arrival."""
        if isinstance(event, ResponseCreated):
            self._begin(event)
            return
        if isinstance(event, OutputAudioCleared):
            self._cleared(event)
            return
        handle = self._open.get(getattr(event, "response_id", None) or "")
        if handle is None:
            return
        handle.take(event)
        if handle.finished:
            del self._open[handle.response_id]

    def finish(self, failure: Exception, *, orderly: bool) -> None:
        """The session is over: quietly when it ended in order, else by raising ``failure``."""
        for handle in self._open.values():
            handle.fail(failure)
        self._open.clear()
        self._begun.finish(None if orderly else failure)

    def _begin(self, event: ResponseCreated) -> None:
        handle = ResponseHandle(event, stream_size=self._stream_size)
        self._open[handle.response_id] = handle
        self._last = handle
        self._begun.put(handle)

    def _cleared(self, event: OutputAudioCleared) -> None:
        # A finished response can still hold audio that its reader has not taken.
        handle = self._open.get(event.response_id or "", self._last)
        if handle is not None and event.response_id in (None, handle.response_id):
            handle.take(event)

    def _stream_ended(self, _: BoundedStream[ResponseHandle]) -> None:
        self._on_close(self)
