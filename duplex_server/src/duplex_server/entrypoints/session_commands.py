"""One method per command: how a person writes what a session is asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from duplex_sdk.protocol.duplex import (
    AckPlayback,
    AppendAudio,
    AppendText,
    BargeIn,
    CancelInput,
    CancelResponse,
    ClearInput,
    ClearOutputAudio,
    CloseSession,
    Commit,
    CreateItem,
    CreateResponse,
    DeleteItem,
    Heartbeat,
    RealtimeCommand,
    RetrieveItem,
    SignalTurn,
    TruncateItem,
    UpdateSession,
)

__all__ = ["SessionCommands"]


class SessionCommands(ABC):
    """Builds commands and submits them; each method raises what ``submit`` raises."""

    __slots__ = ()

    @abstractmethod
    def submit(self, command: RealtimeCommand, *, lenient: bool = False) -> None:
        """Hand a command to the session."""

    def append_audio(self, audio: bytes, **fields: Any) -> None:
        """Add audio in the negotiated format; ``fields`` are those of ``AppendAudio``."""
        self.submit(AppendAudio(audio=audio, **fields))

    def append_text(self, text: str) -> None:
        """Add text to the open turn."""
        self.submit(AppendText(text=text))

    def commit(self, *, response_create: bool | None = None, final: bool = True) -> None:
        """Seal the input so far."""
        self.submit(Commit(response_create=response_create, final=final))

    def clear_input(self) -> None:
        """Drop input that no commit has sealed."""
        self.submit(ClearInput())

    def cancel_input(self) -> None:
        """Drop all pending input and stop the active response."""
        self.submit(CancelInput())

    def create_response(self, **options: Any) -> None:
        """Answer what was committed; the options are for this response alone."""
        self.submit(CreateResponse(response=options))

    def cancel_response(self, response_id: str | None = None) -> None:
        """End the active response at once."""
        self.submit(CancelResponse(response_id=response_id))

    def barge_in(self) -> None:
        """The user interrupts."""
        self.submit(BargeIn())

    def clear_output_audio(self, response_id: str | None = None) -> None:
        """Discard output audio that was not delivered, and stop its response."""
        self.submit(ClearOutputAudio(response_id=response_id))

    def create_item(self, item: dict[str, Any], previous_item_id: str | None = None) -> None:
        """Add an item to the conversation."""
        self.submit(CreateItem(item=item, previous_item_id=previous_item_id))

    def retrieve_item(self, item_id: str) -> None:
        """Have an item sent."""
        self.submit(RetrieveItem(item_id=item_id))

    def delete_item(self, item_id: str) -> None:
        """Remove an item."""
        self.submit(DeleteItem(item_id=item_id))

    def truncate_item(self, item_id: str, audio_end_ms: int, content_index: int = 0) -> None:
        """Cut an assistant item to what was played, in ms of its audio."""
        self.submit(
            TruncateItem(item_id=item_id, content_index=content_index, audio_end_ms=audio_end_ms)
        )

    def ack_playback(self, played_ms: float, response_id: str | None = None, **fields: Any) -> None:
        """Tell how much of a response was played; ``fields`` are those of ``AckPlayback``."""
        self.submit(AckPlayback(played_ms=played_ms, response_id=response_id, **fields))

    def signal_turn(self, event: str, payload: dict[str, Any] | None = None) -> None:
        """Tell where the turn stands."""
        self.submit(SignalTurn(event=event, payload=payload or {}))

    def update(self, session: dict[str, Any]) -> None:
        """Change the session: a patch."""
        self.submit(UpdateSession(session=session))

    def heartbeat(self) -> None:
        """The caller is alive: refreshes the lease."""
        self.submit(Heartbeat())

    def close_after_commands(self) -> None:
        """End the session after what was asked before, without waiting for it."""
        self.submit(CloseSession())
