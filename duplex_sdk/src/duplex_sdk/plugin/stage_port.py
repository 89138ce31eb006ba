"""What the session's shell asks of the stages; the orchestrator implements it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from duplex_sdk.stage import Json, StagePrompt

    from .fence import DuplexFence

__all__ = [
    "DuplexStagePort",
    "DuplexStageRequestContext",
    "DuplexStageSubmission",
    "DuplexStageSubmissionResult",
]


class DuplexStageRequestContext(msgspec.Struct, frozen=True, kw_only=True):
    """A stage request that belongs to a session.

    The mappings are read-only copies: nothing that happens to the session later shows in them.

    Attributes:
        request_id: as ``stage_request_id`` builds it.
        session_id: the session.
        fence: what the request is bound to.
        stage_id: where it enters, from 0.
        final_stage_id: whose output goes to the client.
        config_generation: grows with each published config.
        sampling_params: one mapping per stage.
        session_config: the public session object.
        runtime_config: what the plugin's config hooks made.
        seed: for the model's random numbers.
    """

    request_id: str
    session_id: str
    fence: DuplexFence
    stage_id: int = 0
    final_stage_id: int = 0
    config_generation: int = 0
    sampling_params: tuple[Mapping[str, Json], ...] = ()
    session_config: Mapping[str, Json] = MappingProxyType({})
    runtime_config: Mapping[str, Json] = MappingProxyType({})
    seed: int = 0

    def __post_init__(self) -> None:
        fix = msgspec.structs.force_setattr
        fix(self, "sampling_params", tuple(_read_only(each) for each in self.sampling_params))
        fix(self, "session_config", _read_only(self.session_config))
        fix(self, "runtime_config", _read_only(self.runtime_config))


class DuplexStageSubmission(msgspec.Struct, frozen=True, kw_only=True):
    """One unit on its way to stage 0.

    Attributes:
        context: the request it extends or opens.
        prompt: the work.
        already_submitted: an earlier unit of this request was taken.
        resumable: further units will follow in the same request.
        seq: number of the append in its epoch, from 1.
    """

    context: DuplexStageRequestContext
    prompt: StagePrompt
    already_submitted: bool
    resumable: bool = True
    seq: int = 0


class DuplexStageSubmissionResult(msgspec.Struct, frozen=True):
    """Where a unit went."""

    request_id: str
    stage_id: int
    replica_id: int


class DuplexStagePort(ABC):
    """The stages as one session sees them. All methods are called on the engine's loop."""

    @property
    @abstractmethod
    def stage_count(self) -> int:
        """How many stages the pipeline has."""

    @abstractmethod
    def sampling_defaults(self) -> tuple[Mapping[str, Json], ...]:
        """One mapping per stage.

        Raises:
            RuntimeError: a stage has no live replica, so nobody can be admitted.
        """

    @abstractmethod
    def ensure_request(self, context: DuplexStageRequestContext) -> None:
        """Register a request, or bring a registered one up to date. Idempotent.

        Raises:
            ValueError: the id belongs to a request without a session.
        """

    @abstractmethod
    async def submit(self, submission: DuplexStageSubmission) -> DuplexStageSubmissionResult:
        """Give a unit to stage 0; returns once a replica took it.

        Raises:
            DuplexError: not registered, submitted a second time although it is not resumable,
                called off meanwhile, or the stage failed.
        """

    @abstractmethod
    async def cleanup(self, request_ids: Iterable[str], *, abort: bool = False) -> None:
        """Release what these requests hold; with ``abort`` stop their work first.

        Idempotent; unknown ids are passed over. After an exception the caller tries again.
        """

    @abstractmethod
    async def abort_requests(
        self, request_ids: Iterable[str], *, heard_ms: float = 0.0, epoch: int | None = None
    ) -> None:
        """Stop the work of these requests and keep their logical state.

        Every stage where the session is open hears ``StageModel.cancel``.

        Args:
            request_ids: requests of one session.
            heard_ms: how much of the answer was heard.
            epoch: the epoch that begins; None: the one after that of the ids.
        """

    @abstractmethod
    async def release_session(self, session_id: str) -> None:
        """Close the session's state in every stage.

        Idempotent; after an exception the caller tries again.
        """


def _read_only(mapping: Mapping[str, Json]) -> Mapping[str, Json]:
    if isinstance(mapping, MappingProxyType):
        return mapping
    return MappingProxyType(dict(mapping))
