"""The session: one object that decides everything and performs nothing.

``effects = session.handle(item, now)``. One call is one step: it never waits, nothing comes between
its parts, and it knows no clock but ``now``. The shell carries the effects out in order and brings
back, as inputs, how those that take time went.

What happens in a step is spread over flows, one per idea, which work on one ``SessionState``:

* ``waiting_line`` keeps commands behind the audio they depend on,
* ``intake`` takes decoded audio in, ``append_queue`` carries units to the stage,
* ``commit_flow`` and ``create_flow`` seal input and ask for answers,
* ``output_flow`` and ``response_flow`` turn stage outputs into events,
* ``cancel_flow`` interrupts, ``item_flow`` edits the conversation, ``update_flow`` the config,
* ``overflow_flow`` and ``close_flow`` end things.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from duplex_sdk.plugin import stage_request_id, stage_role
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
    SessionCreated,
    SessionHeartbeatAck,
    SessionUpdated,
    SignalTurn,
    TruncateItem,
    TurnEvent,
    UpdateSession,
)

from .append_queue import Append, AppendQueue
from .cancel_flow import CancelFlow
from .close_flow import CloseFlow
from .commit_flow import CommitFlow
from .create_flow import CreateFlow
from .effects import AnswerControl, Effect, Emit, RegisterRequest, Report, WakeAt
from .input_buffer import InputBuffer
from .inputs import (
    AppendPlanned,
    AudioDecoded,
    CloseRequested,
    CommandReceived,
    Fault,
    Input,
    InputConfigured,
    LeaseDetached,
    LeaseResumed,
    LeaseTouched,
    OutputRefused,
    QueuedAudioDropped,
    RequestsAborted,
    StageFailed,
    StageOutputReceived,
    StagesIdle,
    StagesReleased,
    Started,
    TimerFired,
    UnitSubmitted,
)
from .intake import Intake
from .item_flow import ItemFlow
from .lease import LeaseConflictError, LeaseEndedError
from .output_flow import OutputFlow
from .overflow_flow import OverflowFlow
from .response_flow import ResponseFlow
from .state import Phase, SessionState, TurnState
from .tool_flow import ToolFlow
from .transcripts import Transcripts
from .update_flow import UpdateFlow
from .waiting_line import HeldStep, WaitingLine

if TYPE_CHECKING:
    from duplex_sdk.plugin import (
        DuplexCapabilities,
        DuplexModelPlugin,
        DuplexSessionConfig,
        DuplexSessionRuntimeConfig,
        OutputContext,
    )
    from duplex_sdk.stage import PipelineConfig

    from .ids import IdSource

__all__ = ["DuplexEngineSession"]

RESERVED_PLACES = 64
"""Places in the line that appends may not take: a flood of audio must not shut commands out."""

SIGNALLED_STATES = {
    "user_started": TurnState.USER_SPEAKING,
    "user_committed": TurnState.USER_COMMITTED,
    "assistant_started": TurnState.ASSISTANT_GENERATING,
    "assistant_done": TurnState.IDLE,
}


class DuplexEngineSession:
    """One conversation with one model. Not thread-safe: its runner alone calls it.

    Args:
        session_id: as the server allocated it.
        config: what it opens with.
        capabilities: the model's.
        plugin: the model's light half; its synchronous hooks are called inside ``handle``.
        pipeline: the stages.
        limits: what the deployment allows.
        runtime_config: what ``prepare_runtime_config`` made.
        ids: where ids come from.
        wall_time: unix seconds at ``now``, for ``expires_at``.
        now: seconds, of the clock that ``handle`` is given.
    """

    def __init__(
        self,
        session_id: str,
        *,
        config: DuplexSessionConfig,
        capabilities: DuplexCapabilities,
        plugin: DuplexModelPlugin,
        pipeline: PipelineConfig,
        limits: DuplexSessionRuntimeConfig,
        runtime_config: Mapping[str, Any],
        ids: IdSource,
        wall_time: float,
        now: float,
    ) -> None:
        self._state = state = SessionState(
            session_id,
            config=config,
            capabilities=capabilities,
            plugin=plugin,
            pipeline=pipeline,
            limits=limits,
            runtime_config=runtime_config,
            ids=ids,
            wall_time=wall_time,
            now=now,
        )
        buffer = InputBuffer(state.model_state.audio_buffer, state.input_bytes, 0)
        self._appends = AppendQueue(
            state, buffer, accepted=self._append_accepted, failed=self._append_failed
        )
        self._responses = ResponseFlow(state, ended=self._response_ended)
        self._transcripts = Transcripts(state)
        tools = ToolFlow(state)
        self._intake = Intake(
            state,
            buffer,
            self._appends,
            self._responses,
            barge_in=self._barge_in_by_speech,
            turn_ended=self._turn_ended,
        )
        self._line = WaitingLine(state, self._appends, heard=self._intake.hear)
        self._intake.line = self._line
        self._commits = CommitFlow(
            state,
            buffer,
            self._appends,
            self._line,
            self._intake,
            self._responses,
            self._transcripts,
        )
        self._creates = CreateFlow(
            state, self._appends, self._line, self._intake, self._commits, self._responses
        )
        self._cancels = CancelFlow(
            state, self._responses, self._intake, prepare_held=self._creates.open_held
        )
        self._items = ItemFlow(state, tools)
        self._updates = UpdateFlow(state, buffer, self._line, self._intake)
        self._closing = CloseFlow(state, buffer, self._appends, self._line, self._responses)
        self._outputs = OutputFlow(
            state,
            self._appends,
            self._responses,
            self._transcripts,
            tools,
            end_session=self._closing.close,
        )
        self._overflow = OverflowFlow(state, self._responses, end_session=self._end_with_details)
        self._armed: float | None = None
        self._inputs = self._input_table()
        self._commands = self._command_table()

    def _input_table(self) -> dict[type[Any], Callable[[Any], None]]:
        return {
            Started: self._started,
            CommandReceived: self._command,
            AudioDecoded: self._line.decoded,
            InputConfigured: self._updates.configured,
            AppendPlanned: self._appends.planned,
            UnitSubmitted: self._appends.submitted,
            RequestsAborted: self._cancels.aborted,
            StagesReleased: self._closing.released,
            QueuedAudioDropped: self._cancels.audio_dropped,
            StageOutputReceived: self._outputs.received,
            StagesIdle: self._outputs.idle,
            OutputRefused: self._overflow.refused,
            TimerFired: self._timer_fired,
            StageFailed: self._outputs.stage_failed,
            LeaseTouched: self._lease_touched,
            LeaseDetached: self._lease_detached,
            LeaseResumed: self._lease_resumed,
            CloseRequested: self._close_requested,
        }

    def _command_table(self) -> dict[type[Any], Callable[[Any, bool], None]]:
        return {
            AppendAudio: self._append_audio,
            # These pass whatever waits.
            CancelResponse: lambda command, _: self._cancels.cancel_response(command),
            ClearOutputAudio: lambda command, _: self._cancels.clear_output(command),
            CancelInput: lambda command, _: self._cancels.cancel_input(command),
            BargeIn: lambda command, _: self._cancels.barge_in(command),
            AckPlayback: lambda command, _: self._items.acknowledge(command),
            Heartbeat: lambda command, _: self._heartbeat(command),
            CloseSession: lambda command, _: self._closing.close(command.reason),
            # These wait for the audio before them.
            Commit: lambda command, _: self._commits.receive(command),
            CreateResponse: lambda command, lenient: self._creates.receive(
                command, lenient=lenient
            ),
            UpdateSession: lambda command, lenient: self._updates.receive(command, lenient=lenient),
            # These keep their place in the line.
            ClearInput: self._clear_input,
            CreateItem: lambda command, _: self._in_turn(self._items.create, command),
            DeleteItem: lambda command, _: self._in_turn(self._items.delete, command),
            TruncateItem: lambda command, _: self._in_turn(self._items.truncate, command),
            RetrieveItem: lambda command, _: self._in_turn(self._items.retrieve, command),
            SignalTurn: lambda command, _: self._in_turn(self._signal, command),
            AppendText: lambda command, _: self._in_turn(self._append_text, command),
        }

    # what the shell may read

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self._state.session_id

    @property
    def closed(self) -> bool:
        """Whether the terminal event was emitted."""
        return self._state.phase is Phase.CLOSED

    @property
    def public_session(self) -> dict[str, Any]:
        """The session object as clients see it, a fresh dict."""
        return self._state.public_session()

    @property
    def config(self) -> DuplexSessionConfig:
        """What is in force."""
        return self._state.config

    @property
    def lease_generation(self) -> int:
        """0 at first; one more with each resume and with the end."""
        return self._state.lease.generation

    def output_context(self, stage_id: int) -> OutputContext:
        """Where an output of this stage stands now, for the plugin's say before the mailbox."""
        return self._outputs.context(stage_id)

    @property
    def epoch(self) -> int:
        """How often the session was interrupted."""
        return self._state.epoch

    @property
    def input_bytes(self) -> int:
        """All input bytes that the session occupies, moving and held; cheap."""
        return self._state.input_bytes.total

    @property
    def moving_input_bytes(self) -> int:
        """Input bytes that drain by themselves."""
        return self._line.moving_bytes + self._appends.moving_bytes

    @property
    def held_input_bytes(self) -> int:
        """Input bytes that only a commit, clear or cancel lets go of."""
        return self._state.input_bytes.total - self.moving_input_bytes

    @property
    def waiting_commands(self) -> int:
        """Commands that wait for the audio before them, and that audio."""
        return len(self._line)

    @property
    def pending_turns(self) -> int:
        """Commits that are not carried out yet."""
        return self._state.pending_turns.total

    # the step

    def handle(self, item: Input, now: float) -> tuple[Effect, ...]:
        """Take one input in and say what is to be done about it.

        Args:
            item: what happened.
            now: seconds; never less than at the call before.

        Returns:
            Effects, to be carried out in this order.
        """
        state = self._state
        state.now = now
        state.effects = []
        try:
            self._inputs[type(item)](item)
            self._go_on()
        except Exception as error:
            # A fault of ours or of a plugin's buffer: it must not take the session with it.
            state.do(Report("error", f"handling {type(item).__name__} failed: {error!r}"))
            state.fail("internal_error", "an unexpected failure; the session goes on")
        self._arm()
        return tuple(state.effects) if not state.overflowed else self._told()

    def _told(self) -> tuple[Effect, ...]:
        return tuple(
            effect
            for effect in self._state.effects
            if not (isinstance(effect, Emit) and self._overflow.suppresses(effect.event))
        )

    def _go_on(self) -> None:
        """What this step caused, then what was waiting for it."""
        state = self._state
        while True:
            while state.followups:
                state.followups.popleft()()
            self._line.advance()
            if not state.followups:
                return

    def _arm(self) -> None:
        """One timer per session; one that fires early is armed again, so it never moves back."""
        state = self._state
        candidates = [state.lease.next_deadline(), self._closing.deadline, self._held_start_until()]
        deadline = min((at for at in candidates if at is not None), default=None)
        if deadline is not None and (self._armed is None or deadline < self._armed):
            self._armed = deadline
            state.do(WakeAt(deadline))

    def _held_start_until(self) -> float | None:
        state = self._state
        if state.turn_input.held_start is None or state.response is not None:
            return None
        return state.playback.plays_until(server_vad=state.has_detector)

    def _timer_fired(self, item: TimerFired) -> None:
        del item
        state = self._state
        self._armed = None
        self._closing.wait_over()
        if not state.open:
            return
        if not self._intake.response_in_progress:
            self._intake.utterance.release_start()
        reason = state.lease.expiry(state.now)
        if reason is not None:
            self._closing.close(reason, expired=True)

    # life

    def _started(self, item: Started) -> None:
        state = self._state
        state.emit(SessionCreated, session=state.public_session())
        if item.by_update:
            state.emit(SessionUpdated, session=state.public_session())
        if state.config.initial_user_text:
            parts = [{"type": "text", "text": state.config.initial_user_text}]
            state.history.add_message(state.ids.item(), "user", parts)
        turn = None if state.capabilities.supports_core_resumable_request else state.turn_id
        context = self._appends.context(stage_request_id(state.fence, stage_role(0, turn)))
        state.requests.register(context.request_id, 0, state.config_generation)
        state.do(RegisterRequest(context))
        if state.config.turn_detection is not None:
            self._updates.configure_input()

    def _close_requested(self, item: CloseRequested) -> None:
        self._closing.close(item.reason, expired=item.expired)

    def _end_with_details(self, reason: str, details: dict[str, Any]) -> None:
        self._closing.close(reason, details=details)

    def _lease_touched(self, item: LeaseTouched) -> None:
        self._lease(
            item.control_id,
            lambda lease, now: lease.touch(now, item.activity),
        )

    def _lease_detached(self, item: LeaseDetached) -> None:
        self._lease(
            item.control_id,
            lambda lease, now: lease.detach(now, expected_generation=item.expected_generation),
        )

    def _lease_resumed(self, item: LeaseResumed) -> None:
        self._lease(
            item.control_id,
            lambda lease, now: lease.resume(now, item.expected_generation, item.control_id),
        )

    def _lease(self, control_id: str, operate: Callable[[Any, float], Any]) -> None:
        state = self._state
        fault = None
        try:
            operate(state.lease, state.now)
        except LeaseConflictError as error:
            fault = Fault("session_resume_conflict", str(error))
        except LeaseEndedError as error:
            fault = Fault("session_closed", str(error))
        shown = state.public_session() if fault is None else None
        state.do(AnswerControl(control_id, state.lease.generation, shown, fault))

    # commands

    def _command(self, item: CommandReceived) -> None:
        state = self._state
        command = item.command
        if not state.open:
            if state.phase is Phase.CLOSING:
                state.fail("session_closed", "the session is closing", command=command)
            return
        if self._no_place(command):
            state.fail("input_backpressure", "too many commands wait", command=command)
            return
        self._commands[type(command)](command, item.lenient)

    def _no_place(self, command: RealtimeCommand) -> bool:
        limit = self._state.limits.max_pending_commands_per_session
        if isinstance(command, AppendAudio):
            limit -= RESERVED_PLACES
        return len(self._line) >= limit

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
        self._line.push_append(command, held)

    def _clear_input(self, command: ClearInput, lenient: bool) -> None:
        del lenient
        if self._line.holds_steps:
            self._in_turn(self._intake.clear, command)
        else:
            self._intake.clear(command)

    def _in_turn(self, run: Callable[[Any], None], command: RealtimeCommand) -> None:
        """Carry out a command behind all that came before it."""
        self._state.lease.touch(self._state.now, "signal")
        self._line.push(HeldStep(run=lambda: run(command)))

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
        self._items.create(
            CreateItem(item={"role": "user", "content": content}, event_id=command.event_id)
        )

    def _signal(self, command: SignalTurn) -> None:
        state = self._state
        state.turn_state = SIGNALLED_STATES.get(command.event, state.turn_state)
        state.emit(TurnEvent, event=command.event, turn_state=state.turn_state.value)

    # what one flow tells another

    def _append_accepted(self, append: Append) -> None:
        state = self._state
        assert append.context is not None
        with state.contained("begin_request"):
            state.plugin.data_plane.begin_request(
                append.context.request_id, state=state.model_state
            )

    def _append_failed(self, append: Append, fault: Fault) -> None:
        self._outputs.append_failed(append.answers, fault)

    def _response_ended(self, well: bool) -> None:
        state = self._state
        if not well:
            # What waited for its end stays unanswered input.
            state.turn_input.answer_deferred = False
        state.later(self._after_response)

    def _after_response(self) -> None:
        self._commits.promote()
        if not self._intake.response_in_progress:
            self._state.turn_input.overlap_speech_ms = 0.0
            self._intake.utterance.release_start()
        self._intake.resume()

    def _barge_in_by_speech(self, reason: str) -> None:
        if self._intake.response_pending:
            self._cancels.interrupt(reason, drop_answers=False)
        else:
            self._cancels.stop_playback()

    def _turn_ended(self) -> None:
        self._commits.turn_ended()
