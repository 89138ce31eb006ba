"""What the flows of one session share: its identity, config, ledgers and the effects it asks for.

Nothing in here decides anything. Each flow (decode, input, append, commit, response, cancel, items,
update, close) is a module of its own and works on this one object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

from duplex_sdk.plugin import (
    DuplexCapabilities,
    DuplexFence,
    DuplexModelPlugin,
    DuplexModelSessionState,
    DuplexSessionConfig,
    DuplexSessionRuntimeConfig,
    SessionView,
)
from duplex_sdk.plugin.read_only import ReadOnlyDict
from duplex_sdk.protocol.duplex import DuplexEvent, RealtimeCommand, error_event

from .append_sequence import AppendSequence
from .conversation_items import ConversationItems
from .effects import Effect, Emit, ReleaseRequests, Report
from .history import ConversationHistory
from .ids import IdSource
from .lease import DuplexLeaseConfig, DuplexLeaseState
from .playback import PlaybackLedger
from .reservations import ByteLedger, TurnLedger
from .response import Response
from .stage_metrics import StageMetrics
from .stage_requests import StageRequests
from .tools import ToolLedger
from .turn_input import TurnInput

if TYPE_CHECKING:
    from duplex_sdk.stage import PipelineConfig, TokenUsage

__all__ = ["Phase", "SessionSetup", "SessionState", "TurnState"]


class Phase(Enum):
    """Life of a session."""

    OPEN = "open"
    CLOSING = "closing"
    CLOSED = "closed"


class TurnState(Enum):
    """Who has the floor; shown to clients."""

    IDLE = "idle"
    USER_SPEAKING = "user_speaking"
    USER_COMMITTED = "user_committed"
    ASSISTANT_GENERATING = "assistant_generating"
    ASSISTANT_PLAYING = "assistant_playing"
    BARGE_IN = "barge_in"


@dataclass(frozen=True, slots=True)
class _Published:
    config: Mapping[str, Any]
    sampling: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSetup:
    """What a session is opened with; see ``DuplexEngineSession``."""

    config: DuplexSessionConfig
    capabilities: DuplexCapabilities
    plugin: DuplexModelPlugin
    pipeline: PipelineConfig
    limits: DuplexSessionRuntimeConfig
    runtime_config: Mapping[str, Any]
    ids: IdSource
    wall_time: float
    now: float


class SessionState:
    """The one mutable state of a session, owned by it and changed by its flows."""

    # Slots: with so many attributes a dict takes 1.3 KiB more per session.
    __slots__ = (
        "_last_op",
        "_own_seed",
        "_published",
        "_sampling_defaults",
        "_shown",
        "answers_since",
        "audio_started",
        "auto_responds",
        "beside",
        "capabilities",
        "commit_seq",
        "config",
        "config_generation",
        "context_locked",
        "deadline_moved",
        "detector_works",
        "early_input",
        "effects",
        "epoch",
        "followups",
        "has_detector",
        "history",
        "ids",
        "input_bytes",
        "items",
        "last_response_id",
        "lease",
        "limits",
        "model_state",
        "muted",
        "native",
        "now",
        "open",
        "opened_at",
        "opened_wall_time",
        "overflowed",
        "pending_turns",
        "phase",
        "pipeline",
        "playback",
        "plugin",
        "requests",
        "response",
        "runtime_config",
        "sequence",
        "session_id",
        "stage_metrics",
        "stages_opened",
        "told_to_listen",
        "tools",
        "turn_id",
        "turn_input",
        "turn_state",
        "usage",
    )

    def __init__(self, session_id: str, setup: SessionSetup) -> None:
        self.session_id = session_id
        self.capabilities = setup.capabilities
        self.plugin = setup.plugin
        self.pipeline = setup.pipeline
        self.limits = setup.limits
        self.ids = setup.ids
        self.opened_at = setup.now
        self.opened_wall_time = setup.wall_time
        self.now = setup.now
        # The model decides by itself when to speak.
        self.native = self.capabilities.supports_model_native_turn_policy
        self.detector_works = True
        self.adopt(setup.config)
        self.runtime_config = setup.runtime_config
        self.config_generation = 0

        self.enter(Phase.OPEN)
        self.turn_state = TurnState.IDLE
        self.epoch = 0
        self.turn_id = 0
        self.model_state: DuplexModelSessionState = self.plugin.create_session_state()
        self._open_ledgers()

        self.response: Response | None = None
        # Those outside the conversation, by id.
        self.beside: dict[str, Response] = {}
        self.last_response_id: str | None = None
        self.audio_started = False
        self.context_locked = False
        self.commit_seq = 0
        self._own_seed = self.ids.seed()
        self.stages_opened = False
        self.answers_since: float | None = None
        self.stage_metrics: StageMetrics = {}
        # Of work that no response was open for yet.
        self.usage: TokenUsage | None = None
        self.muted = False
        self.told_to_listen = False
        self.overflowed = False
        self._sampling_defaults = tuple(stage.sampling for stage in self.pipeline.stages)
        self._published: _Published | None = None
        self._shown: tuple[DuplexSessionConfig, dict[str, Any]] | None = None

        self.effects: list[Effect] = []
        self.followups: list[Callable[[], None]] = []
        # The timer must be looked after: a deadline was set in this step.
        self.deadline_moved = True
        self._last_op = 0

    def _open_ledgers(self) -> None:
        limits = self.limits
        self.sequence = AppendSequence(self.session_id)
        self.requests = StageRequests()
        self.lease = DuplexLeaseState(
            DuplexLeaseConfig(
                limits.idle_ttl_s, limits.disconnect_grace_s, self.capabilities.max_session_s
            ),
            self.now,
        )
        self.input_bytes = ByteLedger(limits.max_pending_input_bytes_per_session)
        self.pending_turns = TurnLedger(limits.max_pending_turns_per_session)
        self.turn_input = TurnInput()
        self.playback = PlaybackLedger()
        self.history = ConversationHistory()
        self.items = ConversationItems()
        self.tools = ToolLedger()

    @property
    def fence(self) -> DuplexFence:
        """What stage work submitted now is bound to."""
        return DuplexFence(self.session_id, self.epoch, self.turn_id)

    def enter(self, phase: Phase) -> None:
        """A part of the session's life begins; commands are taken while it is ``open``."""
        self.phase = phase
        self.open = phase is Phase.OPEN

    def adopt(self, config: DuplexSessionConfig) -> None:
        """This config is in force from now on, and what follows from it.

        ``auto_responds``: input goes to the model as it comes and is answered unasked; else it is
        turn mode, and with ``early_input`` the model hears units before the commit all the same.
        """
        self.config = config
        self.auto_responds = config.auto_response or not self.capabilities.supports_client_commit
        self.early_input = self.plugin.early_input and not self.auto_responds
        self.trust_detector(self.detector_works)

    def trust_detector(self, works: bool) -> None:
        """Whether the detector works; ``has_detector``: the server decides what is speech."""
        self.detector_works = works
        self.has_detector = works and self.config.turn_detection is not None

    @property
    def seed(self) -> int:
        """For the model's random numbers: the client's own, else one from the id source."""
        asked = self.config.extra_body.get("seed")
        return asked if type(asked) is int and 0 <= asked < 1 << 63 else self._own_seed

    def next_op(self) -> int:
        """A fresh name for an effect that takes time."""
        self._last_op += 1
        return self._last_op

    def do(self, effect: Effect) -> None:
        """Ask the shell for something."""
        self.effects.append(effect)

    def later(self, step: Callable[[], None]) -> None:
        """Ask something of this session itself, behind what causes it."""
        self.followups.append(step)

    def emit(self, event_type: type[DuplexEvent], **fields: Any) -> None:
        """Tell the client; the event is stamped with id, session and epoch."""
        self.effects.append(
            Emit(
                event_type(
                    event_id=self.ids.event(),
                    session_id=self.session_id,
                    epoch=self.epoch,
                    **fields,
                )
            )
        )

    def fail(
        self,
        code: str,
        message: str,
        *,
        command: RealtimeCommand | None = None,
        param: str | None = None,
        **extra: Any,
    ) -> None:
        """Emit one ``error``; with ``command`` it refuses that command."""
        self.effects.append(
            Emit(
                error_event(
                    code,
                    message,
                    event_id=command.event_id if command is not None else None,
                    param=param,
                    command=type(command).type if command is not None else None,
                    session_id=self.session_id,
                    epoch=self.epoch,
                    new_id=self.ids.event(),
                    **extra,
                )
            )
        )

    # what the plugin and the stages see

    @property
    def effective_config(self) -> DuplexSessionConfig:
        """The session's config, or that of the open response with its own options."""
        return self.config if self.response is None else self.response.config

    def publish_config(self) -> None:
        """Config, runtime config or response options changed: the stages are told with the next
        unit.
        """  # noqa: D205
        self.config_generation += 1
        self._published = None

    @property
    def published(self) -> _Published:
        """What the stages are told, made once per generation."""
        if self._published is None:
            self._published = self._publication(self.effective_config)
        return self._published

    def _publication(self, config: DuplexSessionConfig) -> _Published:
        return _Published(
            config=MappingProxyType(config.for_stages(self.session_id)),
            sampling=tuple(
                self.plugin.configure_sampling_params(
                    runtime_config=self.runtime_config, defaults=self._sampling_defaults
                )
            ),
        )

    def publish_beside(self, config: DuplexSessionConfig) -> tuple[_Published, int]:
        """What the stages are told with the one unit of a response beside the conversation.

        With the next unit of the conversation they are told its own config again.

        Returns:
            What is told, and the generation it is told under.
        """
        if config == self.effective_config:
            return self.published, self.config_generation
        self.config_generation += 1
        generation = self.config_generation
        self.publish_config()
        return self._publication(config), generation

    def view(
        self,
        *,
        without: frozenset[str] = frozenset(),
        instead: tuple[Mapping[str, Any], ...] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> SessionView:
        """The session as its plugin sees it.

        Args:
            without: items of the turn under way.
            instead: messages that stand for the conversation.
            config: what stands for the conversation's.
        """
        conversation = instead
        if conversation is None:
            history = self.history
            conversation = history.messages_without(without) if without else history.messages()
        return SessionView(
            session_id=self.session_id,
            config=self.published.config if config is None else config,
            runtime=self.runtime_config,
            conversation=conversation,
        )

    def playback_snapshot(self, response_id: str) -> dict[str, int]:
        """How much of a response was made, sent and heard, in whole ms."""
        cursor = self.playback.cursor(response_id)
        return (self.playback.current if cursor is None else cursor).snapshot()

    def show_text(self, item_id: str, text: str) -> None:
        """An item of the assistant now says so much; nothing when the item is gone."""
        item = self.items.get(item_id)
        if item is None or not item.content:
            return
        part = item.content[0]
        if part.type == "output_audio":
            part = msgspec.structs.replace(part, transcript=text)
        else:
            part = msgspec.structs.replace(part, text=text)
        self.items.replace(msgspec.structs.replace(item, content=(part, *item.content[1:])))

    @contextmanager
    def contained(self, hook: str, *, refusal: type[Exception] | tuple[()] = ()) -> Iterator[None]:
        """Call a hook of the plugin: what it raises is reported and goes no further.

        Args:
            hook: its name.
            refusal: what it may raise on purpose, which is passed on.
        """
        try:
            yield
        except refusal:
            raise
        except Exception as error:
            self.hook_failed(hook, error)

    def hook_failed(self, hook: str, error: Exception) -> None:
        """A hook of the plugin raised: it is reported, and the session goes on without it."""
        self.do(Report("warning", f"plugin hook {hook} failed: {error!r}"))

    def release_requests(self, request_ids: tuple[str, ...]) -> None:
        """Have the stages forget ids under which nothing runs."""
        if request_ids:
            op = self.next_op()
            self.requests.leave(op, request_ids)
            self.do(ReleaseRequests(op, request_ids))

    def close_stream(self, request_id: str) -> None:
        """Tell the data plane that a request is cancelled or finished."""
        with self.contained("close_stream"):
            self.plugin.data_plane.close_stream(request_id, state=self.model_state)

    def public_session(self) -> dict[str, Any]:
        """The session object as clients see it: the same one while nothing of it changes.

        An opened session shows it twice, to its owner and in its first event, and so many fields
        take 4 KiB. So it is read-only, and nobody may change what is in it.
        """
        longest = self.capabilities.max_session_s
        response = self.response
        moving: dict[str, Any] = {
            "state": self.phase.value,
            "turn_state": self.turn_state.value,
            "epoch": self.epoch,
            "turn_id": self.turn_id,
            "active_request_id": self.requests.active_id,
            "active_response_id": response.id if response is not None else None,
            "active_response_turn_id": response.turn_id if response is not None else None,
            "playback": self.playback.current.snapshot(),
        }
        if self._shown is not None:
            config, shown = self._shown
            if config is self.config and all(shown[name] == moving[name] for name in moving):
                return shown
        shown = ReadOnlyDict(
            self.config.public(
                session_id=self.session_id,
                capabilities=self.capabilities,
                expires_at=None if longest is None else int(self.opened_wall_time + longest),
                **moving,
            )
        )
        self._shown = self.config, shown
        return shown
