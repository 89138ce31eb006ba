"""Units on their way to stage 0: one under way, the others behind it, in order.

Each goes through plan, submit, accepted, and ends in exactly one of two ways: committed or
abandoned. What comes back late, for an ended epoch or a unit that was called off, is only rolled
back or compensated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from duplex_sdk.plugin import (
    AppendPiece,
    AppendRequest,
    DuplexAppendPlan,
    DuplexStageRequestContext,
    DuplexStageSubmission,
)

from .effects import AbortRequests, PlanAppend, SubmitUnit
from .inputs import AppendPlanned, Fault, UnitSubmitted
from .request_contexts import RequestContexts
from .turn_input import RetainedPiece

if TYPE_CHECKING:
    from .append_sequence import AppendReservation
    from .input_buffer import InputBuffer, TakenUnit
    from .reservations import Reservation
    from .response import Response
    from .state import SessionState

__all__ = ["Append", "AppendQueue"]


class Append(msgspec.Struct, eq=False):
    """One unit on its way.

    Attributes:
        piece: the input.
        epoch: the epoch it was queued in; in another one it is not submitted.
        taken: its reservation in the buffer; None when the bytes are its own already.
        held: the bytes it occupies.
        answers: a response was opened for it, or is wanted of it.
        early: a unit of a turn that no commit covers yet.
        turn_items: items of the turn it ends, which the plugin does not see as conversation yet.
        covers: early units of the turn that this one completes.
        conversation: what it is to be answered from; None: the session's own.
        beside: the response outside the conversation that it is for; it has a request of its own.
        continuation: nobody said it: it only keeps the model going.
        reads: calls of functions whose results the model gets with it.
        queued_at: since when it waits for the stage, seconds.
        operation: the work of the lease that it is, from its plan to its end.
        given_up: it is too late to be submitted; its bytes go when its turn comes, since units
            leave the buffer in their order.
    """

    piece: AppendPiece
    epoch: int
    taken: TakenUnit | None = None
    held: Reservation | None = None
    answers: bool = False
    early: bool = False
    turn_items: frozenset[str] = frozenset()
    covers: list[RetainedPiece] = []
    conversation: tuple[Mapping[str, Any], ...] | None = None
    beside: Response | None = None
    continuation: bool = False
    reads: tuple[str, ...] = ()
    queued_at: float = 0.0
    given_up: bool = False
    operation: str = ""
    op: int = 0
    numbers: AppendReservation | None = None
    context: DuplexStageRequestContext | None = None

    @property
    def asks(self) -> bool:
        """Whether it makes a model that takes turns read the whole conversation."""
        return self.answers or (self.piece.final and self.piece.respond)

    @property
    def of_open_turn(self) -> bool:
        """Whether no commit covers it yet."""
        return self.taken is not None or self.early

    @property
    def cleared(self) -> bool:
        """Its input was cleared while it waited."""
        return self.taken is not None and not self.taken.reservation.active

    @property
    def may_be_given_up(self) -> bool:
        """Whether it is nothing but a stretch of the user's sound."""
        piece = self.piece
        plain = piece.kind == "audio" and not (piece.final or piece.images or self.answers)
        return plain and self.taken is not None and self.taken.reservation.active

    def release(self) -> None:
        """Give back every byte it occupies."""
        if self.held is not None:
            self.held.release()
        for kept in self.covers:
            kept.held.release()
        self.covers.clear()


class AppendQueue:
    """Carries units to stage 0, in order, one at a time.

    Args:
        state: the session.
        buffer: where a unit goes back to.
        accepted: told of each unit that stage 0 took, before its output can come.
        failed: told of the units that failed together, the cause first, with the reason.
    """

    __slots__ = (
        "_accepted",
        "_buffer",
        "_called_off",
        "_current",
        "_failed",
        "_queue",
        "_state",
        "contexts",
    )

    def __init__(
        self,
        state: SessionState,
        buffer: InputBuffer,
        *,
        accepted: Callable[[Append], None],
        failed: Callable[[Sequence[Append], Fault], None],
    ) -> None:
        self._state = state
        self._buffer = buffer
        self._accepted = accepted
        self._failed = failed
        # A list, which is empty nearly always: an empty deque takes 760 bytes per session.
        self._queue: list[Append] = []
        self._current: Append | None = None
        self._called_off: dict[int, str] = {}
        self.contexts = RequestContexts(state)

    @property
    def idle(self) -> bool:
        """Whether every unit of the conversation has settled."""
        return all(append.beside is not None for append in self.under_way)

    @property
    def answering(self) -> bool:
        """Whether a unit that is to be answered is under way."""
        current = self._current
        if current is not None and current.answers:
            return True
        return any(append.answers for append in self._queue)

    @property
    def moving_bytes(self) -> int:
        """Bytes under way, which drain by themselves."""
        under_way = [self._current, *self._queue] if self._current is not None else self._queue
        return sum(a.held.amount for a in under_way if a is not None and a.held is not None)

    def push(self, append: Append) -> None:
        """Queue a unit behind all others."""
        append.queued_at = self._state.now
        self._queue.append(append)
        self._advance()

    def _advance(self) -> None:
        while self._current is None and self._queue:
            append = self._queue.pop(0)
            if append.cleared or not self._state.open or append.epoch != self._state.epoch:
                append.release()
                continue
            if append.given_up and append.taken is not None:
                append.taken.reservation.commit()
                append.release()
                continue
            self._plan(append)

    @property
    def oldest(self) -> Append | None:
        """The first unit that has not settled; None: all have."""
        return self._current or (self._queue[0] if self._queue else None)

    @property
    def under_way(self) -> list[Append]:
        """Every unit that has not settled, the oldest first."""
        return self._queue if self._current is None else [self._current, *self._queue]

    def give_up(self, places: frozenset[int]) -> None:
        """Submit no more the units at these places of ``under_way``."""
        for place, append in enumerate(self.under_way):
            append.given_up = append.given_up or place in places

    # plan

    def _plan(self, append: Append) -> None:
        state = self._state
        beside = append.beside
        contexts = self.contexts
        append.context = context = contexts.current() if beside is None else contexts.apart(beside)
        append.numbers = state.sequence.prepare(context.fence)
        if beside is None and (state.native or append.asks):
            append.reads = state.tools.unread
        append.op = state.next_op()
        append.operation = f"append-{append.op}"
        self._current = append
        state.lease.begin_operation(append.operation)
        contexts.register(context)
        state.do(
            PlanAppend(
                append.op,
                AppendRequest(
                    fence=context.fence,
                    request_id=context.request_id,
                    seq=append.numbers.seq,
                    turn_seq=append.numbers.turn_seq,
                    unit=append.piece,
                    session=state.view(
                        without=append.turn_items,
                        instead=append.conversation,
                        config=None if append.beside is None else context.session_config,
                    ),
                    sampling=context.sampling_params,
                ),
            )
        )

    def planned(self, item: AppendPlanned) -> None:
        """The plugin answered; late answers are nobody's."""
        append = self._current
        if self._called_off.pop(item.op, None) is not None:
            return
        if append is None or append.op != item.op:
            return
        if not self._still_wanted(append):
            return
        if item.fault is not None or not isinstance(item.plan, DuplexAppendPlan):
            fault = item.fault or Fault("runtime_append_failed", "the plugin made no plan")
            self._fail(append, fault)
            return
        assert append.context is not None
        assert append.numbers is not None
        append.op = self._state.next_op()
        self._state.do(
            SubmitUnit(
                append.op,
                DuplexStageSubmission(
                    context=append.context,
                    prompt=item.plan.prompt,
                    already_submitted=self._state.requests.is_submitted(append.context.request_id),
                    resumable=self._state.capabilities.supports_core_resumable_request,
                    seq=append.numbers.seq,
                ),
            )
        )

    def _still_wanted(self, append: Append) -> bool:
        """Drop a unit that lost its purpose while the plugin planned it.

        Its input was cleared, or the response beside the conversation that it was for has ended.
        """
        state, beside = self._state, append.beside
        ended = beside is not None and beside.id not in state.beside
        if not append.cleared and not ended:
            return True
        self._leave(append)
        append.release()
        if beside is not None and state.requests.release(beside.request_id):
            state.release_requests((beside.request_id,))
        self._advance()
        return False

    # submit

    def submitted(self, item: UnitSubmitted) -> None:
        """Stage 0 answered. A unit it took after all is compensated when its epoch is over."""
        orphan = self._called_off.pop(item.op, None)
        if orphan is not None:
            state = self._state
            if item.fault is None:
                op = state.next_op()
                state.requests.leave(op, (orphan,))
                state.do(AbortRequests(op, (orphan,), 0.0, state.epoch))
            return
        append = self._current
        if append is None or append.op != item.op:
            return
        if item.fault is not None:
            self._fail(append, item.fault)
            return
        self._commit(append)
        self._advance()

    def _commit(self, append: Append) -> None:
        state = self._state
        assert append.numbers is not None
        assert append.context is not None
        state.sequence.commit(append.numbers)
        state.requests.bind(append.context.request_id, active=append.beside is None)
        state.lease.touch(state.now, "append")
        self._leave(append)
        if append.taken is not None:
            append.taken.reservation.commit()
        kept = append.early and state.early_input
        if kept and append.held is not None and append.held.active:
            state.turn_input.early.append(RetainedPiece(append.piece, append.held))
        else:
            append.release()
        state.context_locked = state.context_locked or state.native
        state.stages_opened = True
        self._accepted(append)

    # ends that are not acceptance

    def _fail(self, append: Append, fault: Fault) -> None:
        """One unit failed: the ones behind it fail with it, and a new one starts cleanly.

        What is beside the conversation fails alone, and is not touched by the others.
        """
        self._leave(append)
        failed = [append]
        if append.beside is None:
            failed += [each for each in self._queue if each.beside is None]
            self._queue = [each for each in self._queue if each.beside is not None]
        self._roll_back(failed)
        for each in failed:
            each.release()
        self._failed(failed, fault)
        self._advance()

    def _roll_back(self, appends: list[Append]) -> None:
        """Units of the open turn wait in the buffer again, in their order, still counted."""
        active = [a for a in appends if a.taken is not None and not a.cleared]
        if active and active[0].taken is not None:
            self._buffer.take_back(active[0].taken)
        for append in active:
            if append.held is not None:
                self._buffer.reclaim(append.held)

    def _leave(self, append: Append) -> None:
        self._state.lease.end_operation(append.operation)
        self._current = None

    def end_epoch(self) -> list[Append]:
        """Call everything off, because its epoch is over.

        Units cut out of the open turn wait in the buffer again; what was to be answered is dropped.

        Returns:
            What no buffer holds and no answer is lost with: the model must hear it again, ends of
            turns together with the turns they end.
        """
        called_off = self._call_off()
        self._roll_back(called_off)
        again: list[Append] = []
        for append in called_off:
            turn = append.beside is None and not append.answers
            if turn and (append.piece.final or (append.early and not append.taken)):
                again.append(append)
            else:
                append.release()
        return again

    def forget_cleared(self) -> None:
        """Give back the bytes of units whose input was cleared; they are skipped in their turn."""
        under_way = [self._current, *self._queue] if self._current is not None else self._queue
        for append in under_way:
            if append is not None and append.cleared:
                append.release()

    def forget_beside(self, response: Response) -> bool:
        """A response beside the conversation has ended: nothing more goes to the stage for it.

        Returns:
            Whether its unit is under way, so that its request can go only when that has settled.
        """
        self._queue = [each for each in self._queue if each.beside is not response]
        return self._current is not None and self._current.beside is response

    def discard(self) -> None:
        """Call everything off and give all bytes back: the session ends or its input is dropped."""
        for append in self._call_off():
            append.release()

    def _call_off(self) -> list[Append]:
        called_off = list(self._queue)
        self._queue.clear()
        current = self._current
        if current is not None:
            called_off.insert(0, current)
            assert current.context is not None
            self._called_off[current.op] = current.context.request_id
            self._leave(current)
        return called_off
