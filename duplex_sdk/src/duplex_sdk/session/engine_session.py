"""The session: one object that decides everything and performs nothing.

``effects = session.handle(item, now)``. One call is one step: it never waits, nothing comes between
its parts, and it knows no clock but ``now``. The shell carries the effects out in order and brings
back, as inputs, how those that take time went.

What happens in a step is spread over flows, one per idea, which work on one ``SessionState``:

* ``waiting_line`` keeps commands behind the audio they depend on,
* ``intake`` takes decoded audio in, ``append_queue`` carries units to the stage,
* ``commit_flow`` and ``create_flow`` seal input and ask for answers,
* ``output_flow`` and ``response_flow`` turn stage outputs into events, ``beside_flow`` those of
  responses outside the conversation,
* ``cancel_flow`` interrupts, ``item_flow`` edits the conversation, ``update_flow`` the config,
* ``overflow_flow`` and ``close_flow`` end things, ``life_flow`` keeps the lease and the timer.

``command_desk`` admits commands, ``flows`` joins the flows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from .command_desk import CommandDesk
from .effects import Effect, Emit, Report
from .flows import Flows
from .inputs import (
    AppendPlanned,
    AudioDecoded,
    CloseRequested,
    CommandReceived,
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
from .life_flow import LifeFlow
from .state import Phase, SessionSetup, SessionState
from .voice import voice_in_use

if TYPE_CHECKING:
    from duplex_sdk.plugin import (
        AppendPiece,
        DuplexCapabilities,
        DuplexModelPlugin,
        DuplexSessionConfig,
        DuplexSessionRuntimeConfig,
        OutputContext,
    )
    from duplex_sdk.stage import PipelineConfig

    from .ids import IdSource

__all__ = ["DuplexEngineSession", "Lanes"]


class Lanes(NamedTuple):
    """What of a session's input waits.

    Attributes:
        commits: of clients, behind the audio before them.
        undecoded_bytes: audio that is not decoded yet.
        units: on their way to stage 0 and not settled, the oldest first.
    """

    commits: int
    undecoded_bytes: int
    units: tuple[AppendPiece, ...]


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

    Raises:
        DuplexConfigError: the plugin cannot name the voice.
    """

    __slots__ = ("__weakref__", "_desk", "_flows", "_life", "_state")

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
        setup = SessionSetup(
            config=config.with_voice(voice_in_use(plugin, config, session_id)),
            capabilities=capabilities,
            plugin=plugin,
            pipeline=pipeline,
            limits=limits,
            runtime_config=runtime_config,
            ids=ids,
            wall_time=wall_time,
            now=now,
        )
        self._state = state = SessionState(session_id, setup)
        self._flows = flows = Flows(state)
        self._life = LifeFlow(state, flows)
        self._desk = CommandDesk(state, flows)

    # what the shell may read

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self._state.session_id

    @property
    def state(self) -> SessionState:
        """Its ledgers, for tests and simulators; whoever reads them changes nothing."""
        return self._state

    @property
    def closed(self) -> bool:
        """Whether the terminal event was emitted."""
        return self._state.phase is Phase.CLOSED

    @property
    def public_session(self) -> dict[str, Any]:
        """The session object as clients see it, read-only; the same one while it says the truth."""
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
        return self._flows.outputs.context(stage_id)

    @property
    def accepted_seq(self) -> int:
        """Number of the last append that stage 0 took in this epoch."""
        return self._state.sequence.seq

    @property
    def epoch(self) -> int:
        """How often the session was interrupted."""
        return self._state.epoch

    @property
    def ignores_idle(self) -> bool:
        """Whether ``StagesIdle`` would change nothing now."""
        fed = self._state.auto_responds and self._flows.continuations.enabled
        return fed and not self._state.beside

    @property
    def input_bytes(self) -> int:
        """All input bytes that the session occupies, moving and held; cheap."""
        return self._state.input_bytes.total

    def input_load(self) -> tuple[int, int, int]:
        """``input_bytes``, ``waiting_commands`` and ``pending_turns``, asked after every step."""
        state = self._state
        return state.input_bytes.total, len(self._flows.line), state.pending_turns.total

    @property
    def moving_input_bytes(self) -> int:
        """Input bytes that drain by themselves."""
        return self._flows.line.moving_bytes + self._flows.appends.moving_bytes

    @property
    def held_input_bytes(self) -> int:
        """Input bytes that only a commit, clear or cancel lets go of."""
        return self._state.input_bytes.total - self.moving_input_bytes

    @property
    def preroll_bytes(self) -> int:
        """Of the held bytes, those of silence that may yet become the begin of an utterance."""
        return self._flows.buffer.preroll_bytes

    @property
    def waiting_commands(self) -> int:
        """Commands that wait for the audio before them, and that audio."""
        return len(self._flows.line)

    @property
    def pending_turns(self) -> int:
        """Commits that are not carried out yet."""
        return self._state.pending_turns.total

    def lanes(self) -> Lanes:
        """What waits and what is under way, for tests and simulators."""
        line, appends = self._flows.line, self._flows.appends
        units = tuple([append.piece for append in appends.under_way])
        return Lanes(0 if line.empty else line.commits, line.undecoded_bytes, units)

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
            HANDLERS[type(item)](self)(item)
            self._flows.go_on()
        except Exception as error:
            # A fault of ours or of a plugin's buffer: it must not take the session with it.
            state.do(Report("error", f"handling {type(item).__name__} failed: {error!r}"))
            state.fail("internal_error", "an unexpected failure; the session goes on")
        if state.deadline_moved or state.turn_input.held_start is not None:
            self._life.arm()
        return tuple(state.effects) if not state.overflowed else self._told()

    def _told(self) -> tuple[Effect, ...]:
        return tuple(
            effect
            for effect in self._state.effects
            if not (isinstance(effect, Emit) and self._flows.overflow.suppresses(effect.event))
        )


# One table for all sessions: one for each, of bound methods, takes two KiB.
HANDLERS: dict[type[Any], Callable[[DuplexEngineSession], Callable[[Any], None]]] = {
    Started: attrgetter("_life.started"),
    CommandReceived: attrgetter("_desk.receive"),
    AudioDecoded: attrgetter("_flows.line.decoded"),
    InputConfigured: attrgetter("_flows.updates.configured"),
    AppendPlanned: attrgetter("_flows.appends.planned"),
    UnitSubmitted: attrgetter("_flows.appends.submitted"),
    RequestsAborted: attrgetter("_flows.cancels.aborted"),
    StagesReleased: attrgetter("_flows.closing.released"),
    QueuedAudioDropped: attrgetter("_flows.cancels.audio_dropped"),
    StageOutputReceived: attrgetter("_flows.outputs.received"),
    StagesIdle: attrgetter("_flows.outputs.idle"),
    OutputRefused: attrgetter("_flows.overflow.refused"),
    TimerFired: attrgetter("_life.timer_fired"),
    StageFailed: attrgetter("_flows.outputs.stage_failed"),
    LeaseTouched: attrgetter("_life.touched"),
    LeaseDetached: attrgetter("_life.detached"),
    LeaseResumed: attrgetter("_life.resumed"),
    CloseRequested: attrgetter("_life.close_requested"),
}
