"""Every wrong plugin of the kit's tests, and the laws that must catch it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from duplex_sdk.plugin import PluginSpec
from right_plugin import with_model

__all__ = ["RIGHT", "WRONG", "Specimen"]


class Specimen(NamedTuple):
    """A plugin that breaks a law.

    Attributes:
        name: what is wrong with it.
        law: the one that must catch it.
        factory: its light half.
        model: its heavy half.
        changes: fields of its descriptor.
    """

    name: str
    law: str
    factory: str = "right_plugin:Right"
    model: str = "RightModel"
    changes: Mapping[str, Any] = MappingProxyType({})

    @property
    def spec(self) -> PluginSpec:
        """Its descriptor."""
        return replace(with_model(self.model, self.factory), **self.changes)


RIGHT = (
    ("Right", "RightModel"),
    ("RightEarly", "RightModel"),
    ("RightQuick", "RightModel"),
    ("RightNative", "RightNativeModel"),
    ("RightSeeing", "RightModel"),
    ("RightCalling", "RightCallingModel"),
    ("RightReading", "RightModel"),
    ("RightBeside", "RightBesideModel"),
    ("RightVoiced", "RightModel"),
    ("RightSettled", "RightModel"),
    ("RightAnswering", "RightModel"),
    ("RightCascade", "RightVoiceModel"),
    ("Right", "ThreeRows"),
)
"""Plugins that keep every law: light and heavy halves."""

_MODELS = {
    "DoesNotLoad": ("the_models_load",),
    "PrefillsForever": ("prefill_ends",),
    "AnswersNothing": ("a_turn_is_answered",),
    "RaisesInAStep": (
        "a_turn_is_answered",
        "a_conversation_keeps_the_session_sound",
        "it_is_served_to_both_clients",
    ),
    "NeverRests": ("an_answer_comes_to_rest",),
    "Spins": ("an_answer_comes_to_rest",),
    "WrongRate": ("samples_are_sound",),
    "NoNumbers": ("samples_are_sound",),
    "TooLoud": ("samples_are_sound",),
    "SendsEverythingTwice": ("outputs_are_new",),
    "RepeatsItsText": ("outputs_are_new",),
    "RepeatsItsAudio": ("outputs_are_new",),
    "EndsTwice": ("a_turn_ends_once",),
    "TalksAfterTheEnd": ("a_turn_ends_once",),
    "MarksTheWholeAnswer": ("marks_lie_inside_their_output",),
    "NeedsHalfASecond": ("short_and_long_turns_do_no_harm",),
    "CannotRead": ("a_written_turn_is_answered", "a_written_message_is_answered"),
    "RefusesUpdates": ("a_changed_session_goes_on",),
    "RollsDice": (
        "the_same_run_gives_the_same_answer",
        "the_same_conversation_gives_the_same_events",
    ),
    "ReadsTheClock": ("the_same_run_gives_the_same_answer",),
    "CountsItsTurns": ("a_new_session_knows_nothing_of_an_old_one",),
    "MixesSessions": ("batch_mates_change_nothing",),
    "AddsTheBatch": ("batch_mates_change_nothing",),
    "IgnoresCancel": ("a_cancel_stops_the_answer",),
    "DiesOfACancel": (
        "a_session_goes_on_after_a_cancel",
        "a_cancel_ends_the_response",
        "a_barge_in_ends_the_response",
        "an_interrupted_answer_gives_way_to_the_next",
        "cleared_audio_ends_the_response",
    ),
    "RaisesInCancel": ("a_session_goes_on_after_a_cancel",),
    "RaisesInClose": (
        "a_closed_session_takes_nothing_down",
        "a_closed_session_is_released",
        "an_abandoned_session_is_released",
    ),
    "ClosesTheWrongRow": ("a_closed_session_takes_nothing_down",),
    "LeaksAfterClose": ("a_closed_session_leaves_nothing_behind",),
    "KeepsStates": ("a_closed_session_leaves_nothing_behind",),
    "LeavesThreads": ("a_closed_session_leaves_nothing_behind",),
    "LeavesFiles": ("a_closed_session_leaves_nothing_behind",),
    "ForgetsAtAnUpdate": ("an_update_breaks_nothing_off",),
    "HearsTwice": ("what_was_heard_is_told_once",),
    "SkipsLateWords": ("late_ticks_lose_nothing",),
    "HandsOutTensors": ("outputs_can_cross_processes",),
    "DiesOfALateCancel": ("a_session_goes_on_after_a_cancel",),
    "DiesOfASecondCancel": ("random_lives_keep_the_session_sound",),
    "ClosesOnlyWhatSpoke": ("a_closed_session_takes_nothing_down",),
    "HasThreeRows": ("as_many_sessions_fit_as_are_claimed",),
    "OneAtATime": ("two_clients_are_served_at_once",),
    "Pours": ("a_slow_reader_gets_the_whole_answer", "a_broken_connection_is_taken_up_again"),
    "GivesUpOnSilence": ("a_session_waits_for_its_client",),
}

_BEHIND: dict[str, dict[str, tuple[str, ...]]] = {
    "RightEarly": {
        "AlwaysAnswers": ("input_without_a_wish_for_an_answer_is_only_heard",),
        "KeepsDiscardedInput": ("discarded_input_is_forgotten",),
        "NeedsResidue": ("a_commit_without_residue_is_answered",),
        "ChokesOnPadding": ("a_detected_turn_is_answered",),
        "ForgetsAtAnUpdate": ("an_update_breaks_nothing_off",),
        "HearsFromTheBeginning": ("what_was_heard_is_told_once",),
    },
    "RightQuick": {
        "TakesItsTime": ("quick_stages_are_quick",),
    },
    "RightNative": {
        "TalksOnAfterACancel": ("a_cancel_stops_the_answer",),
        "MixesUnits": ("batch_mates_change_nothing",),
        "NeverFallsSilent": ("a_conversation_keeps_the_session_sound",),
    },
    "RightReading": {
        "ReadsWordsOnly": ("a_still_picture_is_answered",),
    },
    "RightBeside": {
        "SaysAllInOneLine": ("an_answer_beside_another_mixes_with_none",),
    },
    "RightAnswering": {
        "CannotRead": ("a_written_request_is_answered",),
        "NeedsAConversation": ("a_spoken_request_is_answered",),
    },
    "RightSeeing": {
        "ChokesOnPictures": ("a_turn_with_pictures_is_answered",),
    },
    "RightCalling": {
        "NeverCalls": ("a_tool_result_is_answered",),
        "IgnoresToolResults": ("a_tool_result_is_answered",),
        "CallsWhatNobodyDeclared": ("a_function_call_can_be_made",),
        "CallsInPython": ("a_function_call_can_be_made",),
        "CallsUnderOneId": ("a_function_call_can_be_made",),
    },
    "RightCascade": {
        "VoiceIgnoresCancel": ("a_cancel_stops_the_answer",),
        "VoiceDiesOfACancel": (
            "a_cancel_ends_the_response",
            "an_interrupted_answer_gives_way_to_the_next",
        ),
    },
}
"""Models that are wrong behind another plugin than the plain one."""

_PLUGINS = {
    "CannotBeMade": ("the_plugin_loads",),
    "PrefersWhatIsNot": ("the_plugin_loads",),
    "PrefersWords": ("the_plugin_loads",),
    "OtherCapabilitiesEachTime": ("capabilities_never_change",),
    "OtherPipelineEachTime": ("the_pipeline_never_changes",),
    "MissingModel": ("the_heavy_half_imports",),
    "MutatesConfig": ("config_hooks_return_mappings",),
    "MutatesTheRuntimeConfig": ("config_hooks_return_mappings",),
    "ForgetsTheRuntimeConfig": ("config_hooks_return_mappings",),
    "TrustsItsClients": ("what_clients_put_into_extra_body_does_no_harm",),
    "BlocksTheLoop": ("hooks_do_not_block_the_loop",),
    "MutatesTheConversation": ("plans_keep_what_the_engine_said",),
    "DropsTheEnd": ("plans_keep_what_the_engine_said",),
    "CountsItsPlans": ("a_plan_depends_on_its_request_alone",),
    "ProjectsTwice": ("projections_are_model_results",),
    "ProjectsRawOutputs": ("projections_are_model_results",),
    "RemembersInTheDataPlane": ("the_data_plane_holds_nothing_of_a_session",),
    "ClosesStreamsOnce": ("requests_end_without_harm",),
    "SharesItsBuffer": ("sessions_share_no_buffer",),
    "LosesSamples": ("units_hold_every_sample_in_order",),
    "CutsTooEarly": ("no_unit_leaves_while_none_may",),
    "CountsNothing": ("pending_bytes_are_counted",),
    "NeverClears": ("a_cleared_buffer_is_empty",),
    "TakesAnyRate": ("a_foreign_rate_is_refused",),
    "NeedsAnOption": ("the_plugin_loads_without_options",),
    "DropsPictures": ("plans_keep_pictures", "pictures_reach_the_model"),
    "PlansTensors": ("prompts_can_cross_processes",),
    "TellsObjects": ("what_clients_are_told_is_json",),
    "TellsNoSound": ("what_the_model_says_reaches_the_client",),
    "TellsWordsTwice": ("projections_are_model_results",),
    "DropsTheSound": ("plans_keep_what_the_engine_said",),
    "BlocksWhileItWaits": ("a_plan_that_waits_blocks_nobody",),
    "ForgetsAtAnUpdate": ("a_changed_session_goes_on",),
    "ImportsWhenAsked": ("the_light_half_imports_no_runtime",),
    "PassesPaths": ("prompts_can_cross_processes",),
    "KnowsTwoNames": ("the_voice_in_use_is_told",),
    "NamesAFile": ("the_voice_in_use_is_told",),
    "NamesItsVoiceTwice": ("the_voice_in_use_is_told",),
    "CountsItsSampling": ("sampling_depends_on_the_session_alone",),
    "NeedsATemperature": ("sampling_depends_on_the_session_alone",),
    "SharesItsRuntimeConfig": ("runtime_configs_are_of_one_session_each",),
    "FiltersWholeFrames": ("input_filters_keep_length_and_rate",),
    "SharesItsFilter": ("input_filters_keep_length_and_rate",),
    "KeepsWhatWasGivenBack": ("a_unit_that_was_not_taken_goes_back",),
}

_IN_FRONT = {
    "ForgetsToolResults": ("RightCallingModel", "tool_results_wait_until_the_model_took_them"),
    "TellsNobody": ("RightNativeModel", "what_the_model_says_reaches_the_client"),
    "DecidesByCounter": ("RightVoiceModel", "a_decision_depends_on_its_output_alone"),
    "RemembersInStageInput": ("RightVoiceModel", "batch_mates_change_nothing"),
}
"""Plugins that are wrong in front of another model than the plain one."""

_DESCRIPTORS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"output_sample_rate": 48_000}, "the_descriptor_names_the_true_rates"),
    ({"input_sample_rate": 8_000}, "the_descriptor_names_the_true_rates"),
    ({"capabilities": frozenset({"tools"})}, "the_descriptor_names_the_true_capabilities"),
    ({"max_sessions": 1}, "more_sessions_than_one_are_claimed_on_both_sides"),
    ({"api": "9.0"}, "the_plugin_loads"),
    ({"name": "scripted"}, "the_installed_entry_point_is_this_descriptor"),
    ({"factory": "heavy_light_half:Heavy"}, "the_light_half_imports_no_runtime"),
)


_VOICES = {"voices": ("anna", "otto")}
_WITH_VOICES = {
    "NamesAVoiceItHasNot": "the_voice_in_use_is_told",
    "HasOnlyAnna": "the_descriptor_names_true_voices",
}
"""Plugins whose descriptor names voices that are not theirs."""


def _specimens() -> tuple[Specimen, ...]:
    found = [Specimen(name, law, model=name) for name, laws in _MODELS.items() for law in laws]
    found += [
        Specimen(name, law, f"right_plugin:{factory}", name)
        for factory, models in _BEHIND.items()
        for name, laws in models.items()
        for law in laws
    ]
    found += [
        Specimen(name, law, f"wrong_plugins:{name}")
        for name, laws in _PLUGINS.items()
        for law in laws
    ]
    found += [
        Specimen(name, law, f"wrong_plugins:{name}", model)
        for name, (model, law) in _IN_FRONT.items()
    ]
    found += [
        Specimen(name, law, f"wrong_plugins:{name}", changes=_VOICES)
        for name, law in _WITH_VOICES.items()
    ]
    found += [
        Specimen(f"{next(iter(changes))}={next(iter(changes.values()))}", law, changes=changes)
        for changes, law in _DESCRIPTORS
    ]
    return tuple(found)


WRONG = _specimens()
