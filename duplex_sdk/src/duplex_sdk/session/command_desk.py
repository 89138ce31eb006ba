"""Where commands arrive: admitted or refused, then carried out now or in their turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeGuard

import msgspec

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
    SessionHeartbeatAck,
    SignalTurn,
    TruncateItem,
    TurnEvent,
    UpdateSession,
)

from .lease import LeaseEndedError
from .state import Phase, TurnState
from .waiting_line import HeldStep

if TYPE_CHECKING:
    from .flows import Flows
    from .inputs import CommandReceived
    from .state import SessionState

__all__ = ["CommandDesk"]

RESERVED_PLACES = 64
"""Places in the line that appends may not take: a flood of audio must not shut commands out."""

PASSING = frozenset(
    {
        CancelResponse,
        ClearOutputAudio,
        CancelInput,
        BargeIn,
        AckPlayback,
        Heartbeat,
        CloseSession,
    }
)
"""Commands that never wait and so need no place: a full line must not keep a session going."""

WEIGHTY: dict[type[Any], Callable[[Any], object]] = {
    CreateItem: lambda command: command.item,
    CreateResponse: lambda command: command.response,
    UpdateSession: lambda command: command.session,
    SignalTurn: lambda command: command.payload,
    AppendText: lambda command: command.text,
}
"""What clients may make large of commands that can wait: while they wait, it counts as input."""

SIGNALLED_STATES = {
    "user_started": TurnState.USER_SPEAKING,
    "user_committed": TurnState.USER_COMMITTED,
    "assistant_started": TurnState.ASSISTANT_GENERATING,
    "assistant_done": TurnState.IDLE,
}


class CommandDesk:
    """Gives every command to the flow that carries it out."""

    __slots__ = ("_flows", "_state")

    def __init__(self, state: SessionState, flows: Flows) -> None:
        self._state = state
        self._flows = flows

    def receive(self, item: CommandReceived) -> None:
        """A client asks for something."""
        state = self._state
        command = item.command
        if not state.open:
            if state.phase is Phase.CLOSING:
                state.fail("session_closed", "the session is closing", command=command)
            return
        missing = self._missing(command)
        if missing is not None:
            state.fail("unsupported", f"this model has no {missing}", command=command)
            return
        if self._no_place(command):
            state.fail("input_backpressure", "too many commands wait", command=command)
            return
        weigh = WEIGHTY.get(type(command)) if self._flows.line.waits else None
        if weigh is None:
            COMMANDS[type(command)](self, command, item.lenient)
        else:
            self._keep_waiting(command, item.lenient, len(msgspec.json.encode(weigh(command))))

    def _keep_waiting(self, command: RealtimeCommand, lenient: bool, size: int) -> None:
        """A command that may be large joins the line, if there is room for it to wait in."""
        held = self._state.input_bytes.reserve(size)
        if held is None:
            self._state.fail(
                "input_backpressure", "too much waits for the audio before it", command=command
            )
            return
        COMMANDS[type(command)](self, command, lenient)
        self._flows.line.weigh(held)

    def _missing(self, command: RealtimeCommand) -> str | None:
        """What a command needs and this model has not."""
        able = self._state.capabilities
        if isinstance(command, AppendAudio):
            return None if able.supports_input_append else "streamed input"
        if isinstance(command, SignalTurn):
            return None if able.supports_external_turn_signal else "turn signals"
        if isinstance(command, AckPlayback):
            if not able.supports_playback_ack:
                return "playback acknowledgements"
            return "truncation" if command.truncate and not able.supports_audio_truncate else None
        return None

    def _no_place(self, command: RealtimeCommand) -> bool:
        if type(command) in PASSING:
            return False
        limit = self._state.limits.max_pending_commands_per_session
        if isinstance(command, AppendAudio):
            limit -= RESERVED_PLACES
        return len(self._flows.line) >= limit

    def _append_audio(self, command: AppendAudio, lenient: bool) -> None:
        del lenient
        state = self._state
        problem = state.capabilities.validate_append_modalities(
            bool(command.audio), bool(command.video_frames)
        )
        if problem is not None:
            state.fail("invalid_input_modality", problem, command=command)
            return
        size = len(command.audio) + sum(map(len, command.video_frames))
        held = state.input_bytes.reserve(size)
        if held is None:
            state.fail(
                "input_backpressure",
                "too much audio waits; commit or clear the input buffer, or send slower",
                command=command,
            )
            return
        state.lease.touch(state.now, "append")
        self._flows.line.push_append(command, held)

    def _clear_input(self, command: ClearInput, lenient: bool) -> None:
        del lenient
        line, open_turn = self._flows.line, self._flows.open_turn
        if line.holds_steps:
            self._in_turn(open_turn.clear, command)
            return
        self._state.lease.touch(self._state.now, "signal")
        line.drop_audio()
        open_turn.clear(command)

    def _commit(self, command: Commit, lenient: bool) -> None:
        del lenient
        self._state.lease.touch(self._state.now, "signal")
        self._flows.commits.receive(command)

    def _create_response(self, command: CreateResponse, lenient: bool) -> None:
        self._state.lease.touch(self._state.now, "signal")
        self._flows.creates.receive(command, lenient=lenient)

    def _update(self, command: UpdateSession, lenient: bool) -> None:
        self._state.lease.touch(self._state.now, "signal")
        self._flows.updates.receive(command, lenient=lenient)

    def _in_turn(self, run: Callable[[Any], None], command: RealtimeCommand) -> None:
        """Carry out a command behind all that came before it."""
        self._state.lease.touch(self._state.now, "signal")
        self._flows.line.push(HeldStep(run=lambda: run(command)))

    def _heartbeat(self, command: Heartbeat) -> None:
        state = self._state
        try:
            state.lease.touch(state.now, "heartbeat")
        except LeaseEndedError as error:
            state.fail("runtime_touch_failed", str(error), command=command)
            return
        state.emit(SessionHeartbeatAck)

    def _append_text(self, command: AppendText) -> None:
        state = self._state
        if state.native:
            state.fail(
                "native_text_append_unsupported",
                "this model takes no text into an open turn",
                command=command,
            )
            return
        content = [{"type": "input_text", "text": command.text}]
        self._flows.items.create(
            CreateItem(item={"role": "user", "content": content}, event_id=command.event_id)
        )

    def _signal(self, command: SignalTurn) -> None:
        state = self._state
        if command.event == "playback_ack" and not self._acknowledged(command):
            return
        state.turn_state = SIGNALLED_STATES.get(command.event, state.turn_state)
        state.emit(TurnEvent, event=command.event, turn_state=state.turn_state.value)

    def _acknowledged(self, command: SignalTurn) -> bool:
        """The older way to say what was played; False: it was refused."""
        played = command.payload.get("played_ms")
        committed = command.payload.get("committed_ms")
        if not _is_position(played) or not (committed is None or _is_position(committed)):
            self._state.fail(
                "bad_event",
                "payload.played_ms and payload.committed_ms are numbers of ms",
                command=command,
                param="payload",
            )
            return False
        return self._flows.items.acknowledge(
            AckPlayback(played_ms=played, committed_ms=committed, event_id=command.event_id)
        )


def _is_position(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


# One table for all sessions: one for each takes three KiB.
COMMANDS: dict[type[Any], Callable[[CommandDesk, Any, bool], object]] = {
    AppendAudio: CommandDesk._append_audio,
    # These pass whatever waits.
    CancelResponse: lambda desk, command, _: desk._flows.cancels.cancel_response(command),
    ClearOutputAudio: lambda desk, command, _: desk._flows.cancels.clear_output(command),
    CancelInput: lambda desk, command, _: desk._flows.cancels.cancel_input(command),
    BargeIn: lambda desk, command, _: desk._flows.cancels.barge_in(command),
    AckPlayback: lambda desk, command, _: desk._flows.items.acknowledge(command),
    Heartbeat: lambda desk, command, _: desk._heartbeat(command),
    CloseSession: lambda desk, command, _: desk._flows.closing.close(command.reason),
    # These wait for the audio before them.
    Commit: CommandDesk._commit,
    CreateResponse: CommandDesk._create_response,
    UpdateSession: CommandDesk._update,
    # These keep their place in the line.
    ClearInput: CommandDesk._clear_input,
    CreateItem: lambda desk, command, _: desk._in_turn(desk._flows.items.create, command),
    DeleteItem: lambda desk, command, _: desk._in_turn(desk._flows.items.delete, command),
    TruncateItem: lambda desk, command, _: desk._in_turn(desk._flows.items.truncate, command),
    RetrieveItem: lambda desk, command, _: desk._in_turn(desk._flows.items.retrieve, command),
    SignalTurn: lambda desk, command, _: desk._in_turn(desk._signal, command),
    AppendText: lambda desk, command, _: desk._in_turn(desk._append_text, command),
}
