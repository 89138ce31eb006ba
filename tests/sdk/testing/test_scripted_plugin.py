from __future__ import annotations

import json
import time
from typing import Any

import pytest
from duplex_sdk.plugin import (
    AppendPiece,
    AppendRequest,
    DuplexFence,
    DuplexModelPlugin,
    DuplexRuntimeConfigError,
    OutputContext,
    SessionView,
    load_duplex_plugin,
)
from duplex_sdk.stage import StageOutput
from duplex_sdk.testing.scripted import plugin as spec

FENCE = DuplexFence("a", 0, 1)


def scripted(server: Any = None) -> DuplexModelPlugin:
    return load_duplex_plugin(spec, {} if server is None else {"script": server})


def request(runtime: Any, seq: int = 1) -> AppendRequest:
    view = SessionView(session_id="a", runtime=runtime)
    return AppendRequest(
        fence=FENCE, request_id="r", seq=seq, turn_seq=1, unit=AppendPiece(), session=view
    )


def faulty(where: str, do: Any) -> dict[str, Any]:
    return {"script": {"faults": [{"where": where, "do": do}]}}


class TestDescriptor:
    def test_it_states_the_truth_about_the_default_script(self) -> None:
        known = scripted().capabilities(max_sessions=1)
        assert known.input_sample_rate_hz == spec.input_sample_rate
        assert known.output_sample_rate_hz == spec.output_sample_rate
        assert not spec.capabilities or spec.capabilities == known.supported

    def test_the_default_stage_needs_no_thread_and_a_costly_one_does(self) -> None:
        assert scripted().pipeline().stages[0].quick
        assert not scripted({"cost_ms": 5}).pipeline().stages[0].quick
        assert not scripted({"cost_pct": 110}).pipeline().stages[0].quick

    def test_the_server_script_decides_what_the_model_can_do(self) -> None:
        known = scripted(
            json.dumps(
                {
                    "turns": "native",
                    "unit_ms": 40,
                    "in_rate": 24000,
                    "out_rate": 22050,
                    "limit_units": 100,
                    "tools": {"name": "f"},
                }
            )
        ).capabilities(max_sessions=1)
        assert known.supports_model_native_turn_policy
        assert known.supports_tools
        assert known.chunk_period_ms == 40
        assert known.unit_samples == 960
        assert known.output_sample_rate_hz == 22050
        assert known.max_session_s == 4.0

    def test_turn_based_scripts_can_answer_text_alone(self) -> None:
        for turns in ("vad", "commit"):
            known = scripted({"turns": turns}).capabilities(max_sessions=1)
            assert known.supports_text_only_turn
            assert not known.supports_model_native_turn_policy

    def test_a_script_that_is_not_json_says_so(self) -> None:
        with pytest.raises(ValueError, match="not JSON"):
            scripted("{nonsense")


class TestScripts:
    @pytest.mark.parametrize(
        ("script", "path"),
        [
            ({"pase": "burst"}, "pase"),
            ({"answers": [{}, {"txt": "x"}]}, "answers[1].txt"),
            ({"pace": "slow"}, "pace"),
            ({"cost_ms": -1}, "cost_ms"),
            ({"faults": [{"where": "nowhere", "do": "raise"}]}, "faults[0].where"),
            ({"faults": [{"where": "step", "do": "dance"}]}, "faults[0].do"),
            ({"faults": [{"where": "step", "do": {"sleep_ms": 5}}]}, "faults[0].do"),
            ({"faults": [{"where": "step", "do": "raise", "nth": 0}]}, "faults[0].nth"),
            ({"unit_ms": 40}, "unit_ms"),
            ({"turns": "native"}, "turns"),
            ({"limit_units": 5}, "limit_units"),
            ({"tools": {"name": "f"}}, "tools"),
        ],
    )
    def test_a_wrong_key_is_refused_with_its_path(self, script: Any, path: str) -> None:
        with pytest.raises(DuplexRuntimeConfigError) as caught:
            scripted().validate_client_extra_body({"script": script})
        assert caught.value.code == "invalid_duplex_runtime_config"
        assert caught.value.param == f"session.extra_body.script.{path}"

    @pytest.mark.parametrize("script", [5, "x", [1]])
    def test_a_script_that_is_no_object_is_refused(self, script: Any) -> None:
        with pytest.raises(DuplexRuntimeConfigError):
            scripted().validate_client_extra_body({"script": script})

    @pytest.mark.parametrize("extra", [None, {}, {"other": 1}, {"script": {"unit_ms": 80}}])
    def test_what_changes_nothing_is_welcome(self, extra: Any) -> None:
        scripted().validate_client_extra_body(extra)

    async def test_a_session_script_lies_over_the_servers_key_by_key(self) -> None:
        plugin = scripted(
            {"pace": "burst", "answers": [{}, {}], "backchannel": {"at_ms": 1, "ms": 2}}
        )
        script = {"answers": [{"ms": 5}], "backchannel": {"ms": 9}}
        runtime = await plugin.prepare_runtime_config(
            {"extra_body": {"script": script}}, model_config={}
        )
        assert runtime["script"] == {
            "pace": "burst",
            "answers": [{"ms": 5}],
            "backchannel": {"at_ms": 1, "ms": 9},
        }


class TestFaults:
    @pytest.mark.parametrize("do", ["raise", "system_exit"])
    def test_plan_breaks_as_told_and_only_then(self, do: str) -> None:
        plugin = scripted()
        with pytest.raises((RuntimeError, SystemExit)):
            plugin.plan_append(request(faulty("plan", do)))
        assert plugin.plan_append(request(faulty("plan", do), seq=2)).prompt.kind == "audio"

    def test_plan_returns_what_it_should_not(self) -> None:
        plugin = scripted()
        broken: Any = plugin.plan_append(request(faulty("plan", "none")))
        assert broken is None

    async def test_plan_hangs_without_blocking_and_blocks_without_hanging(self) -> None:
        plugin = scripted()
        began = time.monotonic()
        await plugin.prepare_append_plan(request(faulty("plan", {"hang_ms": 20})))
        plugin.plan_append(request(faulty("plan", {"block_ms": 20})))
        assert time.monotonic() - began >= 0.04

    async def test_config_breaks(self) -> None:
        plugin = scripted()
        config = {"extra_body": faulty("config", "raise")}
        with pytest.raises(RuntimeError):
            await plugin.prepare_runtime_config(config, model_config={})
        second = {"script": {"faults": [{"where": "config", "do": "raise", "nth": 2}]}}
        runtime = await plugin.prepare_runtime_config({"extra_body": second}, model_config={})
        with pytest.raises(RuntimeError):
            plugin.runtime_config_for_update({"extra_body": second}, runtime, started=False)

    @pytest.mark.parametrize(
        ("do", "texts"), [("double", ["x", "x"]), ("empty_speak", [""]), ({"block_ms": 0}, ["x"])]
    )
    def test_project_says_it_differently(self, do: Any, texts: list[str]) -> None:
        plugin = scripted()
        results = self.project(plugin, faulty("project", do))
        assert [result.text for result in results] == texts

    def test_project_raises_once_per_session(self) -> None:
        plugin = scripted()
        state = plugin.create_session_state()
        with pytest.raises(RuntimeError):
            self.project(plugin, faulty("project", "raise"), state)
        assert [r.text for r in self.project(plugin, faulty("project", "raise"), state)] == ["x"]

    def project(self, plugin: DuplexModelPlugin, runtime: Any, state: Any = None) -> Any:
        context = OutputContext(
            stage=plugin.pipeline().stages[0],
            stage_id=0,
            is_last=True,
            fence=FENCE,
            session=SessionView(session_id="a", runtime=runtime),
        )
        return plugin.data_plane.project(
            StageOutput("a", "r", 0, 1, text="x"),
            state=state or plugin.create_session_state(),
            context=context,
        )
