"""Faults to plant in the core, one at a time: a place, what stands there, and what is wrong."""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class PlantedFault:
    """A wrong line in the session core.

    Attributes:
        by: numbers of the laws of which one must catch it.
        rare: it takes some hundred schedules.
    """

    name: str
    module: str
    place: str
    right: str
    wrong: str
    by: tuple[int, ...]
    rare: bool = False

    @contextmanager
    def planted(self) -> Iterator[None]:
        """The core has this fault until the end of the block."""
        module = import_module(f"duplex_sdk.{self.module}")
        owner, _, name = self.place.rpartition(".")
        holder: Any = getattr(module, owner) if owner else module
        original = inspect.getattr_static(holder, name) if owner else vars(module)[name]
        source = textwrap.dedent(inspect.getsource(getattr(holder, name)))
        assert source.count(self.right) == 1, f"{self.place} holds {self.right!r} not once"
        names: dict[str, Any] = {}
        code = "from __future__ import annotations\n" + source.replace(self.right, self.wrong)
        exec(compile(code, f"<planted {self.name}>", "exec"), vars(module), names)
        holders = [holder] if owner else _users(original, name)
        for each in holders:
            setattr(each, name, names[name])
        try:
            yield
        finally:
            for each in holders:
                setattr(each, name, original)


def _users(function: Any, name: str) -> list[Any]:
    """The modules that know a function by its name."""
    ours = (module for key, module in sys.modules.items() if key.startswith("duplex_sdk."))
    return [module for module in ours if vars(module).get(name) is function]


def fault(
    name: str, place: str, right: str, wrong: str, *by: int, rare: bool = False
) -> PlantedFault:
    module, _, method = place.partition(":")
    if "." not in module:
        module = f"session.{module}"
    return PlantedFault(name, module, method, right, wrong, by, rare)


PLANTED = (
    fault(
        "an interruption is two epochs",
        "cancel_flow:CancelFlow._end_epoch",
        "state.epoch += 1",
        "state.epoch += 2",
        1,
    ),
    fault(
        "requests of an ended epoch go on",
        "cancel_flow:CancelFlow._end_epoch",
        "if requests:",
        "if False:",
        53,
    ),
    fault(
        "a cancelled response is never ended",
        "cancel_flow:CancelFlow.interrupt",
        "self._responses.cancelled(response, reason, item=item, committed=committed)",
        "pass",
        39,
    ),
    fault(
        "every unit opens its request anew",
        "append_queue:AppendQueue.planned",
        "self._state.requests.is_submitted(append.context.request_id)",
        "False",
        36,
    ),
    fault(
        "accepted units are not counted",
        "append_queue:AppendQueue._commit",
        "state.sequence.commit(append.numbers)",
        "pass",
        29,
    ),
    fault(
        "bytes of accepted units stay taken",
        "append_queue:AppendQueue._commit",
        "append.release()",
        "pass",
        19,
    ),
    fault(
        "a lease operation never ends",
        "append_queue:AppendQueue._leave",
        "self._state.lease.end_operation(append.operation)",
        "pass",
        38,
    ),
    fault(
        "what was called off is not known any more",
        "append_queue:AppendQueue._call_off",
        "self._called_off[current.op] = current.context.request_id",
        "pass",
        53,
        rare=True,
    ),
    fault(
        "a failed unit leaves the others under way",
        "append_queue:AppendQueue._fail",
        "if append.beside is None:",
        "if False:",
        19,
    ),
    fault(
        "bytes of decoded audio stay taken",
        "waiting_line:WaitingLine.decoded",
        "append.held.release()",
        "pass",
        19,
    ),
    fault(
        "a pending turn is never given back",
        "waiting_line:HeldStep.leave",
        "self.turn.release()",
        "pass",
        21,
    ),
    fault(
        "the session's end keeps what waits",
        "waiting_line:WaitingLine.discard",
        "each.held.release()",
        "pass",
        19,
    ),
    fault(
        "an item's audio outlives the session",
        "waiting_line:WaitingLine.discard",
        "each.discarded()",
        "pass",
        19,
    ),
    fault(
        "a barge-in leaves the input buffer full",
        "open_turn:OpenTurn.drop_all",
        "self._buffer.clear()",
        "pass",
        20,
    ),
    fault(
        "a barge-in leaves commits in line",
        "open_turn:OpenTurn.drop_all",
        "self._line.drop_all_input()",
        "pass",
        57,
        rare=True,
    ),
    fault(
        "a response stays active after its end",
        "response_flow:ResponseFlow._leave",
        "state.response = None",
        "pass",
        39,
    ),
    fault(
        "a failed response is never ended",
        "response_flow:ResponseFlow.fail",
        'self._end(response, "failed", details=failure(fault.code, fault.message))',
        'self.settle(response, "failed")',
        39,
    ),
    fault(
        "an item is opened with every output",
        "response_events:ResponseEvents._open_item",
        "response.item_open = True",
        "pass",
        43,
    ),
    fault(
        "a part is opened with every output",
        "response_events:ResponseEvents.open_part",
        "response.audio_part_open = True",
        "pass",
        43,
    ),
    fault(
        "an output item is never closed",
        "response_events:ResponseEvents._close_item",
        "state.emit(OutputItemDone, response_id=response.id, item=item)",
        "pass",
        43,
    ),
    fault(
        "transcripts lose their last words",
        "response_events:ResponseEvents._close_part",
        "**address, transcript=text)",
        "**address, transcript=text[:-1])",
        44,
    ),
    fault(
        "a second response is begun beside the first",
        "create_flow:CreateFlow._carry_out",
        "if self._floor.response_pending:",
        "if False:",
        121,
    ),
    fault(
        "a resume moves the lease twice",
        "lease:DuplexLeaseState.resume",
        "self._generation += 1",
        "self._generation += 2",
        74,
    ),
    fault(
        "a stale resume wins",
        "lease:DuplexLeaseState.resume",
        "self._check_generation(expected_generation)",
        "pass",
        75,
    ),
    fault(
        "a repeated resume is another one",
        "lease:DuplexLeaseState.resume",
        "if control_id == self._resumed_by:",
        "if False:",
        76,
    ),
    fault(
        "read events stay counted",
        "output_queue:OutputQueue.get",
        "budget.remove(size)",
        "pass",
        93,
    ),
    fault(
        "a close has no terminal event",
        "close_flow:CloseFlow.released",
        "self._tell()",
        "state.phase = Phase.CLOSED",
        80,
    ),
    fault(
        "the terminal event comes again with the late cleanup",
        "close_flow:CloseFlow.released",
        "elif released:",
        "elif released and (self._tell() or True):",
        80,
    ),
    fault(
        "a hung cleanup keeps the end back",
        "close_flow:CloseFlow.wait_over",
        "if state.now < self.deadline:",
        "if True:",
        118,
    ),
    fault(
        "a close keeps the response open",
        "close_flow:CloseFlow.close",
        "self._end_response()",
        "pass",
        40,
    ),
    fault(
        "a close keeps input",
        "close_flow:CloseFlow._forget_input",
        "self._buffer.clear()",
        "pass",
        20,
    ),
    fault(
        "what was played goes back",
        "playback:PlaybackCursor.acknowledge",
        "max(self.played_ms, self._sendable(played_ms))",
        "self._sendable(played_ms)",
        62,
    ),
    fault(
        "more is cut than was ever sent",
        "playback:PlaybackCursor.truncate_committed",
        "min(max(0.0, position_ms), max(self.sent_ms, self.generated_ms))",
        "max(0.0, position_ms)",
        63,
        rare=True,
    ),
    fault(
        "commands reach a closing session",
        "command_desk:CommandDesk.receive",
        "if not state.open:",
        "if False:",
        81,
    ),
    fault(
        "an update half applies before it is refused",
        "update_flow:UpdateFlow._carry_out",
        "candidate = self._candidate(command, lenient)",
        "state.config_generation += 1; candidate = self._candidate(command, lenient)",
        11,
    ),
    fault(
        "an epoch's end keeps the active request",
        "stage_requests:StageRequests.end_epoch",
        "self.active_id = None",
        "pass",
        52,
    ),
    fault(
        "a session that is over asks to be woken for ever",
        "life_flow:LifeFlow.arm",
        "self._notice_at if self._state.open else None",
        "self._notice_at",
        0,
    ),
    fault(
        "a slot is freed before its cleanup",
        "session_table:SessionTable._ended",
        "if item.released or self._stopping:",
        "if True:",
        84,
    ),
    fault(
        "one session more than there are slots",
        "session_table:SessionTable._open_asked",
        ">= self.max_sessions",
        "> self.max_sessions",
        83,
    ),
    fault(
        "an operation is answered and never over",
        "session_table:SessionTable._control_answered",
        "entry.active = None",
        "pass",
        89,
    ),
    fault(
        "those who wait for the end are forgotten",
        "session_table:SessionTable._ended",
        "while entry.waiting:",
        "while False:",
        87,
    ),
    fault(
        "a failed preparation keeps its slot",
        "session_table:SessionTable._admission_ended",
        "del self._entries[session_id]",
        "pass",
        85,
    ),
    fault(
        "continuations are forgotten",
        "continuation_flow:ContinuationFlow.look",
        "self._appends.push(self._unit(due))",
        "pass",
        40,
    ),
    # identity and epochs
    fault(
        "an old fence is taken",
        "append_sequence:AppendSequence._check",
        "or fence.position < accepted.position",
        "",
        3,
    ),
    fault(
        "output of an ended epoch is taken",
        "output_flow:OutputFlow.received",
        "output = item.output",
        "from msgspec.structs import replace; output = replace(item.output, epoch=state.epoch)",
        7,
    ),
    fault(
        "every epoch uses the same request ids",
        "request_contexts:RequestContexts._context_of",
        "stage_request_id(fence, role)",
        "stage_request_id(type(fence)(fence.session_id), role)",
        8,
        9,
    ),
    # refusals
    fault(
        "options of a response become the session's",
        "response_flow:ResponseFlow.open",
        "state.response = response",
        "state.response = response; state.config = response.config",
        14,
        16,
    ),
    fault(
        "an update is told and changes nothing",
        "update_flow:UpdateFlow._publish",
        "state.adopt(candidate)",
        "pass",
        14,
    ),
    fault(
        "a create is carried out though it was refused",
        "create_flow:CreateFlow._options",
        "return None",
        "return ResponseCreateOptions(metadata={'of': 'nobody'})",
        15,
    ),
    # input
    fault(
        "a unit that is given back loses its bytes",
        "append_queue:AppendQueue._roll_back",
        "self._buffer.reclaim(append.held)",
        "append.held.release()",
        19,
    ),
    fault(
        "units come back in the wrong order",
        "plugin.unit_buffer:UnitBuffer.rollback_reservation",
        "for each in reversed(undone):",
        "for each in undone:",
        24,
        26,
        rare=True,
    ),
    fault(
        "a newer unit can be taken before an older one",
        "plugin.unit_buffer:UnitBuffer.commit_reservation",
        "if self._reserved[0] is not reservation:",
        "if False:",
        25,
    ),
    fault(
        "a unit that was taken is given back",
        "append_queue:AppendQueue._commit",
        "append.taken.reservation.commit()",
        "append.taken.reservation.rollback()",
        26,
        19,
    ),
    fault(
        "what the policy drops is heard",
        "intake:Intake._carry_out",
        "if decision.buffer_audio:",
        "if decision.buffer_audio or decision.reason == 'client_overlap_action':",
        28,
    ),
    fault(
        "a clear drops what came behind it",
        "open_turn:OpenTurn.clear",
        "self.drop()",
        "self._line.drop_all_input(); self.drop()",
        22,
        120,
        rare=True,
    ),
    fault(
        "an utterance loses what was kept back",
        "open_turn:OpenTurn.resume",
        "self.queue(self._buffer.drain())",
        "[unit.held.release() or unit.reservation.commit() for unit in self._buffer.drain()]",
        28,
        23,
        121,
        rare=True,
    ),
    # the order of units
    fault(
        "a turn goes on counting from the last one",
        "append_sequence:AppendSequence.prepare",
        "turn_seq=(self._turn_seq if same_turn else 0) + 1",
        "turn_seq=self._turn_seq + 1",
        30,
    ),
    fault(
        "the newest unit goes first",
        "append_queue:AppendQueue.push",
        "self._queue.append(append)",
        "self._queue.insert(0, append)",
        31,
        121,
    ),
    fault(
        "units do not wait for each other",
        "append_queue:AppendQueue._advance",
        "while self._current is None and self._queue:",
        "while self._queue:",
        32,
        31,
        29,
        38,
    ),
    fault(
        "a stale number is taken",
        "append_sequence:AppendSequence.commit",
        "if reservation.base != self._moves:",
        "if False:",
        35,
    ),
    fault(
        "a request of one turn is used for ever",
        "request_contexts:RequestContexts._new_context",
        "None if state.capabilities.supports_core_resumable_request else state.turn_id",
        "None",
        37,
        36,
        rare=True,
    ),
    # responses
    fault(
        "a response outlives the unit it was opened for",
        "output_flow:OutputFlow.append_failed",
        "if response is not None and needed:",
        "if False:",
        40,
        45,
        49,
    ),
    fault(
        "a turn that is over speaks again",
        "output_flow:OutputFlow._of_completed_turn",
        "return output.turn_id < current",
        "return False",
        46,
        rare=True,
    ),
    fault(
        "silence is given without end",
        "continuation:ContinuationScheduler.schedule",
        "if self.exhausted:",
        "if False:",
        48,
    ),
    fault(
        "silence goes before the sound that waits",
        "continuation_flow:ContinuationFlow._unit",
        "if state.auto_responds and self._buffer.pending_bytes:",
        "if False:",
        50,
    ),
    fault(
        "silence comes in a burst",
        "continuation:ContinuationScheduler._next_deadline",
        "following = self._last_deadline + self._period_s",
        "following = now",
        51,
    ),
    # interruptions
    fault(
        "a cancel of nothing ends the epoch",
        "cancel_flow:CancelFlow._nothing_to_cancel",
        "self._state.fail(",
        "self._end_epoch(0.0, drop_answers=True); self._state.fail(",
        54,
    ),
    fault(
        "a failed abort takes the cancel back",
        "cancel_flow:CancelFlow.aborted",
        "if item.fault is not None and state.open:",
        "if item.fault is not None and state.open:\n        state.turn_state = None"
        "; state.turn_id += 1",
        56,
        rare=True,
    ),
    fault(
        "a model that cannot be interrupted is",
        "cancel_flow:CancelFlow.barge_in",
        "if not state.capabilities.supports_barge_in:",
        "if False:",
        58,
        rare=True,
    ),
    fault(
        "a broken response is followed by the next one",
        "flows:Flows._response_ended",
        "if not well:",
        "if False:",
        59,
        rare=True,
    ),
    fault(
        "a turn is answered twice",
        "commit_flow:CommitFlow._submit_retained",
        "turn.retained.clear()",
        "pass",
        60,
        26,
        19,
        121,
    ),
    fault(
        "a stop commits twice",
        "commit_flow:CommitFlow._carry_out_detected",
        "self._seal(asks, by_client=False)",
        "self._seal(asks, by_client=False); self._seal(False, by_client=False)",
        61,
    ),
    # playback and history
    fault(
        "an acknowledgement moves another response",
        "item_flow:ItemFlow.acknowledge",
        "cursor.acknowledge(command.played_ms, command.committed_ms)",
        "[each.acknowledge(command.played_ms) for _, each in state.playback.cursors()]",
        64,
    ),
    fault(
        "words that nobody heard are remembered",
        "spoken_text:done_text",
        "return spoken.prefix(cursor.committed_ms)",
        "return spoken.text",
        65,
        rare=True,
    ),
    fault(
        "the last character is never heard",
        "protocol.realtime.transcript:RisingMarks.chars_at",
        "return length",
        "return length - 1",
        66,
    ),
    fault(
        "what was cut comes back",
        "history_entry:HistoryEntry.limit",
        "return capped if len(capped) < len(text) else text",
        "return text",
        67,
        65,
        rare=True,
    ),
    fault(
        "words that come late move to the front",
        "message_log:MessageLog._position",
        "return len(self._entries)",
        "return 0",
        68,
    ),
    fault(
        "a deleted item is still remembered",
        "item_flow:ItemFlow.delete",
        "deleted = state.history.delete(item.id)",
        "deleted = True",
        69,
    ),
    fault(
        "empty places show",
        "message_log:MessageLog.messages",
        "tuple(e.message for e in self._entries if e.message is not None)",
        "tuple(e.message or {} for e in self._entries)",
        70,
    ),
    fault(
        "an acknowledged item shows what it did before",
        "item_flow:ItemFlow.acknowledge",
        "if live is None and kept is not None and kept.committed:",
        "if False:",
        71,
        rare=True,
    ),
    fault(
        "an answer that was cut while it went on shows all its words",
        "response_flow:ResponseFlow._remembered",
        'waits = over and policy == "ack_only" and not decided',
        'waits = over and policy == "ack_only"',
        71,
    ),
    fault(
        "what is said aside is remembered",
        "response_flow:ResponseFlow.open_beside",
        "state.beside[response.id] = response",
        "state.beside[response.id] = response; state.history.open_response(response.id); "
        "state.history.add_message(response.item_id, 'assistant', [])",
        72,
    ),
    fault(
        "words that cannot be cut are cut",
        "spoken_text:done_text",
        "if cursor.text_requires_complete_audio:",
        "if False:",
        73,
        rare=True,
    ),
    # leases and sessions
    fault(
        "a session expires over its work",
        "lease:DuplexLeaseState._idle_over",
        "ttl_s is None or self._operations",
        "ttl_s is None",
        79,
    ),
    fault(
        "a closing session goes on with its units",
        "close_flow:CloseFlow._forget_input",
        "self._appends.discard()",
        "pass",
        81,
        121,
    ),
    fault(
        "a closing session still listens",
        "command_desk:CommandDesk.receive",
        "if not state.open:",
        "if state.phase is Phase.CLOSED:",
        88,
    ),
    fault(
        "later operations overtake",
        "session_table:SessionTable._advance",
        "entry.waiting.pop(0)",
        "entry.waiting.pop()",
        89,
    ),
    # tools
    fault(
        "a call is answered twice",
        "tools:ToolLedger.check_result",
        'if call.status == "completed":',
        "if False:",
        112,
        rare=True,
    ),
    # liveness and our own
    fault(
        "what an interruption leaves in line is forgotten",
        "waiting_line:WaitingLine.drop_all_input",
        "self._line.append(each)",
        "pass",
        120,
        rare=True,
    ),
    fault(
        "a command passes a commit",
        "command_desk:CommandDesk._in_turn",
        "self._flows.line.push(HeldStep(run=lambda: run(command)))",
        "run(command)",
        122,
    ),
)
