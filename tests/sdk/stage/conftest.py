from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from duplex_sdk.stage import (
    LoadContext,
    StageInfo,
    StageModel,
    StageOutput,
    StagePrompt,
    StageSession,
    StageUnit,
    UnitRequest,
)
from duplex_sdk.stage.host import HostResult, StageHost

RATE = 8000


class Clock:
    """Seconds that pass only when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def pass_ms(self, ms: float) -> None:
        self.now += ms / 1000


class RecordingModel(StageModel[dict[str, Any]]):
    """Notes its calls; ``on_unit`` says what a unit makes."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.fail_in: set[tuple[str, str]] = set()
        self.on_unit: Callable[[StageUnit[Any], float], Iterable[StageOutput]] = lambda u, now: []

    def note(self, name: str, session_id: str, *details: Any) -> None:
        self.calls.append((name, session_id, *details))
        if (name, session_id) in self.fail_in:
            raise RuntimeError(f"{name} is told to fail")

    def names(self) -> list[str]:
        return [call[0] for call in self.calls]

    def load(self, context: LoadContext) -> StageInfo:
        return StageInfo(device="cpu", max_sessions=4)

    def open(self, session: StageSession) -> dict[str, Any]:
        self.note("open", session.session_id)
        return {"id": session.session_id, "config": session.config}

    def step_unit(self, unit: StageUnit[Any], now: float) -> Iterable[StageOutput]:
        self.note("step", unit.session_id, unit.prompt.kind, unit.seq)
        return self.on_unit(unit, now)

    def update(self, state: dict[str, Any], session: StageSession) -> None:
        self.note("update", state["id"], dict(session.config))
        state["config"] = session.config

    def cancel(self, state: dict[str, Any], epoch: int, heard_ms: float) -> None:
        self.note("cancel", state["id"], epoch, heard_ms)

    def close(self, state: dict[str, Any]) -> None:
        self.note("close", state["id"])

    def unload(self) -> None:
        self.calls.append(("unload", ""))


class BatchModel(RecordingModel):
    """The same, computing a batch at once; ``on_batch`` says what a batch makes."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[str]] = []
        self.on_batch: Callable[[Any, float], Any] = lambda units, now: []

    def step(self, units: Any, now: float) -> Any:
        self.batches.append([unit.session_id for unit in units])
        return self.on_batch(units, now)


class PrefillModel(RecordingModel):
    """The same, with a prompt in slices."""

    def __init__(self) -> None:
        super().__init__()
        self.slices: dict[str, list[float | None]] = {}
        self.on_slice: Callable[[], None] = lambda: None

    def prefill(self, state: dict[str, Any], now: float) -> float | None:
        self.note("prefill", state["id"])
        self.on_slice()
        left = self.slices.get(state["id"], [])
        return left.pop(0) if left else None


class Rig:
    """A host with its model and clock, and short ways to speak to it."""

    def __init__(self, model: RecordingModel, **settings: Any) -> None:
        self.clock = Clock()
        self.model = model
        self.host = StageHost(model, clock=self.clock, output_rate=RATE, **settings)
        self._seq = 0

    def open(self, *session_ids: str, **config: Any) -> None:
        for session_id in session_ids:
            self.host.open(StageSession(session_id, config))

    def unit(
        self,
        session_id: str,
        *,
        epoch: int = 0,
        turn_id: int = 1,
        request_id: str | None = None,
        **prompt: Any,
    ) -> int:
        self._seq += 1
        request = request_id or f"{session_id}/{epoch}"
        work = StagePrompt(**prompt)
        self.host.units([UnitRequest(session_id, request, epoch, turn_id, self._seq, work)])
        return self._seq

    def step(self) -> HostResult:
        return self.host.step()

    def run(self, *, limit_ms: float = 10_000) -> list[StageOutput]:
        """Step whenever something is due, until nothing is; the outputs made on the way."""
        outputs: list[StageOutput] = []
        end = self.clock.now + limit_ms / 1000
        while (due := self.host.next_due()) is not None and due <= end:
            self.clock.now = max(self.clock.now, due)
            outputs.extend(self.host.step().outputs)
        return outputs


@pytest.fixture
def rig() -> Rig:
    return Rig(RecordingModel())


@pytest.fixture
def batch_rig() -> Callable[..., Rig]:
    return lambda **settings: Rig(BatchModel(), **settings)


@pytest.fixture
def make_rig() -> Callable[..., Rig]:
    return lambda **settings: Rig(RecordingModel(), **settings)


@pytest.fixture
def prefill_rig() -> Rig:
    return Rig(PrefillModel())


@pytest.fixture
def make_prefill_rig() -> Callable[..., Rig]:
    return lambda **settings: Rig(PrefillModel(), **settings)
