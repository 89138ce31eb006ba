"""Laws of what leaves a process: engine, workers and clients need not share one."""

from __future__ import annotations

import json
from collections.abc import Iterable

from duplex_sdk.plugin import ModelResult
from duplex_sdk.stage.worker.framing import encoded_size

from .bench import BenchSession, StageBench
from .breach import breach
from .conversation import take_turn
from .policy_laws import projected
from .subject import Subject

__all__ = ["PackingLaws"]

PLAIN = "None, bool, int, float, str, bytes, and lists and dicts of them"


class PackingLaws:
    """Whatever stages, planner and data plane hand on can be written down."""

    def test_prompts_can_cross_processes(self, conformance: Subject) -> None:
        """What the planner and ``stage_input`` make, and what stages are told of a session."""
        for stage in conformance.pipeline.stages:
            if set(stage.backends) != {"inline"}:
                _packed(f"what stage {stage.id!r} is made with", (dict(stage.options),))
        _, session = _turn(conformance)
        _packed("a session", session.stages)
        _packed("a prompt", session.prompts)

    def test_outputs_can_cross_processes(self, conformance: Subject) -> None:
        """What stages hand out."""
        _, session = _turn(conformance)
        _packed("an output", (said.output for said in session.said))

    def test_what_clients_are_told_is_json(self, conformance: Subject) -> None:
        """``ModelResult.metadata`` goes to the client as it is."""
        bench, session = _turn(conformance)
        plane, state = conformance.plugin.data_plane, conformance.plugin.create_session_state()
        last = len(conformance.pipeline.stages) - 1
        context = conformance.plugin.data_plane_context(bench.context(session, last))
        for said in session.said:
            if said.shown:
                for result in projected(plane, said.output, state, context):
                    _written(result)


def _turn(subject: Subject) -> tuple[StageBench, BenchSession]:
    with StageBench(subject) as bench:
        session = bench.open("packed")
        take_turn(subject, bench, "packed", 0)
    return bench, session


def _packed(what: str, messages: Iterable[object]) -> None:
    for message in messages:
        try:
            encoded_size(message)
        except Exception as error:
            breach(
                f"{what} cannot be sent to another process: {error}",
                f"text is whole characters; `data`, options, runtime config and sampling carry"
                f" {PLAIN}; numbers of a tensor go into `arrays` as"
                " Array(array.tobytes(), str(array.dtype), array.shape)",
            )


def _written(result: ModelResult) -> None:
    try:
        json.dumps(dict(result.metadata), allow_nan=False)
    except (TypeError, ValueError) as error:
        breach(
            f"the metadata of a result is no JSON: {error}",
            "ModelResult.metadata is copied into the event: strings, numbers, lists and dicts only",
        )
