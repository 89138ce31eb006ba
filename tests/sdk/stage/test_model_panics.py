"""What a model raises that is no ``Exception`` is a failure of the model like any other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from duplex_sdk.stage import (
    LoadContext,
    StageInfo,
    StageLoadError,
    StageModel,
    StageOutput,
    StagePrompt,
    StageSession,
    UnitRequest,
)
from duplex_sdk.stage.host import HostResult, StageHost
from duplex_sdk.stage.model_class import load_model_class, make_model

pytestmark = pytest.mark.parametrize("kind", ["panic", "cancelled", "exit", "exception"])


class PanicError(BaseException):
    """As libraries written in Rust raise it."""


def failure(kind: str) -> BaseException:
    kinds = {
        "panic": PanicError("slice index out of range"),
        "cancelled": asyncio.CancelledError("slice index out of range"),
        "exit": SystemExit("slice index out of range"),
        "exception": RuntimeError("slice index out of range"),
    }
    return kinds[kind]


class Fragile(StageModel[str]):
    """Fails where it is told to."""

    def __init__(self, where: str, error: BaseException) -> None:
        self.where = where
        self.error = error

    def at(self, where: str) -> None:
        if where == self.where:
            raise self.error

    def load(self, context: LoadContext) -> StageInfo:
        self.at("load")
        return StageInfo()

    def open(self, session: StageSession) -> str:
        self.at("open")
        return session.session_id

    def prefill(self, state: str, now: float) -> float | None:
        self.at("prefill")
        return None

    def step_unit(self, unit: Any, now: float) -> Any:
        self.at("step_unit")
        yield unit.output(text="said")
        self.at("middle of step_unit")

    def update(self, state: str, session: StageSession) -> None:
        self.at("update")

    def cancel(self, state: str, epoch: int, heard_ms: float) -> None:
        self.at("cancel")

    def close(self, state: str) -> None:
        self.at("close")

    def unload(self) -> None:
        self.at("unload")


class FragileBatches(Fragile):
    """The same, computing batches."""

    def step(self, units: Any, now: float) -> list[StageOutput]:
        self.at("step")
        return [unit.output(text="said") for unit in units]


def life(host: StageHost) -> HostResult:
    """Everything that can happen to a session; what came of it."""
    host.open(StageSession("a"))
    host.units([UnitRequest("a", "a/0", 0, 1, 1, StagePrompt())])
    told = host.step()
    host.update(StageSession("a", config={"voice": "b"}))
    host.units([UnitRequest("a", "a/0", 0, 1, 2, StagePrompt())])
    for next_result in (host.step, lambda: host.cancel("a", 1, 0.0), lambda: host.close("a")):
        next_result()
    rest = host.step()
    told.failed += rest.failed
    told.closed += rest.closed
    return told


def hosted(make: Callable[[str, BaseException], Fragile], where: str, kind: str) -> StageHost:
    host = StageHost(make(where, failure(kind)), clock=lambda: 0.0)
    host.load(LoadContext())
    return host


@pytest.mark.parametrize("where", ["open", "prefill"])
def test_out_of_what_begins_a_session_it_ends_that_session(where: str, kind: str) -> None:
    told = life(hosted(Fragile, where, kind))
    ((session_id, error),) = told.failed
    assert (session_id, error.code, error.scope) == ("a", "runtime_failed", "session")
    assert error.message.startswith(f"{where}: ")
    assert "slice index out of range" in error.message
    assert told.closed == ["a"]


@pytest.mark.parametrize("where", ["update", "cancel"])
def test_out_of_what_a_session_is_told_it_ends_that_session(where: str, kind: str) -> None:
    host = hosted(Fragile, where, kind)
    host.open(StageSession("a"))
    host.update(StageSession("a", config={"voice": "b"}))
    host.units([UnitRequest("a", "a/0", 0, 1, 1, StagePrompt())])
    host.cancel("a", 1, 0.0) if where == "cancel" else None
    told = host.step()
    ((session_id, error),) = told.failed
    assert (session_id, error.scope) == ("a", "session")
    assert "slice index out of range" in error.message


@pytest.mark.parametrize(("where", "said"), [("step_unit", []), ("middle of step_unit", ["said"])])
def test_out_of_one_unit_it_fails_that_unit(where: str, said: list[str], kind: str) -> None:
    told = life(hosted(Fragile, where, kind))
    *before, last = told.outputs
    assert [output.text for output in before] == said
    assert last.error is not None
    assert (last.error.code, last.error.scope) == ("runtime_append_failed", "response")
    assert told.failed == []
    assert told.taken == [("a", 0, 1)]


def test_out_of_a_batch_it_ends_the_sessions_of_the_batch(kind: str) -> None:
    told = life(hosted(FragileBatches, "step", kind))
    ((session_id, error),) = told.failed
    assert (session_id, error.scope) == ("a", "session")
    assert told.taken == [("a", 0, 1)]


@pytest.mark.parametrize("where", ["close", "unload"])
def test_out_of_an_end_it_is_logged_and_the_end_is_one(where: str, kind: str) -> None:
    host = hosted(Fragile, where, kind)
    assert life(host).closed == ["a"]
    host.shutdown()
    assert host.session_count == 0


def test_while_it_loads_the_load_fails(kind: str) -> None:
    with pytest.raises(StageLoadError, match="slice index out of range"):
        hosted(Fragile, "load", kind)


def test_while_it_is_imported_or_made_the_load_fails(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    raising = f"from {__name__} import *\n"
    (tmp_path / f"imported_{kind}.py").write_text(f"{raising}raise failure('{kind}')\n")
    (tmp_path / f"made_{kind}.py").write_text(
        f"{raising}class M(Fragile):\n    def __init__(self):\n        raise failure('{kind}')\n"
    )
    with pytest.raises(StageLoadError, match=r"fails when imported: .*slice index"):
        load_model_class(f"imported_{kind}:M")
    with pytest.raises(StageLoadError, match=r"M cannot be made: .*slice index"):
        make_model(f"made_{kind}:M")
