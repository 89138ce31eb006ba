from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
from duplex_sdk.plugin import PluginSpec
from duplex_sdk.testing.conformance import LawBrokenError, ModelConformance, run_laws

WRONG_MODELS = {
    "DoesNotLoad": "the_models_load",
    "PrefillsForever": "prefill_ends",
    "AnswersNothing": "a_turn_is_answered",
    "RaisesInAStep": "a_turn_is_answered",
    "NeverRests": "an_answer_comes_to_rest",
    "Spins": "an_answer_comes_to_rest",
    "WrongRate": "samples_are_sound",
    "NoNumbers": "samples_are_sound",
    "TooLoud": "samples_are_sound",
    "SendsEverythingTwice": "outputs_are_new",
    "RepeatsItsText": "outputs_are_new",
    "RepeatsItsAudio": "outputs_are_new",
    "EndsTwice": "a_turn_ends_once",
    "TalksAfterTheEnd": "a_turn_ends_once",
    "MarksTheWholeAnswer": "marks_lie_inside_their_output",
    "NeedsHalfASecond": "short_and_long_turns_do_no_harm",
    "CannotRead": "a_written_turn_is_answered",
    "RefusesUpdates": "a_changed_session_goes_on",
    "RollsDice": "the_same_run_gives_the_same_answer",
    "ReadsTheClock": "the_same_run_gives_the_same_answer",
    "CountsItsTurns": "a_new_session_knows_nothing_of_an_old_one",
    "MixesSessions": "batch_mates_change_nothing",
    "AddsTheBatch": "batch_mates_change_nothing",
    "IgnoresCancel": "a_cancel_stops_the_answer",
    "DiesOfACancel": "a_session_goes_on_after_a_cancel",
    "RaisesInCancel": "a_session_goes_on_after_a_cancel",
    "RaisesInClose": "a_closed_session_takes_nothing_down",
    "ClosesTheWrongRow": "a_closed_session_takes_nothing_down",
    "LeaksAfterClose": "a_closed_session_leaves_nothing_behind",
    "KeepsStates": "a_closed_session_leaves_nothing_behind",
}
WRONG_EARLY_MODELS = {
    "AlwaysAnswers": "input_without_a_wish_for_an_answer_is_only_heard",
    "KeepsDiscardedInput": "discarded_input_is_forgotten",
}
WRONG_NATIVE_MODELS = {
    "TalksOnAfterACancel": "a_cancel_stops_the_answer",
    "MixesUnits": "batch_mates_change_nothing",
}
WRONG_IN_SESSIONS = {
    "RaisesInAStep": (
        "a_conversation_keeps_the_session_sound",
        "it_is_served_to_both_clients",
    ),
    "RollsDice": ("the_same_conversation_gives_the_same_events",),
    "DiesOfACancel": (
        "a_cancel_ends_the_response",
        "a_barge_in_ends_the_response",
        "an_interrupted_answer_gives_way_to_the_next",
    ),
}
WRONG_PLUGINS = {
    "CannotBeMade": "the_plugin_loads",
    "OtherCapabilitiesEachTime": "capabilities_never_change",
    "OtherPipelineEachTime": "the_pipeline_never_changes",
    "MissingModel": "the_heavy_half_imports",
    "MutatesConfig": "config_hooks_return_mappings",
    "MutatesTheRuntimeConfig": "config_hooks_return_mappings",
    "ForgetsTheRuntimeConfig": "config_hooks_return_mappings",
    "TrustsItsClients": "what_clients_put_into_extra_body_does_no_harm",
    "BlocksTheLoop": "hooks_do_not_block_the_loop",
    "MutatesTheConversation": "plans_keep_what_the_engine_said",
    "DropsTheEnd": "plans_keep_what_the_engine_said",
    "CountsItsPlans": "a_plan_depends_on_its_request_alone",
    "ProjectsTwice": "projections_are_model_results",
    "ProjectsRawOutputs": "projections_are_model_results",
    "RemembersInTheDataPlane": "the_data_plane_holds_nothing_of_a_session",
    "ClosesStreamsOnce": "requests_end_without_harm",
    "SharesItsBuffer": "sessions_share_no_buffer",
    "LosesSamples": "units_hold_every_sample_in_order",
    "CutsTooEarly": "no_unit_leaves_while_none_may",
    "CountsNothing": "pending_bytes_are_counted",
    "NeverClears": "a_cleared_buffer_is_empty",
    "TakesAnyRate": "a_foreign_rate_is_refused",
}


def right_plugin() -> Any:
    # Its folder is on the path only while tests run.
    return import_module("right_plugin")


def suite_of(plugin: PluginSpec) -> type[ModelConformance]:
    class Suite(ModelConformance):
        @property
        def spec(self) -> PluginSpec:
            return plugin

    return Suite


def is_broken(plugin: PluginSpec, law: str) -> str:
    (result,) = run_laws(suite_of(plugin), law)
    assert (result.law, result.outcome) == (law, "broken"), result
    assert "What to do: " in result.detail, "the message does not tell the author what to do"
    return result.detail


@pytest.mark.parametrize(("model", "law"), WRONG_MODELS.items())
def test_a_wrong_model_is_caught(model: str, law: str) -> None:
    is_broken(right_plugin().with_model(model), law)


@pytest.mark.parametrize(("model", "law"), WRONG_EARLY_MODELS.items())
def test_a_wrong_model_that_takes_early_input_is_caught(model: str, law: str) -> None:
    is_broken(right_plugin().with_model(model, "right_plugin:RightEarly"), law)


@pytest.mark.parametrize(("model", "law"), WRONG_NATIVE_MODELS.items())
def test_a_wrong_native_model_is_caught(model: str, law: str) -> None:
    is_broken(right_plugin().with_model(model, "right_plugin:RightNative"), law)


@pytest.mark.parametrize(
    ("model", "law"),
    [(model, law) for model, laws in WRONG_IN_SESSIONS.items() for law in laws],
)
def test_a_wrong_model_shows_in_whole_sessions(model: str, law: str) -> None:
    is_broken(right_plugin().with_model(model), law)


@pytest.mark.parametrize(("plugin", "law"), WRONG_PLUGINS.items())
def test_a_wrong_plugin_is_caught(plugin: str, law: str) -> None:
    is_broken(right_plugin().behind(f"wrong_plugins:{plugin}"), law)


def test_a_slow_stage_that_claims_to_be_quick_is_caught() -> None:
    slow = right_plugin().with_model("TakesItsTime", "right_plugin:RightQuick")
    is_broken(slow, "quick_stages_are_quick")


def test_a_library_in_the_light_half_is_named() -> None:
    heavy = right_plugin().behind("heavy_light_half:Heavy")
    assert "hypothesis" in is_broken(heavy, "the_light_half_imports_no_runtime")


@pytest.mark.parametrize(
    ("changes", "law"),
    [
        ({"output_sample_rate": 48_000}, "the_descriptor_names_the_true_rates"),
        ({"input_sample_rate": 8_000}, "the_descriptor_names_the_true_rates"),
        ({"capabilities": frozenset({"tools"})}, "the_descriptor_names_the_true_capabilities"),
        ({"max_sessions": 1}, "more_sessions_than_one_are_claimed_on_both_sides"),
        ({"api": "9.0"}, "the_plugin_loads"),
        ({"name": "scripted"}, "the_installed_entry_point_is_this_descriptor"),
    ],
    ids=str,
)
def test_a_wrong_descriptor_is_caught(changes: dict[str, Any], law: str) -> None:
    is_broken(replace(right_plugin().spec, **changes), law)


def test_an_unload_that_raises_is_caught() -> None:
    with pytest.raises(LawBrokenError, match=r"unload\(\) raised RuntimeError"):
        run_laws(suite_of(right_plugin().with_model("RaisesInUnload")), "the_models_load")


@pytest.mark.parametrize(
    ("factory", "model"),
    [
        ("Right", "RightModel"),
        ("RightEarly", "RightModel"),
        ("RightQuick", "RightModel"),
        ("RightNative", "RightNativeModel"),
        ("Right", "ThreeRows"),
    ],
)
def test_the_right_plugin_keeps_every_law(factory: str, model: str) -> None:
    plugin = right_plugin().with_model(model, f"right_plugin:{factory}")
    assert [result for result in run_laws(suite_of(plugin)) if result.outcome == "broken"] == []
