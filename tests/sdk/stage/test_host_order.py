from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
from duplex_sdk.stage import LoadContext, StageInfo, StageLoadError, StageModel, StageSession
from duplex_sdk.stage.host import StageHost


def taken(result: Any) -> list[int]:
    return [seq for _, _, seq in result.taken]


class TestOpening:
    def test_a_unit_is_stepped_after_open_in_the_same_pass(self, rig: Any) -> None:
        rig.open("a")
        rig.unit("a")
        result = rig.step()
        assert rig.model.names() == ["open", "step"]
        assert [session_id for session_id, _ in result.opened] == ["a"]

    def test_open_sees_the_configuration_in_force(self, rig: Any) -> None:
        rig.open("a", voice="warm")
        rig.model.on_unit = lambda unit, now: [unit.output(data=dict(unit.state["config"]))]
        rig.unit("a")
        assert rig.run()[0].data == {"voice": "warm"}

    def test_opening_twice_updates(self, rig: Any) -> None:
        rig.open("a", voice="warm")
        rig.open("a", voice="cold")
        rig.unit("a")
        rig.step()
        assert rig.model.names() == ["open", "update", "step"]

    def test_a_failed_open_ends_that_session_alone(self, rig: Any) -> None:
        rig.model.fail_in.add(("open", "a"))
        rig.open("a", "b")
        first, second = rig.unit("a"), rig.unit("b")
        result = rig.step()
        (failure,) = result.failed
        assert failure[0] == "a"
        assert (failure[1].code, failure[1].scope) == ("runtime_failed", "session")
        assert taken(result) == [first, second]
        assert ("step", "b", "audio", second) in rig.model.calls

    def test_a_session_whose_open_failed_is_not_closed_in_the_model(self, rig: Any) -> None:
        rig.model.fail_in.add(("open", "a"))
        rig.open("a")
        rig.host.close("a")
        assert rig.model.names() == ["open"]
        assert rig.step().closed == ["a"]

    def test_a_unit_of_an_unknown_session_is_given_back(self, rig: Any) -> None:
        seq = rig.unit("nobody")
        assert taken(rig.step()) == [seq]
        assert rig.model.calls == []


class TestPrefill:
    def test_units_wait_until_prefill_is_done(self, prefill_rig: Any) -> None:
        prefill_rig.model.slices["a"] = [30.0, 0.0, None]
        prefill_rig.open("a")
        prefill_rig.unit("a")
        assert not prefill_rig.step().opened
        assert prefill_rig.host.next_due() == pytest.approx(prefill_rig.clock.now + 0.03)
        prefill_rig.run()
        assert prefill_rig.model.names() == ["open", "prefill", "prefill", "prefill", "step"]

    def test_other_sessions_are_stepped_between_slices(self, prefill_rig: Any) -> None:
        prefill_rig.model.slices["slow"] = [0.0, 0.0, None]
        prefill_rig.model.on_slice = lambda: prefill_rig.clock.pass_ms(50)
        prefill_rig.open("slow", "quick")
        prefill_rig.unit("quick")
        for _ in range(3):
            prefill_rig.step()
            prefill_rig.unit("quick")
        names = [(name, who) for name, who, *_ in prefill_rig.model.calls if name != "open"]
        first_step = names.index(("step", "quick"))
        assert names[first_step + 1 :].count(("prefill", "slow")) >= 1

    def test_a_unit_that_waited_for_prefill_is_not_late(self, make_prefill_rig: Any) -> None:
        rig = make_prefill_rig(period_ms=80)
        rig.model.slices["a"] = [500.0, None]
        rig.open("a")
        rig.unit("a")
        rig.step()
        rig.clock.pass_ms(500)
        result = rig.step()
        assert result.report is not None
        assert result.report.late == 0

    @pytest.mark.parametrize("bad", ["soon", -1.0, float("nan")])
    def test_a_prefill_that_returns_no_pause_ends_the_session(
        self, prefill_rig: Any, bad: Any
    ) -> None:
        prefill_rig.model.slices["a"] = [bad]
        prefill_rig.open("a")
        assert [who for who, _ in prefill_rig.step().failed] == ["a"]

    def test_a_failing_prefill_ends_the_session_and_it_is_closed_once(
        self, prefill_rig: Any
    ) -> None:
        prefill_rig.model.fail_in.add(("prefill", "a"))
        prefill_rig.open("a")
        seq = prefill_rig.unit("a")
        result = prefill_rig.step()
        assert [who for who, _ in result.failed] == ["a"]
        assert taken(result) == [seq]
        prefill_rig.host.close("a")
        prefill_rig.host.close("a")
        assert prefill_rig.model.names().count("close") == 1

    def test_closing_during_prefill_forgets_the_rest_of_it(self, prefill_rig: Any) -> None:
        prefill_rig.model.slices["a"] = [10.0, None]
        prefill_rig.open("a")
        prefill_rig.step()
        prefill_rig.host.close("a")
        prefill_rig.step()
        assert prefill_rig.host.next_due() is None
        prefill_rig.clock.pass_ms(20)
        prefill_rig.step()
        assert prefill_rig.model.names() == ["open", "prefill", "close"]


class TestUpdate:
    def test_the_model_is_told_before_the_next_unit_and_only_the_latest(self, rig: Any) -> None:
        rig.open("a", voice="one")
        rig.unit("a")
        rig.step()
        rig.host.update(StageSession("a", {"voice": "two"}))
        rig.host.update(StageSession("a", {"voice": "three"}))
        rig.step()
        assert "update" not in rig.model.names()
        seq = rig.unit("a")
        rig.step()
        assert rig.model.calls[-2:] == [
            ("update", "a", {"voice": "three"}),
            ("step", "a", "audio", seq),
        ]

    def test_a_failing_update_ends_that_session_and_the_batch_goes_on(self, rig: Any) -> None:
        rig.open("a", "b")
        rig.model.fail_in.add(("update", "a"))
        rig.host.update(StageSession("a", {}))
        seqs = [rig.unit("a"), rig.unit("b")]
        result = rig.step()
        assert [who for who, _ in result.failed] == ["a"]
        assert sorted(taken(result)) == seqs
        assert rig.model.calls[-1] == ("step", "b", "audio", seqs[1])

    def test_an_update_of_an_unknown_session_is_ignored(self, rig: Any) -> None:
        rig.host.update(StageSession("nobody", {}))
        assert rig.model.calls == []


class TestClosing:
    def test_close_gives_back_what_was_queued(self, rig: Any) -> None:
        rig.open("a")
        seqs = [rig.unit("a"), rig.unit("a")]
        rig.host.close("a")
        result = rig.step()
        assert taken(result) == seqs
        assert result.closed == ["a"]
        assert rig.model.names() == ["open", "close"]

    def test_closing_an_unknown_session_is_confirmed(self, rig: Any) -> None:
        rig.host.close("nobody")
        assert rig.step().closed == ["nobody"]

    def test_a_failing_close_is_counted_and_forgotten(self, rig: Any) -> None:
        rig.model.fail_in.add(("close", "a"))
        rig.open("a")
        rig.host.close("a")
        result = rig.step()
        assert result.closed == ["a"]
        assert result.failed == []
        assert rig.host.close_failures == 1

    def test_a_session_can_be_opened_again_with_a_fresh_state(self, rig: Any) -> None:
        states: list[object] = []
        rig.model.on_unit = lambda unit, now: states.append(unit.state) or []
        rig.open("a")
        rig.unit("a")
        rig.step()
        rig.host.close("a")
        rig.open("a")
        rig.unit("a")
        rig.step()
        assert states[1] is not states[0]

    def test_shutdown_closes_all_then_unloads(self, rig: Any) -> None:
        rig.open("a", "b")
        rig.host.shutdown()
        assert rig.model.names() == ["open", "open", "close", "close", "unload"]

    def test_closed_sessions_leave_nothing_behind(self, rig: Any) -> None:
        rig.model.on_unit = lambda unit, now: [unit.output(again_ms=5000)]
        for number in range(50):
            rig.open(f"s{number}")
            rig.unit(f"s{number}")
        rig.step()
        for number in range(50):
            rig.host.close(f"s{number}")
        rig.step()
        assert rig.host.session_count == 0
        assert rig.host.next_due() is None

    def test_a_closed_sessions_state_is_freed_at_once(self, rig: Any) -> None:
        class State(dict[str, Any]):
            """A dict that can be watched."""

        watched: list[weakref.ref[State]] = []

        def make(session: StageSession) -> State:
            state = State(id=session.session_id)
            watched.append(weakref.ref(state))
            return state

        rig.model.open = make
        rig.model.on_unit = lambda unit, now: [unit.output(again_ms=60_000)]
        rig.open("a")
        rig.unit("a")
        rig.step()
        rig.unit("a")
        gc.disable()
        try:
            rig.host.close("a")
            rig.step()
            assert watched[0]() is None
        finally:
            gc.enable()


class TestLoading:
    def test_a_model_without_a_step_is_refused(self) -> None:
        class Lame(StageModel[None]):
            def load(self, context: LoadContext) -> StageInfo:
                return StageInfo()

            def open(self, session: StageSession) -> None:
                return None

        with pytest.raises(StageLoadError, match="neither step_unit nor step"):
            StageHost(Lame(), clock=lambda: 0.0).load(LoadContext())

    @pytest.mark.parametrize("error", [ValueError("no weights"), SystemExit(3)])
    def test_whatever_load_raises_becomes_a_load_error(
        self, rig: Any, error: BaseException, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(context: LoadContext) -> StageInfo:
            raise error

        monkeypatch.setattr(rig.model, "load", fail)
        with pytest.raises(StageLoadError, match="did not load"):
            rig.host.load(LoadContext())

    def test_a_load_error_keeps_its_hint(self, rig: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(context: LoadContext) -> StageInfo:
            raise StageLoadError("no weights", "fetch them")

        monkeypatch.setattr(rig.model, "load", fail)
        with pytest.raises(StageLoadError) as caught:
            rig.host.load(LoadContext())
        assert caught.value.hint == "fetch them"

    def test_load_must_return_what_it_loaded(
        self, rig: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(rig.model, "load", lambda context: None)
        with pytest.raises(StageLoadError, match="StageInfo"):
            rig.host.load(LoadContext())

    def test_a_collective_call_is_refused_by_default(self, rig: Any) -> None:
        with pytest.raises(LookupError):
            rig.host.call("profile", {})
        assert rig.host.busy_since is None
