"""Faults to plant in the core, one at a time: a place, what stands there, and what is wrong."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class PlantedFault:
    """A wrong line in a method of the session core."""

    name: str
    module: str
    method: str
    right: str
    wrong: str

    @contextmanager
    def planted(self) -> Iterator[None]:
        """The core has this fault until the end of the block."""
        module = import_module(f"duplex_sdk.session.{self.module}")
        owner, _, name = self.method.rpartition(".")
        holder: Any = getattr(module, owner)
        original = inspect.getattr_static(holder, name)
        source = textwrap.dedent(inspect.getsource(getattr(holder, name)))
        assert source.count(self.right) == 1, f"{self.method} holds {self.right!r} not once"
        names: dict[str, Any] = {}
        code = "from __future__ import annotations\n" + source.replace(self.right, self.wrong)
        exec(compile(code, f"<planted {self.name}>", "exec"), vars(module), names)
        setattr(holder, name, names[name])
        try:
            yield
        finally:
            setattr(holder, name, original)


def fault(name: str, place: str, right: str, wrong: str) -> PlantedFault:
    module, _, method = place.partition(":")
    return PlantedFault(name, module, method, right, wrong)


PLANTED = (
    fault(
        "an interruption is two epochs",
        "cancel_flow:CancelFlow._end_epoch",
        "state.epoch += 1",
        "state.epoch += 2",
    ),
    fault(
        "requests of an ended epoch go on",
        "cancel_flow:CancelFlow._end_epoch",
        "if requests:",
        "if False:",
    ),
    fault(
        "a cancelled response is never ended",
        "cancel_flow:CancelFlow.interrupt",
        "self._responses.cancelled(response, reason, item=item, committed=committed)",
        "pass",
    ),
    fault(
        "every unit opens its request anew",
        "append_queue:AppendQueue.planned",
        "self._state.requests.is_submitted(append.context.request_id)",
        "False",
    ),
    fault(
        "accepted units are not counted",
        "append_queue:AppendQueue._commit",
        "state.sequence.commit(append.numbers)",
        "pass",
    ),
    fault(
        "bytes of accepted units stay taken",
        "append_queue:AppendQueue._commit",
        "append.release()",
        "pass",
    ),
    fault(
        "a lease operation never ends",
        "append_queue:AppendQueue._leave",
        'self._state.lease.end_operation(f"append-{append.op}")',
        "pass",
    ),
    fault(
        "what was called off is not known any more",
        "append_queue:AppendQueue._call_off",
        "self._called_off[current.op] = current.context.request_id",
        "pass",
    ),
    fault(
        "a failed unit leaves the others under way",
        "append_queue:AppendQueue._fail",
        "self._queue.clear()",
        "pass",
    ),
    fault(
        "bytes of decoded audio stay taken",
        "waiting_line:WaitingLine.decoded",
        "append.held.release()",
        "pass",
    ),
    fault(
        "a pending turn is never given back",
        "waiting_line:WaitingLine.advance",
        "head.turn.release()",
        "pass",
    ),
    fault(
        "the session's end keeps what waits",
        "waiting_line:WaitingLine.discard",
        "each.held.release()",
        "pass",
    ),
    fault(
        "an item's audio outlives the session",
        "waiting_line:WaitingLine.discard",
        "each.discarded()",
        "pass",
    ),
    fault(
        "a barge-in leaves the input buffer full",
        "open_turn:OpenTurn.drop_all",
        "self._buffer.clear()",
        "pass",
    ),
    fault(
        "a barge-in leaves commits in line",
        "open_turn:OpenTurn.drop_all",
        "self._line.drop_all_input()",
        "pass",
    ),
    fault(
        "a response stays active after its end",
        "response_flow:ResponseFlow._leave",
        "state.response = None",
        "pass",
    ),
    fault(
        "a failed response is never ended",
        "response_flow:ResponseFlow.fail",
        'self._end(response, "failed", details=failure(fault.code, fault.message))',
        'self.settle(response, "failed")',
    ),
    fault(
        "an item is opened with every output",
        "response_events:ResponseEvents._open_item",
        "response.item_open = True",
        "pass",
    ),
    fault(
        "a part is opened with every output",
        "response_events:ResponseEvents.open_part",
        "response.audio_part_open = True",
        "pass",
    ),
    fault(
        "an output item is never closed",
        "response_events:ResponseEvents._close_item",
        "state.emit(OutputItemDone, response_id=response.id, item=item)",
        "pass",
    ),
    fault(
        "transcripts lose their last words",
        "response_events:ResponseEvents._close_part",
        "**address, transcript=text)",
        "**address, transcript=text[:-1])",
    ),
    fault(
        "a second response is begun beside the first",
        "create_flow:CreateFlow._carry_out",
        "if self._intake.response_pending:",
        "if False:",
    ),
    fault(
        "a resume moves the lease twice",
        "lease:DuplexLeaseState.resume",
        "self._generation += 1",
        "self._generation += 2",
    ),
    fault(
        "a stale resume wins",
        "lease:DuplexLeaseState.resume",
        "self._check_generation(expected_generation)",
        "pass",
    ),
    fault(
        "a repeated resume is another one",
        "lease:DuplexLeaseState.resume",
        "if control_id == self._resumed_by:",
        "if False:",
    ),
    fault(
        "read events stay counted",
        "output_queue:OutputQueue.get",
        "budget.remove(size)",
        "pass",
    ),
    fault(
        "a close has no terminal event",
        "close_flow:CloseFlow.released",
        "self._tell()",
        "state.phase = Phase.CLOSED",
    ),
    fault(
        "the terminal event comes again with the late cleanup",
        "close_flow:CloseFlow.released",
        "elif released:",
        "elif released and (self._tell() or True):",
    ),
    fault(
        "a hung cleanup keeps the end back",
        "close_flow:CloseFlow.wait_over",
        "if state.now < self.deadline:",
        "if True:",
    ),
    fault(
        "a close keeps the response open",
        "close_flow:CloseFlow.close",
        "self._end_response()",
        "pass",
    ),
    fault(
        "a close keeps input",
        "close_flow:CloseFlow._forget_input",
        "self._buffer.clear()",
        "pass",
    ),
    fault(
        "what was played goes back",
        "playback:PlaybackCursor.acknowledge",
        "max(self.played_ms, self._sendable(played_ms))",
        "self._sendable(played_ms)",
    ),
    fault(
        "more is cut than was ever sent",
        "playback:PlaybackCursor.truncate_committed",
        "min(self.cap_ms, max(self.sent_ms, self.generated_ms))",
        "self.cap_ms",
    ),
    fault(
        "commands reach a closing session",
        "command_desk:CommandDesk.receive",
        "if not state.open:",
        "if False:",
    ),
    fault(
        "an update half applies before it is refused",
        "update_flow:UpdateFlow._carry_out",
        "candidate = self._candidate(command, lenient)",
        "state.config_generation += 1; candidate = self._candidate(command, lenient)",
    ),
    fault(
        "an epoch's end keeps the active request",
        "stage_requests:StageRequests.end_epoch",
        "self.active_id = None",
        "pass",
    ),
    fault(
        "a session that is over asks to be woken for ever",
        "life_flow:LifeFlow.arm",
        "self._notice_at if self._state.open else None",
        "self._notice_at",
    ),
    fault(
        "a slot is freed before its cleanup",
        "session_table:SessionTable._ended",
        "if item.released or self._stopping:",
        "if True:",
    ),
    fault(
        "one session more than there are slots",
        "session_table:SessionTable._open_asked",
        ">= self.max_sessions",
        "> self.max_sessions",
    ),
    fault(
        "an operation is answered and never over",
        "session_table:SessionTable._control_answered",
        "entry.active = None",
        "pass",
    ),
    fault(
        "those who wait for the end are forgotten",
        "session_table:SessionTable._ended",
        "while entry.waiting:",
        "while False:",
    ),
    fault(
        "a failed preparation keeps its slot",
        "session_table:SessionTable._admission_ended",
        "del self._entries[session_id]",
        "pass",
    ),
    fault(
        "continuations are forgotten",
        "continuation_flow:ContinuationFlow.look",
        "self._appends.push(self._unit(due))",
        "pass",
    ),
)
