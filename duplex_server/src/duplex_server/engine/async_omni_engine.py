"""``AsyncOmniEngine``: requests without a session."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING

from .errors import EngineBusyError, EngineDeadError, EngineStartError, RequestFailedError
from .omni_engine_base import OmniEngineBase
from .orchestrator import Orchestrator
from .turn_requests import AbortRequest, AddRequest, AnswerSink, UpdateRequest

if TYPE_CHECKING:
    from duplex_sdk.stage import StagePrompt

    from duplex_server.stages import StagePool

    from .orchestrator_base import OrchestratorBase

__all__ = ["AsyncOmniEngine"]

logger = logging.getLogger(__name__)


class AsyncOmniEngine(OmniEngineBase):
    """Runs a pipeline for requests that come and go."""

    _orchestrator: Orchestrator | None = None

    @property
    def turn_request_count(self) -> int:
        """Requests without a session that have something in the stages."""
        return 0 if self._orchestrator is None else self._orchestrator.turn_request_count

    @property
    def turn_request_places(self) -> int:
        """How many such requests may be under way at once; 0 before the start."""
        if self._orchestrator is None or not self.pipeline.turn_requests:
            return 0
        return self._orchestrator.turn_request_places

    def add_request(self, request: AddRequest) -> None:
        """Have a request answered; its sink hears of everything, also of the engine's end.

        Call ``end_request`` in every case.

        Raises:
            RequestFailedError: ``unsupported``: the pipeline serves no requests without a session.
            EngineDeadError: nobody takes it.
            EngineBusyError: the engine is too far behind.
        """
        if not self.pipeline.turn_requests:
            raise RequestFailedError("unsupported", "this model answers in sessions only")
        waiter = self._rpc.register(request.request_id)
        waiter.add_done_callback(partial(_tell_death, request.sink))
        self.send(request)

    def update_request(self, request_id: str, prompt: StagePrompt) -> None:
        """Give a request more of its turn; nothing happens when it has ended.

        Raises:
            EngineDeadError: nobody takes it.
            EngineBusyError: the engine is too far behind.
        """
        self.send(UpdateRequest(request_id, prompt))

    def end_request(self, request_id: str, *, abort: bool) -> None:
        """Nobody waits for this request any more; with ``abort`` it stops. Never fails."""
        self._rpc.forget(request_id)
        if not abort:
            return
        try:
            self.send(AbortRequest(request_id))
        except (EngineDeadError, EngineBusyError) as error:
            logger.debug("request %s was not aborted: %s", request_id, error)

    def _validate_deployment(self) -> None:
        if not self.pipeline.turn_requests:
            raise EngineStartError(
                "this pipeline serves no requests without a session",
                hint="its model answers in sessions only: leave session_mode out",
            )

    def _create_orchestrator(self, pools: Sequence[StagePool]) -> OrchestratorBase:
        self._orchestrator = Orchestrator(
            self.pipeline,
            pools,
            figures=self.figures,
            max_waiting_bytes=self.options.max_waiting_bytes,
            max_turn_requests=self.options.max_turn_requests,
        )
        return self._orchestrator


def _tell_death(sink: AnswerSink, waiter: Future[None]) -> None:
    if not waiter.cancelled() and waiter.exception() is not None:
        sink.end(waiter.exception())
