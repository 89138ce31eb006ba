"""What a client can ask of its session: one method per command of the protocol."""

from __future__ import annotations

import itertools
import secrets
from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, Iterable, Mapping
from typing import Any

from duplex_sdk.protocol.duplex import (
    AckPlayback,
    AppendAudio,
    CancelResponse,
    ClearInput,
    ClearOutputAudio,
    Commit,
    CreateItem,
    CreateResponse,
    DeleteItem,
    InputCleared,
    InputCommitted,
    ItemAdded,
    ItemDeleted,
    ItemRetrieved,
    ItemTruncated,
    Listen,
    OutputAudioCleared,
    PlaybackAcknowledged,
    RealtimeCommand,
    ResponseCreated,
    ResponseDone,
    RetrieveItem,
    SessionUpdated,
    TruncateItem,
    UpdateSession,
)

from .answers import RESPONSE_TAG
from .pacing import paced
from .receipts import Receipt

__all__ = ["SessionCommands"]

_MAX_METADATA = 16


class SessionCommands(ABC):
    """The commands. Each method sends and returns at once, with a receipt.

    ``await receipt.acknowledged()`` waits for the answer, and raises what the server refused the
    command with. Who does not ask learns of a refusal from the error event alone.
    """

    def __init__(self) -> None:
        self._event_numbers = itertools.count(1)

    def _new_event_id(self) -> str:
        return f"client_{next(self._event_numbers)}"

    @abstractmethod
    async def _send(self, command: RealtimeCommand) -> Receipt[Any]:
        """Send a command under its own ``event_id``, or a fresh one.

        Raises:
            ClientConnectionError: the transport is gone.
            ClientSessionClosedError: the session is over.
        """

    # Speaking

    async def append_audio(
        self,
        audio: bytes,
        *,
        format: str | None = None,
        sample_rate_hz: int | None = None,
        is_speech: bool | None = None,
    ) -> str:
        """Send input audio, by default in the session's input format; returns the event id.

        Nothing answers audio that was taken. An error event names the id of what was refused.
        """
        receipt = await self._send(
            AppendAudio(
                audio=audio, format=format, sample_rate_hz=sample_rate_hz, is_speech=is_speech
            )
        )
        return receipt.event_id

    async def stream_pcm(
        self,
        source: bytes | Iterable[bytes] | AsyncIterable[bytes],
        *,
        sample_rate_hz: int,
        chunk_ms: int = 40,
        declare_rate: bool = False,
    ) -> None:
        """Send mono PCM16 as a microphone would: in chunks, at the speed of speech.

        Args:
            source: all of it, or pieces of any size.
            sample_rate_hz: its rate, which must be the session's unless it is declared.
            chunk_ms: length of one append.
            declare_rate: state the rate with every append.
        """
        rate = sample_rate_hz if declare_rate else None
        async for chunk in paced(source, bytes_per_second=2 * sample_rate_hz, chunk_ms=chunk_ms):
            await self.append_audio(chunk, sample_rate_hz=rate)

    async def commit(
        self,
        *,
        response_create: bool | None = None,
        final: bool = True,
        is_speech: bool | None = None,
    ) -> Receipt[InputCommitted]:
        """Seal the input so far into one user item.

        With a detector in force its own commits look the same: the next one may be taken for the
        answer to this. One that is not ``final`` only flushes, and nothing answers it.
        """
        return await self._send(
            Commit(final=final, response_create=response_create, is_speech=is_speech)
        )

    async def clear_input(self) -> Receipt[InputCleared]:
        """Drop the input that no commit has sealed."""
        return await self._send(ClearInput())

    # Answers

    async def create_response(self, **options: Any) -> Receipt[ResponseCreated | Listen]:
        """Ask for an answer to what was committed; options hold for this response only.

        Its metadata gets a pair ``client_event_id``, by which the receipt knows it, unless that
        would be one pair too many. The model may choose to listen, which is an answer too; in a
        session that responds by itself the next such choice is taken for it.
        """
        event_id = self._new_event_id()
        tagged = {RESPONSE_TAG: event_id} | (options.get("metadata") or {})
        if len(tagged) <= _MAX_METADATA:
            options["metadata"] = tagged
        return await self._send(CreateResponse(event_id=event_id, response=options))

    async def cancel_response(self, response_id: str | None = None) -> Receipt[ResponseDone]:
        """End the active response at once."""
        return await self._send(CancelResponse(response_id=response_id))

    async def clear_output(self, response_id: str | None = None) -> Receipt[OutputAudioCleared]:
        """Discard output audio that was not sent, and stop its response."""
        return await self._send(ClearOutputAudio(response_id=response_id))

    async def ack_playback(
        self,
        played_ms: float,
        *,
        response_id: str | None = None,
        item_id: str | None = None,
        committed_ms: float | None = None,
        truncate: bool = False,
    ) -> Receipt[PlaybackAcknowledged]:
        """Tell how much of a response was played, in ms of its audio."""
        return await self._send(
            AckPlayback(
                played_ms=played_ms,
                committed_ms=committed_ms,
                response_id=response_id,
                item_id=item_id,
                truncate=truncate,
            )
        )

    # Conversation

    async def create_item(
        self, item: Mapping[str, Any], *, previous_item_id: str | None = None
    ) -> Receipt[ItemAdded]:
        """Add an item, under a fresh id if it has none; ``previous_item_id="root"``: first."""
        named = {"id": f"item_{secrets.token_hex(16)}", **item}
        return await self._send(CreateItem(item=named, previous_item_id=previous_item_id))

    async def send_text(self, text: str) -> Receipt[ItemAdded]:
        """Add what the user says in writing; ``create_response`` asks for the answer."""
        content = [{"type": "input_text", "text": text}]
        return await self.create_item({"type": "message", "role": "user", "content": content})

    async def delete_item(self, item_id: str) -> Receipt[ItemDeleted]:
        """Remove an item."""
        return await self._send(DeleteItem(item_id=item_id))

    async def truncate_item(
        self, item_id: str, audio_end_ms: int, *, content_index: int = 0
    ) -> Receipt[ItemTruncated]:
        """Cut an assistant item to what was heard."""
        return await self._send(
            TruncateItem(item_id=item_id, audio_end_ms=audio_end_ms, content_index=content_index)
        )

    async def retrieve_item(self, item_id: str) -> Receipt[ItemRetrieved]:
        """Ask for an item as the session now holds it."""
        return await self._send(RetrieveItem(item_id=item_id))

    async def update(self, session: Mapping[str, Any]) -> Receipt[SessionUpdated]:
        """Change the session: a patch, nested objects merge."""
        return await self._send(UpdateSession(session=dict(session)))
