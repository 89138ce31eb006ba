"""The stage requests of a session: which ids are bound to which epoch, and which must still go."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["StageRequests"]


@dataclass(slots=True)
class _Request:
    epoch: int
    generation: int
    submitted: bool = False


class StageRequests:
    """Ids registered with the stages, and whether work was submitted under them."""

    __slots__ = ("_leaving", "_owed", "_requests", "_terminal", "active_id")

    def __init__(self) -> None:
        self._requests: dict[str, _Request] = {}
        # A dict, which is empty nearly always: an empty set takes 216 bytes per session.
        self._terminal: dict[str, None] = {}
        self._leaving: dict[int, tuple[str, ...]] = {}
        self._owed: tuple[str, ...] = ()
        self.active_id: str | None = None

    def needs_registration(self, request_id: str, generation: int) -> bool:
        """Whether the stages do not know the id yet, or not with this config."""
        known = self._requests.get(request_id)
        return known is None or known.generation != generation

    def register(self, request_id: str, epoch: int, generation: int) -> None:
        """The stages know the id with this config; idempotent."""
        known = self._requests.get(request_id)
        if known is None:
            self._requests[request_id] = _Request(epoch, generation)
        else:
            known.generation = generation

    def is_submitted(self, request_id: str) -> bool:
        """Whether the stages accepted work under the id."""
        known = self._requests.get(request_id)
        return known is not None and known.submitted

    def bind(self, request_id: str, *, active: bool = True) -> None:
        """Work was accepted: outputs of this id are welcome again.

        Args:
            request_id: which.
            active: the conversation goes on by it; else it serves a response beside.
        """
        self._requests[request_id].submitted = True
        self._terminal.pop(request_id, None)
        if active:
            self.active_id = request_id

    def finish(self, request_id: str) -> None:
        """The turn ended: drop what the id still says until new work is accepted."""
        self._terminal[request_id] = None

    def release(self, request_id: str) -> bool:
        """The id served one turn, which is over: forget it.

        Returns:
            Whether it was known.
        """
        self._terminal.pop(request_id, None)
        if self.active_id == request_id:
            self.active_id = None
        return self._requests.pop(request_id, None) is not None

    def accepts_output(self, request_id: str) -> bool:
        """Whether an output under the id may reach the client."""
        return request_id in self._requests and request_id not in self._terminal

    def end_epoch(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Take out every id: the epoch they belong to is over.

        Returns:
            The ids for the stages to stop: those under which work was submitted, and those that
            could not be stopped before. Then those that were only registered.
        """
        submitted, reserved = self._by_submission()
        self._requests.clear()
        self._terminal.clear()
        self.active_id = None
        owed, self._owed = self._owed, ()
        return owed + submitted, reserved

    def leave(self, op: int, request_ids: tuple[str, ...]) -> None:
        """The stages are asked, with this op, to let ids go."""
        self._leaving[op] = request_ids

    def left(self, op: int, *, gone: bool) -> None:
        """They did; or could not, and are asked again at the next end of an epoch or session."""
        request_ids = self._leaving.pop(op, ())
        if not gone:
            self._owed += request_ids

    def ids(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """All ids the stages may still know: those with submitted work, and those without.

        What they were asked to let go, and have not said so, counts as submitted.
        """
        submitted, reserved = self._by_submission()
        leaving = (name for names in self._leaving.values() for name in names)
        return tuple(dict.fromkeys((*self._owed, *leaving, *submitted))), reserved

    def _by_submission(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        submitted = tuple(name for name, known in self._requests.items() if known.submitted)
        reserved = tuple(name for name, known in self._requests.items() if not known.submitted)
        return submitted, reserved
