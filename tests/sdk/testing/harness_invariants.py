"""Invariants that need a shell, a stage or a server: the tests that hold them, by number.

The others are laws of ``duplex_sdk.testing.invariants``, held by the simulator; a number may stand
in both. Numbers above 120 are checks of our own beside the invariants. A test is named by its file
and function; classes and parameters are left out.
"""

from __future__ import annotations

_ENGINE = "tests/server/engine"
_CALLERS = "tests/server/entrypoints"
_SERVING = "tests/server/serving"
_SOCKETS = "tests/integration"

HARNESS: dict[int, tuple[str, ...]] = {
    17: (
        "tests/sdk/session/test_effects_gone_wrong.py::test_an_effect_that_goes_wrong_leaves_nothing",
        f"{_ENGINE}/test_work_called_off.py::test_work_cancelled_at_any_wait_leaves_nothing",
    ),
    85: (f"{_CALLERS}/test_callers_called_off.py::test_an_open_cancelled_anywhere",),
    86: (
        f"{_ENGINE}/test_neighbours.py::test_a_cleanup_that_fails_or_hangs_holds_no_other_session_up",
    ),
    87: (
        f"{_ENGINE}/test_work_called_off.py::test_work_that_fails_or_hangs_at_any_wait_leaves_nothing",
    ),
    90: (
        f"{_SERVING}/test_resume_races.py::test_frames_of_a_replaced_socket_reach_nobody",
        f"{_SOCKETS}/test_resume.py::test_a_takeover_tells_and_closes_the_former_socket",
    ),
    91: (
        f"{_SERVING}/test_connections_called_off.py::test_a_resume_cancelled_anywhere",
        f"{_CALLERS}/test_callers_called_off.py::test_a_resume_cancelled_anywhere_has_one_owner",
    ),
    100: (
        f"{_CALLERS}/test_pressure.py::test_a_reader_that_stalls_is_ended_and_a_neighbour_is_not",
        f"{_SOCKETS}/test_slow_readers.py"
        "::test_a_reader_that_never_reads_is_closed_alone_within_its_bounds",
    ),
    102: (
        f"{_SOCKETS}/test_rude_resumes.py::test_no_event_is_lost_or_repeated_over_rude_disconnects",
    ),
    103: (
        f"{_SERVING}/test_resume_races.py::test_a_socket_that_breaks_at_any_frame_of_the_replay_loses_nothing",
    ),
    104: (
        f"{_SOCKETS}/test_resume.py::test_a_used_token_is_refused_once_its_successor_was_read",
        f"{_SOCKETS}/test_resume.py::test_a_client_that_never_read_its_new_token_comes_back_with_the_old",
        f"{_SERVING}/test_resume_races.py::test_the_old_token_dies_with_the_first_frame_of_the_new_socket",
    ),
    105: (
        f"{_SERVING}/test_live_frames.py"
        "::test_audio_that_a_cancel_took_back_is_skipped_without_a_number",
    ),
    106: (f"{_ENGINE}/test_seams.py::test_what_a_session_says_never_reaches_a_queue_of_requests",),
    107: (f"{_ENGINE}/test_import_boundary.py::test_turn_based_stack_loads_no_module_of_sessions",),
    108: (
        f"{_SOCKETS}/test_worker_stages.py"
        "::test_a_killed_replica_ends_what_was_bound_to_it_and_nothing_else",
        f"{_SOCKETS}/test_worker_requests.py::test_killed_replicas_end_only_what_was_bound_to_them",
    ),
    109: (
        f"{_ENGINE}/test_seams.py::test_an_output_of_no_living_session_goes_nowhere",
        f"{_ENGINE}/test_seams.py::test_a_request_that_outlived_its_session_forwards_nothing",
    ),
    110: (
        "tests/sdk/session/test_stage_metrics.py::test_every_figure_is_told_once_or_still_waits",
    ),
    111: (f"{_CALLERS}/test_pressure.py::test_b04_a_faulty_session_disturbs_no_other",),
    114: (
        "tests/sdk/session/test_stubborn_clients.py"
        "::test_a_client_that_repeats_itself_costs_no_more_and_no_more",
    ),
    116: (
        f"{_SOCKETS}/test_client_parity.py::test_both_clients_hear_the_same",
        f"{_SOCKETS}/test_client_parity.py::test_both_clients_hear_the_same_spoken_turn",
    ),
    119: (
        f"{_ENGINE}/test_neighbours.py::test_a_hung_call_of_a_stage_holds_no_other_session_up",
        f"{_CALLERS}/test_pressure.py::test_a_hung_plan_holds_neither_cancel_nor_neighbours_up",
    ),
    # In the `openai` profile a function call is told when the open response has ended.
    123: (
        f"{_SERVING}/test_calls_held_back.py"
        "::test_no_call_is_told_while_a_response_is_open_and_nothing_is_lost",
        f"{_SERVING}/test_profile_events.py"
        "::test_a_function_call_waits_for_the_open_message_response",
    ),
    # Output that is made faster than it plays waits for a reader that reads, and for no other.
    124: (
        "tests/sdk/session/test_output_queue.py::test_output_waits_for_a_reader_that_reads",
        "tests/server/runtime/test_session_runner.py"
        "::test_stage_outputs_wait_while_the_reader_is_behind",
        "tests/server/runtime/test_session_runner.py"
        "::test_stage_outputs_go_on_when_the_reader_has_stalled",
        f"{_CALLERS}/test_pressure.py"
        "::test_a_long_answer_made_in_a_moment_reaches_a_client_that_reads",
    ),
}
"""Number to ``tests/path.py::test_name``."""
