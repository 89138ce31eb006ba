from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


def stepped(rig: Any) -> list[tuple[str, str]]:
    return [(call[1], call[2]) for call in rig.model.calls if call[0] == "step"]


class TestBatches:
    def test_one_unit_of_each_session_oldest_first(self, batch_rig: Callable[..., Any]) -> None:
        rig = batch_rig()
        rig.open("a", "b", "c")
        for who in ("b", "a", "b", "c"):
            rig.unit(who)
        rig.step()
        rig.step()
        assert rig.model.batches == [["b", "a", "c"], ["b"]]

    def test_max_batch_leaves_the_youngest_for_the_next_step(
        self, batch_rig: Callable[..., Any]
    ) -> None:
        rig = batch_rig(max_batch=2)
        rig.open("a", "b", "c")
        for who in ("a", "b", "c"):
            rig.unit(who)
        first = rig.step()
        assert rig.host.next_due() is not None
        rig.step()
        assert rig.model.batches == [["a", "b"], ["c"]]
        assert first.report.batch == 2

    def test_a_unit_left_over_keeps_its_age(self, batch_rig: Callable[..., Any]) -> None:
        rig = batch_rig(max_batch=1)
        rig.open("a", "b")
        rig.unit("a")
        rig.unit("a")
        rig.clock.pass_ms(1)
        rig.unit("b")
        for _ in range(3):
            rig.step()
        assert rig.model.batches == [["a"], ["a"], ["b"]]

    def test_gathering_waits_for_more_but_not_longer_than_told(
        self, batch_rig: Callable[..., Any]
    ) -> None:
        rig = batch_rig(gather_ms=5)
        rig.open("a", "b", "c")
        rig.unit("a")
        rig.step()
        assert rig.model.batches == []
        assert rig.host.next_due() == pytest.approx(rig.clock.now + 0.005)
        rig.clock.pass_ms(3)
        rig.unit("b")
        rig.step()
        assert rig.model.batches == []
        rig.clock.now = rig.host.next_due()
        rig.step()
        assert rig.model.batches == [["a", "b"]]

    def test_gathering_ends_when_nobody_else_can_join(self, batch_rig: Callable[..., Any]) -> None:
        rig = batch_rig(gather_ms=5)
        rig.open("a", "b")
        rig.unit("a")
        rig.unit("b")
        rig.step()
        assert rig.model.batches == [["a", "b"]]

    def test_gathering_ends_when_the_batch_is_full(self, batch_rig: Callable[..., Any]) -> None:
        rig = batch_rig(gather_ms=5, max_batch=2)
        rig.open("a", "b", "c")
        rig.unit("a")
        rig.unit("c")
        rig.step()
        assert rig.model.batches == [["a", "c"]]

    def test_the_outputs_do_not_depend_on_the_batch(self, batch_rig: Callable[..., Any]) -> None:
        def echo(units: Any, now: float) -> Any:
            return [unit.output(text=unit.prompt.text) for unit in reversed(units)]

        texts = []
        for max_batch in (1, 3):
            rig = batch_rig(max_batch=max_batch)
            rig.model.on_batch = echo
            rig.open("a", "b", "c")
            for word in ("one", "two"):
                for who in ("a", "b", "c"):
                    rig.unit(who, text=f"{who} {word}")
            outputs = rig.run()
            texts.append({w: [o.text for o in outputs if o.session_id == w] for w in "abc"})
        assert texts[0] == texts[1]


class TestTicks:
    def test_a_tick_comes_when_it_was_asked_for(self, rig: Any) -> None:
        rig.model.on_unit = lambda unit, now: (
            [unit.output(again_ms=40)] if unit.prompt.kind == "audio" else []
        )
        rig.open("a")
        seq = rig.unit("a")
        result = rig.step()
        assert result.idle == []
        assert rig.host.next_due() == pytest.approx(rig.clock.now + 0.04)
        rig.clock.pass_ms(39)
        assert rig.step().report is None
        rig.clock.pass_ms(1)
        assert rig.step().idle == ["a"]
        assert rig.model.calls[-1] == ("step", "a", "tick", seq)

    def test_the_last_value_wins_and_one_tick_is_armed(self, rig: Any) -> None:
        def ask(unit: Any, now: float) -> Any:
            if unit.prompt.kind == "tick":
                return []
            return [unit.output(again_ms=10), unit.output(again_ms=50)]

        rig.model.on_unit = ask
        rig.open("a")
        rig.unit("a")
        rig.step()
        rig.clock.pass_ms(20)
        rig.step()
        assert stepped(rig) == [("a", "audio")]
        rig.run()
        assert stepped(rig) == [("a", "audio"), ("a", "tick")]

    def test_a_unit_goes_before_a_due_tick_which_stays_armed(self, rig: Any) -> None:
        rig.model.on_unit = lambda unit, now: (
            [unit.output(again_ms=10)] if unit.prompt.text == "first" else []
        )
        rig.open("a")
        rig.unit("a", text="first")
        rig.step()
        rig.clock.pass_ms(10)
        rig.unit("a", text="second")
        rig.step()
        rig.step()
        assert stepped(rig) == [("a", "audio"), ("a", "audio"), ("a", "tick")]

    def test_at_once_means_after_the_others(self, make_rig: Callable[..., Any]) -> None:
        rig = make_rig(max_batch=1)
        rig.model.on_unit = lambda unit, now: (
            [unit.output(again_ms=0)] if unit.session_id == "a" else []
        )
        rig.open("a", "b")
        rig.unit("a")
        rig.unit("b")
        for _ in range(4):
            rig.step()
        assert stepped(rig) == [("a", "audio"), ("b", "audio"), ("a", "tick"), ("a", "tick")]

    def test_a_session_on_hold_gets_units_but_no_ticks(self, rig: Any) -> None:
        rig.model.on_unit = lambda unit, now: (
            [unit.output(again_ms=10)] if unit.prompt.kind == "audio" else []
        )
        rig.open("a")
        rig.unit("a")
        rig.step()
        rig.host.hold("a", True)
        rig.clock.pass_ms(20)
        rig.unit("a")
        rig.step()
        rig.clock.pass_ms(20)
        rig.step()
        assert stepped(rig) == [("a", "audio"), ("a", "audio")]
        assert rig.host.next_due() is None
        rig.host.hold("a", False)
        assert rig.step().idle == ["a"]
        assert stepped(rig)[-1] == ("a", "tick")

    def test_a_hold_catches_a_tick_that_is_due_already(self, rig: Any) -> None:
        rig.model.on_unit = lambda unit, now: (
            [unit.output(again_ms=0)] if unit.prompt.kind == "audio" else []
        )
        rig.open("a")
        rig.unit("a")
        rig.step()
        rig.host.hold("a", True)
        rig.step()
        assert stepped(rig) == [("a", "audio")]


class TestIdleness:
    def test_it_is_reported_once_per_change(self, rig: Any) -> None:
        rig.open("a")
        assert rig.step().idle == []
        rig.unit("a")
        assert rig.step().idle == ["a"]
        assert rig.step().idle == []
        rig.unit("a")
        assert rig.step().idle == ["a"]

    def test_a_session_with_a_unit_left_is_not_idle(self, rig: Any) -> None:
        rig.open("a")
        rig.unit("a")
        rig.unit("a")
        assert rig.step().idle == []
        assert rig.step().idle == ["a"]

    def test_a_unit_dropped_for_its_age_ends_in_idleness_again(self, rig: Any) -> None:
        rig.open("a")
        rig.unit("a", epoch=1)
        rig.step()
        rig.unit("a", epoch=0)
        result = rig.step()
        assert result.idle == ["a"]
        assert len(result.taken) == 1


class TestCancel:
    def test_queue_and_tick_are_gone_before_the_model_hears_of_it(self, rig: Any) -> None:
        rig.model.on_unit = lambda unit, now: [unit.output(again_ms=10)]
        rig.open("a")
        rig.unit("a")
        rig.step()
        waiting = rig.unit("a")
        rig.host.cancel("a", 1, 120.0)
        result = rig.step()
        assert [seq for _, _, seq in result.taken] == [waiting]
        assert result.idle == ["a"]
        rig.clock.pass_ms(100)
        rig.step()
        assert rig.model.calls[-1] == ("cancel", "a", 1, 120.0)

    def test_it_is_told_once_per_epoch(self, rig: Any) -> None:
        rig.open("a")
        rig.host.cancel("a", 1, 0.0)
        rig.host.cancel("a", 1, 0.0)
        rig.host.cancel("a", 2, 0.0)
        assert [call[2] for call in rig.model.calls if call[0] == "cancel"] == [1, 2]

    def test_units_of_the_old_epoch_are_given_back_unheard(self, rig: Any) -> None:
        rig.open("a")
        rig.host.cancel("a", 1, 0.0)
        old, new = rig.unit("a", epoch=0), rig.unit("a", epoch=1)
        result = rig.step()
        assert [seq for _, _, seq in result.taken] == [old, new]
        assert rig.model.calls[-1] == ("step", "a", "audio", new)

    def test_outputs_of_an_older_epoch_are_dropped(self, rig: Any) -> None:
        old: list[Any] = []
        rig.model.on_unit = lambda unit, now: old.append(unit) or [unit.output(text="early")]
        rig.open("a")
        rig.unit("a")
        rig.step()
        rig.host.cancel("a", 1, 0.0)
        rig.model.on_unit = lambda unit, now: [old[0].output(text="late"), unit.output(text="new")]
        rig.unit("a", epoch=1)
        assert [output.text for output in rig.run()] == ["new"]

    def test_the_state_survives(self, rig: Any) -> None:
        states: list[object] = []
        rig.model.on_unit = lambda unit, now: states.append(unit.state) or []
        rig.open("a")
        rig.unit("a")
        rig.step()
        rig.host.cancel("a", 1, 0.0)
        rig.unit("a", epoch=1)
        rig.step()
        assert states[0] is states[1]

    def test_a_failing_cancel_ends_that_session(self, rig: Any) -> None:
        rig.model.fail_in.add(("cancel", "a"))
        rig.open("a")
        rig.host.cancel("a", 1, 0.0)
        result = rig.step()
        assert [who for who, _ in result.failed] == ["a"]
        assert result.idle == []

    def test_a_session_in_prefill_is_cancelled_too(self, prefill_rig: Any) -> None:
        prefill_rig.model.slices["a"] = [10.0, None]
        prefill_rig.open("a")
        prefill_rig.unit("a")
        prefill_rig.step()
        prefill_rig.host.cancel("a", 1, 0.0)
        assert prefill_rig.step().idle == ["a"]
        assert prefill_rig.model.names() == ["open", "prefill", "cancel"]


class TestReports:
    def test_a_unit_that_ends_after_its_period_is_late(self, make_rig: Callable[..., Any]) -> None:
        rig = make_rig(period_ms=80)
        rig.model.on_unit = lambda unit, now: rig.clock.pass_ms(45) or []
        rig.open("a", "b")
        rig.unit("a")
        rig.unit("b")
        report = rig.step().report
        assert report.late == 2
        assert report.step_ms == pytest.approx(90)
        assert report.batch == 2

    def test_waiting_counts_as_lateness(self, make_rig: Callable[..., Any]) -> None:
        rig = make_rig(period_ms=80)
        rig.open("a")
        rig.unit("a")
        rig.clock.pass_ms(81)
        assert rig.step().report.late == 1

    def test_a_tick_is_never_late(self, make_rig: Callable[..., Any]) -> None:
        rig = make_rig(period_ms=80)
        rig.model.on_unit = lambda unit, now: (
            [unit.output(again_ms=1)] if unit.prompt.kind == "audio" else []
        )
        rig.open("a")
        rig.unit("a")
        rig.step()
        rig.clock.pass_ms(500)
        assert rig.step().report.late == 0

    def test_a_call_under_way_can_be_seen(self, rig: Any) -> None:
        seen: list[float | None] = []
        rig.model.on_unit = lambda unit, now: seen.append(rig.host.busy_since) or []
        rig.open("a")
        rig.unit("a")
        rig.step()
        assert seen == [rig.clock.now]
        assert rig.host.busy_since is None
