"""A person on the engine's side of a vllm stage: opens sessions, says units, hears answers."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from duplex_sdk.stage import StageError, StageOutput, StagePrompt, StageSession, UnitRequest
from duplex_server.stages import StageListener, StagePool

__all__ = ["LIMIT", "SLOTS", "Answer", "Talk"]

PATIENCE_S = 60.0
SLOTS = 40
LIMIT = 256
GREEDY = {"temperature": 0.0, "max_tokens": 4}


@dataclass(slots=True)
class Answer:
    """What one unit led to."""

    token_ids: list[int] = field(default_factory=list)
    text: str = ""
    rolled_over: int = 0
    errors: list[StageError] = field(default_factory=list)
    segments: int = 0
    turns: int = 0

    def add(self, output: StageOutput) -> None:
        self.token_ids.extend(output.token_ids)
        self.text += output.text or ""
        self.rolled_over += output.data.get("rolled_over", 0)
        self.segments += output.segment_end
        self.turns += output.end_of_turn
        if output.error is not None:
            self.errors.append(output.error)


class Talk(StageListener):
    """Speaks to a pool and waits for what comes of it."""

    def __init__(self) -> None:
        self.pool: StagePool | None = None
        self.said: dict[str, list[StageOutput]] = defaultdict(list)
        self.failed: dict[str, StageError] = {}
        self.taken: set[tuple[str, int]] = set()
        self.dead: list[tuple[str, Sequence[str]]] = []
        self.ready: list[int] = []
        self._changed = asyncio.Event()
        self._opened: set[str] = set()
        self._seq = 0

    # What the pool tells

    def on_outputs(self, stage_id: int, replica_id: int, outputs: Sequence[StageOutput]) -> None:
        for output in outputs:
            self.said[output.session_id].append(output)
        self._changed.set()

    def on_failed(self, stage_id: int, session_id: str, error: StageError) -> None:
        self.failed[session_id] = error
        self._changed.set()

    def on_taken(self, stage_id: int, session_id: str, epoch: int, seq: int) -> None:
        self.taken.add((session_id, seq))
        self._changed.set()

    def on_idle(self, stage_id: int, session_id: str) -> None:
        pass

    def on_replica_dead(
        self, stage_id: int, replica_id: int, reason: str, session_ids: Sequence[str]
    ) -> None:
        self.dead.append((reason, session_ids))
        self._changed.set()

    def on_replica_ready(self, stage_id: int, replica_id: int, restarts: int) -> None:
        self.ready.append(restarts)
        self._changed.set()

    # What a test says

    @property
    def the_pool(self) -> StagePool:
        assert self.pool is not None
        return self.pool

    def open(self, session_id: str, **sampling: Any) -> str:
        session = StageSession(session_id, sampling={**GREEDY, **sampling}, seed=3)
        self.the_pool.open(session)
        self._opened.add(session_id)
        return session_id

    async def close_all(self) -> None:
        """End every session that is open, so that the next test finds all places free."""
        await asyncio.gather(*(self.the_pool.close(name) for name in self._opened))
        self._opened.clear()
        self.failed.clear()
        self.said.clear()

    def submit(self, session_id: str, *token_ids: int, epoch: int = 0, **prompt: Any) -> int:
        self._seq += 1
        work = StagePrompt(**{"kind": "stage", "token_ids": token_ids, **prompt})
        request_id = f"{session_id}/{epoch}"
        self.the_pool.submit(UnitRequest(session_id, request_id, epoch, 1, self._seq, work))
        return self._seq

    async def ask(self, session_id: str, *token_ids: int, **prompt: Any) -> Answer:
        """Submit a unit and wait for the whole of its answer."""
        self.said[session_id].clear()
        seq = self.submit(session_id, *token_ids, **prompt)
        await self.until(lambda: (session_id, seq) in self.taken or session_id in self.failed)
        answer = Answer()
        for output in self.said[session_id]:
            answer.add(output)
        return answer

    async def fresh(self, history: Sequence[int], **sampling: Any) -> list[int]:
        """What a session that is told everything at once answers."""
        self._seq += 1
        session_id = self.open(f"fresh-{self._seq}", **sampling)
        answer = await self.ask(session_id, *history)
        await self.the_pool.close(session_id)
        return answer.token_ids

    async def figures(self) -> Mapping[str, Any]:
        (figures,) = await self.the_pool.call("engine_figures", {}, timeout_s=PATIENCE_S)
        assert isinstance(figures, Mapping)
        return figures

    async def until(self, condition: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
        async with asyncio.timeout(patience_s):
            while not condition():
                self._changed.clear()
                await self._changed.wait()
