from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from duplex_sdk.plugin import (
    DuplexCapabilities,
    DuplexModelPlugin,
    DuplexOutputDecision,
    OutputContext,
)
from duplex_sdk.protocol.duplex import (
    AppendAudio,
    CancelResponse,
    CloseSession,
    Commit,
    CreateResponse,
    ResponseDone,
    TranscriptDelta,
)
from duplex_sdk.stage import (
    LoadContext,
    PipelineConfig,
    StageConfig,
    StageInfo,
    StageModel,
    StageOutput,
    StageSession,
    StageUnit,
    pass_on,
)
from duplex_sdk.testing.session_lab import SessionLab, tone
from duplex_sdk.testing.shared_lab import SharedLab
from duplex_sdk.testing.shared_models import SharedModels
from duplex_sdk.testing.strict_lab import StrictLab

WORDS = ("one ", "two ", "three ", "four ")
TICK_MS = 100.0

Talk = dict[str, Any]


class Model(StageModel[Talk]):
    """Knows its times, and what was asked of it."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.calls: list[str] = []

    def load(self, context: LoadContext) -> StageInfo:
        return StageInfo()

    def open(self, session: StageSession) -> Talk:
        self.calls.append("open")
        return {"words": []}

    def update(self, state: Talk, session: StageSession) -> None:
        self.calls.append("update")

    def cancel(self, state: Talk, epoch: int, heard_ms: float) -> None:
        self.calls.append("cancel")
        state["words"].clear()

    def close(self, state: Talk) -> None:
        self.calls.append("close")

    def step_unit(self, unit: StageUnit[Talk], now: float) -> Iterable[StageOutput]:
        self.times.append(now)
        return self.work(unit)

    def work(self, unit: StageUnit[Talk]) -> Iterable[StageOutput]:
        raise NotImplementedError


class Writer(Model):
    """Writes its whole answer at once, an output for each word."""

    def work(self, unit: StageUnit[Talk]) -> Iterable[StageOutput]:
        for number, word in enumerate(WORDS):
            yield unit.output(text=word, end_of_turn=number == len(WORDS) - 1)


class TickingWriter(Model):
    """Writes a word at each tick, as fast as it may."""

    def work(self, unit: StageUnit[Talk]) -> Iterable[StageOutput]:
        if unit.prompt.kind != "tick":
            unit.state["words"] = list(WORDS) * 5
        word, left = unit.state["words"].pop(0), bool(unit.state["words"])
        yield unit.output(text=word, end_of_turn=not left, again_ms=0 if left else None)


class Speaker(Model):
    """Takes a while for a word."""

    def work(self, unit: StageUnit[Talk]) -> Iterable[StageOutput]:
        if unit.prompt.kind != "tick":
            unit.state["words"].append((unit.prompt.text, unit.prompt.final))
            yield unit.output(again_ms=TICK_MS)
        elif unit.state["words"]:
            text, final = unit.state["words"].pop(0)
            yield unit.output(text=text, end_of_turn=final, again_ms=None if final else TICK_MS)


class Refuses(Speaker):
    def work(self, unit: StageUnit[Talk]) -> Iterable[StageOutput]:
        raise RuntimeError("no voice")


class Lazy(Model):
    """Takes a unit only every so often: it is still at the one before."""

    def prefill(self, state: Talk, now: float) -> float | None:
        state["opened"] = state.get("opened", now)
        return None if now >= state["opened"] + 5 else TICK_MS

    def work(self, unit: StageUnit[Talk]) -> Iterable[StageOutput]:
        yield unit.output(text=unit.prompt.text, end_of_turn=unit.prompt.final)


MODELS = {model.__name__: model for model in (Writer, TickingWriter, Speaker, Refuses, Lazy)}


class Cascade(DuplexModelPlugin):
    """The models that its options name, one behind the other."""

    forward = staticmethod(pass_on)

    def capabilities(self, *, max_sessions: int) -> DuplexCapabilities:
        return DuplexCapabilities.turn_based(supports_multi_session=True)

    def pipeline(self) -> PipelineConfig:
        names = self.options.get("models", ("Writer", "Speaker"))
        stages = [StageConfig(f"{name}", f"{__name__}:{name}") for name in names]
        return PipelineConfig(tuple(stages), stage_input=self.forward)


class Direct(Cascade):
    """Text is for the client as it is written."""

    def decide_output(
        self, output: StageOutput, context: OutputContext
    ) -> DuplexOutputDecision | None:
        return DuplexOutputDecision("direct_response")


class Unsure(Cascade):
    def decide_output(
        self, output: StageOutput, context: OutputContext
    ) -> DuplexOutputDecision | None:
        raise LookupError("no such stage")


class CannotForward(Cascade):
    @staticmethod
    def forward(output: StageOutput, context: Any) -> Any:
        raise KeyError("tokens")


def shared(plugin: DuplexModelPlugin) -> tuple[SharedModels, list[Any]]:
    names: Any = plugin.options.get("models", ("Writer", "Speaker"))
    models: list[Any] = [MODELS[name]() for name in names]
    return SharedModels(plugin.pipeline(), models), models


def lab_of(plugin: DuplexModelPlugin) -> tuple[SharedLab, list[Any]]:
    models, loaded = shared(plugin)
    return SharedLab(models, plugin), loaded


def ask(lab: SessionLab) -> None:
    lab.send(AppendAudio(audio=tone(200)), Commit(), CreateResponse())


def heard(lab: SessionLab) -> str:
    return "".join(each.delta for each in lab.events if isinstance(each, TranscriptDelta))


def statuses(lab: SessionLab) -> list[str]:
    return [each.response.status for each in lab.events if isinstance(each, ResponseDone)]


def test_what_one_stage_writes_the_next_one_speaks() -> None:
    lab, _ = lab_of(Cascade({}))
    ask(lab)
    lab.run(TICK_MS * 2.5)
    assert heard(lab) == "".join(WORDS[:2])
    assert statuses(lab) == []
    lab.run(1000)
    assert heard(lab) == "".join(WORDS)
    assert statuses(lab) == ["completed"]


def test_stages_open_together_and_hear_of_changes_alone() -> None:
    lab, models = lab_of(Cascade({}))
    for _ in range(2):
        ask(lab)
        lab.run(1000)
    lab.send(CloseSession())
    lab.run(1000)
    assert [model.calls for model in models] == [["open", "close"]] * 2
    assert lab.stages.open_count == 0


def test_a_cancel_reaches_every_stage_and_nothing_is_on_the_way() -> None:
    lab, models = lab_of(Cascade({}))
    ask(lab)
    lab.run(TICK_MS * 1.5)
    lab.send(CancelResponse())
    lab.run(1000)
    assert heard(lab) == WORDS[0]
    assert statuses(lab) == ["cancelled"]
    assert [model.calls for model in models] == [["open", "cancel"]] * 2


def test_a_stage_without_credit_holds_back_the_one_before_it() -> None:
    lab, (writer, lazy) = lab_of(Cascade({"models": ("TickingWriter", "Lazy")}))
    ask(lab)
    lab.run(4000)
    # Two units lie with the stage that is not ready, one waits for credit; then no more ticks.
    assert len(writer.times) == 3
    assert lazy.times == []
    lab.run(4000)
    assert len(writer.times) == len(lazy.times) == 20
    assert heard(lab) == "".join(WORDS) * 5
    assert statuses(lab) == ["completed"]


def test_an_output_that_is_decided_for_the_client_goes_no_further() -> None:
    lab, (_, speaker) = lab_of(Direct({}))
    ask(lab)
    lab.run(1000)
    assert heard(lab) == "".join(WORDS)
    assert statuses(lab) == ["completed"]
    assert speaker.times == []


def test_a_hook_that_fails_decides_nothing() -> None:
    lab, _ = lab_of(Unsure({}))
    ask(lab)
    lab.run(1000)
    assert heard(lab) == "".join(WORDS)


def test_no_input_for_the_next_stage_ends_the_session_with_its_reason() -> None:
    lab, _ = lab_of(CannotForward({}))
    ask(lab)
    lab.run(1000)
    assert statuses(lab) == ["failed"]
    assert "stage 1 got no input: KeyError('tokens')" in str(lab.log + lab.events)


def test_what_a_model_fails_of_is_kept() -> None:
    lab, _ = lab_of(Cascade({"models": ("Writer", "Refuses")}))
    ask(lab)
    lab.run(1000)
    assert {error.message for error in lab.stages.failures} == {"RuntimeError: no voice"}
    assert statuses(lab) == ["failed"]


def test_a_strict_lab_breaks_where_a_model_fails() -> None:
    plugin = Cascade({"models": ("Writer", "Refuses")})
    lab = StrictLab(shared(plugin)[0], plugin)
    ask(lab)
    with pytest.raises(AssertionError, match="the_model_fails_of_nothing: RuntimeError: no voice"):
        lab.run(1000)


def test_models_serve_one_lab_after_the_other_and_their_time_goes_on() -> None:
    plugin = Cascade({})
    models, loaded = shared(plugin)
    for _ in range(3):
        with SharedLab(models, plugin) as lab:
            ask(lab)
            lab.run(700)
            assert statuses(lab) == ["completed"]
    for model in loaded:
        assert model.times == sorted(model.times)
        assert model.calls == ["open", "close"] * 3


def test_labs_that_take_turns_see_time_go_forward_only() -> None:
    plugin = Cascade({})
    models, loaded = shared(plugin)
    labs = [SharedLab(models, plugin, seed=seed) for seed in range(3)]
    for lab in labs:
        ask(lab)
    for _ in range(60):
        for lab in labs:
            lab.run(10)
    assert [statuses(lab) for lab in labs] == [["completed"]] * 3
    for model in loaded:
        assert model.times == sorted(model.times)


def test_a_lab_that_was_left_behind_is_not_kept_waiting() -> None:
    plugin = Cascade({})
    models, _ = shared(plugin)
    early, late = (SharedLab(models, plugin, seed=seed) for seed in range(2))
    ask(early)
    ask(late)
    early.run(20_000)
    late.run(600)
    assert statuses(late) == ["completed"]
