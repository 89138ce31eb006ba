"""Function calls of the model and the results that clients return."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from .refusal import RefusalError

__all__ = ["ToolCall", "ToolLedger"]

ToolStatus = Literal["open", "completed", "cancelled"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a function.

    Attributes:
        arguments: JSON text.
        epoch: in which the model made it; a result is welcome in any later one.
    """

    call_id: str
    name: str
    arguments: str
    epoch: int
    status: ToolStatus = "open"


class ToolLedger:
    """Calls by id. Runs no tools, has no timers, and holds nothing up.

    Args:
        max_unread: results that may wait for a model to take them.
        retained: settled calls that are remembered, to tell a second result from an unknown one;
            and open ones, of which the oldest is given up when more than these wait for a result.
    """

    __slots__ = ("_calls", "_max_unread", "_open", "_retained", "_settled", "_unread")

    def __init__(self, *, max_unread: int = 16, retained: int = 256) -> None:
        self._calls: dict[str, ToolCall] = {}
        self._open: dict[str, None] = {}
        self._settled: dict[str, None] = {}
        self._unread: dict[str, None] = {}
        self._max_unread = max_unread
        self._retained = retained

    @property
    def unread(self) -> tuple[str, ...]:
        """Calls whose result no model has taken yet, oldest first."""
        return tuple(self._unread)

    def __len__(self) -> int:
        return len(self._calls)

    def get(self, call_id: str) -> ToolCall | None:
        """The call as it stands."""
        return self._calls.get(call_id)

    def open_call(self, call_id: str, name: str, arguments: str, epoch: int) -> ToolCall:
        """The model calls a function.

        Raises:
            RefusalError: ``invalid_function_call`` for an empty id or name,
                ``duplicate_function_call`` for an id that is taken.
        """
        if not call_id or not name:
            raise RefusalError("invalid_function_call", "a call needs an id and a name")
        if call_id in self._calls:
            raise RefusalError("duplicate_function_call", f"call {call_id!r} was made before")
        call = ToolCall(call_id, name, arguments, epoch)
        self._calls[call_id] = call
        self._open[call_id] = None
        if len(self._open) > self._retained:
            self.cancel_call(next(iter(self._open)))
        return call

    def check_result(self, call_id: str) -> ToolCall:
        """See whether a client may return what a call gave; changes nothing.

        Raises:
            RefusalError: ``invalid_function_call_output``, with the ledger's own code as
                ``detail``; or ``function_response_backlog``. Nothing changed.
        """
        call = self._calls.get(call_id)
        if call is None:
            raise _refused("unknown_function_call", f"no open call {call_id!r}", "item.call_id")
        if call.status == "completed":
            raise _refused(
                "duplicate_function_call_output",
                f"call {call_id!r} was answered before",
                "item.output",
            )
        if call.status == "cancelled":
            raise _refused(
                "late_function_call_output", f"call {call_id!r} was deleted", "item.call_id"
            )
        if len(self._unread) >= self._max_unread:
            raise RefusalError(
                "function_response_backlog",
                f"{self._max_unread} results wait for the model already",
            )
        return call

    def accept_result(self, call_id: str) -> ToolCall:
        """A client returns what a call gave. A call is answered at most once.

        Raises:
            RefusalError: as of ``check_result``.
        """
        call = self.check_result(call_id)
        self._unread[call_id] = None
        return self._settle(call, "completed")

    def mark_read(self, call_id: str) -> None:
        """A model took this result."""
        self._unread.pop(call_id, None)

    def cancel_call(self, call_id: str) -> bool:
        """No result is wanted any more: the call's item was deleted, or it waited too long.

        Returns:
            Whether it was open.
        """
        call = self._calls.get(call_id)
        if call is None or call.status != "open":
            return False
        self._settle(call, "cancelled")
        return True

    def _settle(self, call: ToolCall, status: ToolStatus) -> ToolCall:
        settled = replace(call, status=status)
        self._calls[call.call_id] = settled
        self._open.pop(call.call_id, None)
        self._settled[call.call_id] = None
        while len(self._settled) > self._retained:
            oldest = next(iter(self._settled))
            del self._settled[oldest]
            del self._calls[oldest]
        return settled


def _refused(detail: str, message: str, param: str) -> RefusalError:
    return RefusalError(
        "invalid_function_call_output", f"{message} ({detail})", param=param, detail=detail
    )
