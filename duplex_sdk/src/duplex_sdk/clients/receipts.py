"""Receipts: which event answers a command that was sent, or which error.

Errors name the command they answer. Other answers do not, so they are told by what they speak of
(an item, a response) and, where that leaves a choice, by the order in which commands were sent.
"""

from __future__ import annotations

import asyncio
from typing import Any, Generic, TypeVar

from duplex_sdk.protocol.duplex import DuplexEvent, ErrorEvent, RealtimeCommand

from .answers import ANSWERING_EVENTS, answer_of
from .errors import ClientError, ClientProtocolError

__all__ = ["MAX_OPEN_RECEIPTS", "Receipt", "ReceiptLedger"]

MAX_OPEN_RECEIPTS = 1024

EventT = TypeVar("EventT", bound=DuplexEvent)


class Receipt(Generic[EventT]):
    """A command that was sent; whether it succeeded can be awaited, or not. Of the client's loop.

    Attributes:
        event_id: the id it was sent under, which the server names in an error that answers it.
        command: its wire type.
        sent: it has left; before, it waits for a connection.
    """

    def __init__(self, event_id: str, command: RealtimeCommand) -> None:
        self.event_id = event_id
        self.command = command.type
        self.sent = False
        self._answered = answer_of(command)
        self._settled = asyncio.Event()
        self._answer: EventT | None = None
        self._failure: ClientError | None = None

    @property
    def settled(self) -> bool:
        """Whether the answer, or what stands in its way, is known."""
        return self._settled.is_set()

    @property
    def answerable(self) -> bool:
        """Whether the protocol answers such a command at all."""
        return self._answered is not None

    async def acknowledged(self, timeout_s: float | None = 30.0) -> EventT:
        """Return the event that says the command was carried out.

        Raises:
            ClientProtocolError: the server refused it; ``code`` says why.
            ClientConnectionError: the connection was lost before the answer came. Whether the
                command was carried out is not known.
            ClientSessionClosedError: the session ended first.
            TimeoutError: no answer in time.
            ClientError: the protocol has no answer to such a command.
        """
        if not self.answerable:
            raise ClientError(f"nothing answers a {self.command} but an error")
        async with asyncio.timeout(timeout_s):
            await self._settled.wait()
        if self._failure is not None:
            raise self._failure
        assert self._answer is not None
        return self._answer

    def answered_by(self, event: DuplexEvent) -> bool:
        """Whether this event can be the answer."""
        return self._answered is not None and self._answered(event)

    def settle(self, answer: EventT) -> None:
        """The command was carried out."""
        self._answer = answer
        self._settled.set()

    def fail(self, failure: ClientError) -> None:
        """No answer will come; without effect once the receipt is settled."""
        if not self.settled:
            self._failure = failure
            self._settled.set()


class ReceiptLedger:
    """The commands whose answer is still to come, oldest first. Bounded.

    A server that never answers is not waited for: beyond ``MAX_OPEN_RECEIPTS`` the oldest receipt
    fails.
    """

    def __init__(self) -> None:
        self._open: dict[str, Receipt[Any]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def expect(self, event_id: str, command: RealtimeCommand) -> Receipt[Any]:
        """Note a command that is about to be sent."""
        receipt: Receipt[Any] = Receipt(event_id, command)
        if receipt.answerable:
            if len(self._open) >= MAX_OPEN_RECEIPTS:
                oldest = self._open.pop(next(iter(self._open)))
                oldest.fail(ClientError(f"{MAX_OPEN_RECEIPTS} later commands are unanswered too"))
            self._open[event_id] = receipt
        return receipt

    def forget(self, receipt: Receipt[Any]) -> None:
        """It was not sent after all."""
        if self._open.get(receipt.event_id) is receipt:
            del self._open[receipt.event_id]

    def take(self, event: DuplexEvent) -> None:
        """Settle what this event answers; one receipt at most."""
        if isinstance(event, ErrorEvent):
            self._refuse(event)
        elif type(event) in ANSWERING_EVENTS:
            for event_id, receipt in self._open.items():
                if receipt.answered_by(event):
                    del self._open[event_id]
                    receipt.settle(event)
                    return

    def unanswered(self) -> tuple[Receipt[Any], ...]:
        """The commands that have left, and whose answer has not come yet."""
        return tuple(receipt for receipt in self._open.values() if receipt.sent)

    def give_up(
        self, failure: ClientError, receipts: tuple[Receipt[Any], ...] | None = None
    ) -> None:
        """Expect no answer to these any more; None for all of them."""
        for receipt in tuple(self._open.values()) if receipts is None else receipts:
            self.forget(receipt)
            receipt.fail(failure)

    def _refuse(self, event: ErrorEvent) -> None:
        receipt = self._open.pop(event.error.event_id or "", None)
        if receipt is not None:
            receipt.fail(ClientProtocolError.of(event))
