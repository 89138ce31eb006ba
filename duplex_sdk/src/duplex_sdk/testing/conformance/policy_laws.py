"""Laws of the plugin object: its hooks, its planner and its data plane."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from time import perf_counter
from typing import Any, cast

from msgspec import structs

from duplex_sdk.plugin import (
    AppendPiece,
    AppendPlanner,
    AppendRequest,
    DuplexAppendPlan,
    DuplexDataPlane,
    DuplexFence,
    DuplexModelSessionState,
    DuplexRuntimeConfigError,
    ModelResult,
    SessionView,
)
from duplex_sdk.plugin.read_only import read_only
from duplex_sdk.stage import Json, StageOutput, StagePrompt
from duplex_sdk.testing.awaited import made_plan

from .bench import BenchSession, StageBench
from .breach import breach, does_not_apply, require
from .conversation import take_turn
from .pictures import PICTURE, takes_pictures
from .subject import Subject

__all__ = ["PolicyLaws", "called", "projected"]

LONGEST_S = 0.005
TRIES = 20


class PolicyLaws:
    """Hooks run on the engine's loop: they are quick, pure, and change nothing they are given."""

    def test_config_hooks_return_mappings(self, conformance: Subject) -> None:
        """Whatever changes, the runtime config stays a mapping."""
        plugin = conformance.plugin
        config = conformance.session_config("hooks")
        current = conformance.runtime_config(config)
        result = read_only({"type": "function_call_output", "call_id": "call_1", "output": "42"})
        calls: dict[str, Callable[[], object]] = {
            "runtime_config_for_update": lambda: plugin.runtime_config_for_update(
                config, current, started=True
            ),
            "runtime_config_for_function_output": lambda: plugin.runtime_config_for_function_output(
                config, current, result
            ),
            "runtime_config_after_model_output": lambda: plugin.runtime_config_after_model_output(
                current, read_only({})
            ),
        }
        for name, call in calls.items():
            answer = called(name, call)
            optional = name != "runtime_config_for_update" and answer is None
            require(
                optional or isinstance(answer, Mapping),
                f"{name} returned {answer!r}",
                "return the new runtime config as a mapping; the one in force when nothing changes",
            )

    def test_what_clients_put_into_extra_body_does_no_harm(self, conformance: Subject) -> None:
        """An ``extra_body`` nobody knows is welcome, or refused by name."""
        check = conformance.plugin.validate_client_extra_body
        may_be_none = "extra_body is None, or a mapping that holds anything"
        called("validate_client_extra_body", lambda: check(None), may_be_none)
        called("validate_client_extra_body", lambda: check({}), may_be_none)
        try:
            check(read_only({"conformance_kit": [1, {"deep": None}]}))
        except (DuplexRuntimeConfigError, ValueError):
            return
        except Exception as error:
            breach(
                f"validate_client_extra_body raised {type(error).__name__}: {error}",
                "refuse with DuplexRuntimeConfigError(code, message, param=...), so that the client"
                " reads what is wrong",
            )

    def test_plans_keep_what_the_engine_said(self, conformance: Subject) -> None:
        """``final`` and ``respond`` reach the stage, whatever else becomes of a unit."""
        for unit in _units(conformance):
            plan = _plan(conformance, unit)
            kept = plan.prompt.final == unit.final and plan.prompt.respond == unit.respond
            require(
                kept,
                f"a unit with final={unit.final} and respond={unit.respond} was planned with"
                f" final={plan.prompt.final} and respond={plan.prompt.respond}",
                "start from super().plan_append(request) and replace only what differs",
            )
            require(
                unit.audio is None or _brings_something(plan.prompt),
                "a unit with audio was planned without anything of it",
                "hand the audio on, or what was made of it as `arrays`, `token_ids` or `data`",
            )

    def test_plans_keep_pictures(self, conformance: Subject) -> None:
        """Camera frames of a unit reach the stage."""
        if not takes_pictures(conformance):
            does_not_apply("the model takes no camera frames (optional_input_modalities)")
        for unit in _units(conformance):
            if unit.audio is not None:
                plan = _plan(conformance, structs.replace(unit, images=(PICTURE,)))
                require(
                    plan.prompt.images == (PICTURE,),
                    f"a unit with a picture was planned with {len(plan.prompt.images)}",
                    "start from super().plan_append(request) and replace only what differs; a model"
                    " that sees nothing sets optional_input_modalities=() in capabilities()",
                )

    def test_tool_results_wait_until_the_model_took_them(self, conformance: Subject) -> None:
        """A result stays in the runtime config: the unit that brings it may have to go again."""
        conformance.needs("tools")
        plugin, config = conformance.plugin, conformance.session_config("tools")
        current = conformance.runtime_config(config)
        queued = current
        for call_id, output in (("call_1", "forty-two"), ("call_2", "fifty-three")):
            item = {"type": "function_call_output", "call_id": call_id, "output": output}
            before = queued
            hook = plugin.runtime_config_for_function_output
            call = partial(hook, config, before, read_only(item))
            answer = called("runtime_config_for_function_output", call)
            queued = before if answer is None else read_only(dict(cast(Mapping[str, Json], answer)))
        if queued == current:
            does_not_apply("the plugin takes results from the conversation, not by its hook")
        unit = AppendPiece(audio=conformance.turn(0), is_speech=True, final=not conformance.native)
        plans = [_plan(conformance, unit, runtime=queued) for _ in range(2)]
        for plan in plans:
            told = repr(plan.prompt)
            require(
                "forty-two" in told and "fifty-three" in told,
                "a plan does not bring every result that waits",
                "hand all queued results on in plan_append(); drop them from the runtime config in"
                " runtime_config_after_model_output(), once the model says in `data` that it took"
                " them",
            )

    def test_a_decision_depends_on_its_output_alone(self, conformance: Subject) -> None:
        """What the plugin says of an output in the middle of the pipeline, twice the same."""
        if len(conformance.pipeline.stages) == 1:
            does_not_apply("the pipeline has one stage: its output always goes to the client")
        plugin, ids = conformance.plugin, [each.id for each in conformance.pipeline.stages]
        with StageBench(conformance) as bench:
            session = bench.open("decide")
            take_turn(conformance, bench, "decide", 0)
        for said in session.said:
            index = ids.index(said.stage)
            if index + 1 == len(ids):
                continue
            context = bench.context(session, index)
            for name in ("decide_output", "project_intermediate_output"):
                call = partial(getattr(plugin, name), said.output, context)
                first, again = called(name, call), called(name, call)
                require(
                    first == again,
                    f"{name} said {first!r} of an output, then {again!r}",
                    "decide by the output and its context alone: one plugin serves all sessions",
                )

    def test_a_plan_depends_on_its_request_alone(self, conformance: Subject) -> None:
        """The same request twice makes the same plan: a failed append is planned again."""
        for unit in _units(conformance):
            first, again = _plan(conformance, unit), _plan(conformance, unit)
            require(
                first == again,
                f"a unit of kind {unit.kind!r} was planned in two ways",
                "keep nothing on the plugin between calls of plan_append: it serves all sessions",
            )

    def test_hooks_do_not_block_the_loop(self, conformance: Subject) -> None:
        """What runs for each unit takes no time: all sessions wait for it."""
        unit = _units(conformance)[0]
        outputs, session, bench = _outputs(conformance, "block")
        plugin, told = conformance.plugin, session.stages[0]
        request = _request(conformance, unit)
        context = _context(conformance, bench, session)
        calls: dict[str, Callable[[], object]] = {
            "plan_append": lambda: called("plan_append", lambda: plugin.plan_append(request)),
            "create_session_state": plugin.create_session_state,
            "voice_in_use": lambda: plugin.voice_in_use(told.config),
            "configure_sampling_params": lambda: conformance.sampling(told.runtime),
            "runtime_config_for_update": lambda: plugin.runtime_config_for_update(
                told.config, told.runtime, started=True
            ),
        }
        if outputs:
            calls["project"] = lambda: projected(
                plugin.data_plane, outputs[0], plugin.create_session_state(), context
            )
        for name, call in calls.items():
            _is_quick(name, call)

    def test_a_plan_that_waits_blocks_nobody(self, conformance: Subject) -> None:
        """``prepare_append_plan`` may take its time, on other threads than the loop's."""
        plugin = conformance.plugin
        if type(plugin).prepare_append_plan is AppendPlanner.prepare_append_plan:
            does_not_apply("the plugin makes its plans at once")
        request = _request(conformance, _units(conformance)[0])
        called("prepare_append_plan", lambda: made_plan(plugin, request), WAITS)

        def held() -> float:
            return asyncio.run(_longest_hold(plugin.prepare_append_plan(request)))

        _took_little("prepare_append_plan", held)

    def test_projections_are_model_results(self, conformance: Subject) -> None:
        """``project`` makes ``ModelResult``s, with audio at the plugin's rate, each sample once."""
        outputs, session, bench = _outputs(conformance, "project")
        results = _project(conformance, bench, [(session, output) for output in outputs])
        for result in results:
            require(
                isinstance(result, ModelResult),
                f"project yielded {result!r}",
                "yield ModelResult(...) for each thing the client is to be told",
            )
            rate = conformance.capabilities.output_sample_rate_hz
            require(
                result.audio is None or result.audio.rate == rate,
                f"project yielded audio at {result.audio and result.audio.rate} Hz, not {rate} Hz",
                "hand the stage's audio on as it is: the engine resamples for the client",
            )
        given = sum(output.audio.count for output in outputs if output.audio is not None)
        told = sum(result.audio.count for result in results if result.audio is not None)
        require(
            told <= given,
            f"project made {told} samples of {given}",
            "yield the audio of an output in one result only",
        )
        given = sum(len(output.text or "") for output in outputs)
        told = sum(len(result.text or "") for result in results)
        require(
            given < 2 or told < 2 * given,
            f"project made {told} characters of {given}",
            "yield the text of an output in one result only",
        )

    def test_the_data_plane_holds_nothing_of_a_session(self, conformance: Subject) -> None:
        """Outputs of two sessions, mixed, are projected like those of each alone."""
        conformance.needs("multi_session")
        with StageBench(conformance) as bench:
            pairs: list[list[tuple[BenchSession, StageOutput]]] = []
            for number, name in enumerate(("plane a", "plane b")):
                session = bench.open(name)
                take_turn(conformance, bench, name, number)
                pairs.append([(session, each.output) for each in session.said if each.shown])
        alone = [_project(conformance, bench, mine) for mine in pairs]
        mixed = [pair for both in zip(*pairs, strict=False) for pair in both]
        shortest = min(len(mine) for mine in pairs)
        mixed += [pair for mine in pairs for pair in mine[shortest:]]
        together = _project(conformance, bench, mixed)
        require(
            sorted(map(repr, together)) == sorted(map(repr, alone[0] + alone[1])),
            "outputs of two sessions are projected differently when they come mixed",
            "keep a session's memory in its DuplexModelSessionState, which every call brings;"
            " the data plane is one object for all sessions",
        )

    def test_requests_end_without_harm(self, conformance: Subject) -> None:
        """A stream may be closed twice, and before anything came of it."""
        plane, state = conformance.plugin.data_plane, conformance.plugin.create_session_state()
        steps: tuple[Callable[[], object], ...] = (
            lambda: plane.close_stream("unknown", state=state),
            lambda: plane.begin_request("one", state=state),
            lambda: plane.close_stream("one", state=state),
            lambda: plane.close_stream("one", state=state),
        )
        for step in steps:
            called("begin_request or close_stream", step)


WAITS = "into prepare_append_plan with asyncio.to_thread on owned data"

READ_ONLY = (
    "config, current and item are read-only: return a new mapping instead of changing one; expect"
    " keys to be missing"
)


def called(name: str, call: Callable[[], object], advice: str = READ_ONLY) -> object:
    """What a hook returns.

    Raises:
        LawBrokenError: it raises instead.
    """
    try:
        return call()
    except Exception as error:
        breach(f"{name} raised {type(error).__name__}: {error}", advice)


def projected(
    plane: DuplexDataPlane, output: StageOutput, state: DuplexModelSessionState, context: object
) -> list[ModelResult]:
    """What a data plane makes of an output.

    Raises:
        LawBrokenError: it fails of it.
    """
    made = called(
        "project",
        lambda: list(plane.project(output, state=state, context=context)),
        "any field of an output may be missing: project what is there, and nothing of what is not",
    )
    assert isinstance(made, list)
    return made


def _brings_something(prompt: StagePrompt) -> bool:
    return bool(prompt.audio or prompt.arrays or prompt.token_ids or prompt.data or prompt.text)


def _units(subject: Subject) -> list[AppendPiece]:
    audio = subject.turn(0)
    units = [
        AppendPiece(audio=audio, is_speech=True, final=not subject.native),
        AppendPiece(audio=audio, is_speech=True, final=True),
    ]
    if subject.plugin.early_input:
        units.append(AppendPiece(final=True, respond=False))
    if "text_only_turn" in subject.capabilities.supported:
        units.append(AppendPiece(kind="conversation"))
    return units


def _plan(
    subject: Subject, unit: AppendPiece, *, runtime: Mapping[str, Json] | None = None
) -> DuplexAppendPlan:
    request = _request(subject, unit, runtime)
    plan = called("planning an append", lambda: made_plan(subject.plugin, request))
    require(
        isinstance(plan, DuplexAppendPlan),
        f"an append was planned as {plan!r}",
        "return DuplexAppendPlan(StagePrompt(...))",
    )
    assert isinstance(plan, DuplexAppendPlan)
    return plan


def _request(
    subject: Subject, unit: AppendPiece, runtime: Mapping[str, Json] | None = None
) -> AppendRequest:
    told = subject.stage_sessions("plan")[0]
    view = SessionView(
        session_id="plan",
        config=told.config,
        runtime=told.runtime if runtime is None else runtime,
        conversation=read_only([{"role": "user", "content": "hello"}]),
    )
    return AppendRequest(
        fence=DuplexFence("plan"), request_id="plan/0", seq=1, turn_seq=1, unit=unit, session=view
    )


def _outputs(subject: Subject, name: str) -> tuple[list[StageOutput], BenchSession, StageBench]:
    with StageBench(subject) as bench:
        session = bench.open(name)
        take_turn(subject, bench, name, 0)
    return [each.output for each in session.said if each.shown], session, bench


def _context(subject: Subject, bench: StageBench, session: BenchSession) -> object:
    last = len(subject.pipeline.stages) - 1
    return subject.plugin.data_plane_context(bench.context(session, last))


def _project(
    subject: Subject, bench: StageBench, pairs: Iterable[tuple[BenchSession, StageOutput]]
) -> list[ModelResult]:
    states: dict[str, Any] = {}
    results: list[ModelResult] = []
    for session, output in pairs:
        state = states.setdefault(session.session_id, subject.plugin.create_session_state())
        context = _context(subject, bench, session)
        results += projected(subject.plugin.data_plane, output, state, context)
    return results


def _is_quick(name: str, call: Callable[[], object]) -> None:
    def took() -> float:
        began = perf_counter()
        call()
        return perf_counter() - began

    _took_little(name, took)


def _took_little(name: str, measure: Callable[[], float]) -> None:
    """Once in some tries it is quick: that it is not may be a busy machine's fault."""
    took = measure()
    for _ in range(TRIES):
        if took < LONGEST_S:
            break
        took = min(took, measure())
    require(
        took < LONGEST_S,
        f"{name} takes {took * 1000:.0f} ms, and every session waits that long",
        f"do the work in the stage; what needs files or a library belongs into load(), or {WAITS}",
    )


async def _longest_hold(work: Coroutine[Any, Any, object]) -> float:
    """For how long at most a coroutine lets nobody else run, seconds."""
    task = asyncio.ensure_future(work)
    longest, last = 0.0, perf_counter()
    while not task.done():
        await asyncio.sleep(0)
        now = perf_counter()
        longest, last = max(longest, now - last), now
    return longest
