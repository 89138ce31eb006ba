"""What a deployment may change about a plugin's stages, and how it is told what it may not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from duplex_sdk.stage import PipelineConfig, StageConfig, StageLoadError
from duplex_server.stages import Deployment, StageSettingError, build_pools
from duplex_server.stages.loop_replica import LoopReplica
from duplex_server.stages.process_replica import ProcessReplica
from duplex_server.stages.thread_replica import ThreadReplica

PIPELINE = PipelineConfig(
    stages=(
        StageConfig("ear", model="m:Ear", quick=True),
        StageConfig(
            "talker",
            model="m:Talker",
            backends=("process", "inline"),
            options={"size": "small", "voice": "a"},
        ),
    )
)
OTHER = Path("/opt/other/bin/python")


def applied(deployment: Deployment) -> dict[str, StageConfig]:
    return {stage.id: stage for stage in deployment.apply(PIPELINE).stages}


def test_a_silent_deployment_takes_the_first_backend_and_changes_nothing_else() -> None:
    stages = applied(Deployment())
    assert stages["ear"].backends == ("inline",)
    assert stages["talker"].backends == ("process",)
    assert stages["talker"].options == {"size": "small", "voice": "a"}


def test_what_is_said_replaces_and_options_are_merged() -> None:
    changes = {"backend": "inline", "replicas": 3, "options": {"size": "big"}}
    talker = applied(Deployment(stages={"talker": changes}))["talker"]
    assert (talker.backends, talker.replicas) == (("inline",), 3)
    assert talker.options == {"size": "big", "voice": "a"}


def test_a_stages_own_device_goes_before_that_of_all() -> None:
    stages = applied(Deployment(stages={"ear": {"device": "cpu"}}, device="cuda:1"))
    assert (stages["ear"].device, stages["talker"].device) == ("cpu", "cuda:1")


def test_with_another_interpreter_every_stage_is_a_process_unless_said_otherwise() -> None:
    stages = applied(Deployment(worker_python=OTHER))
    assert {stage.backends for stage in stages.values()} == {("process",)}
    kept = applied(Deployment(stages={"ear": {"backend": "inline"}}, worker_python=OTHER))
    assert kept["ear"].backends == ("inline",)


def test_a_stage_may_have_an_interpreter_of_its_own() -> None:
    deployment = Deployment(stages={"ear": {"worker_python": str(OTHER)}})
    assert (deployment.python_of("ear"), deployment.python_of("talker")) == (OTHER, None)
    assert applied(deployment)["ear"].backends == ("process",)
    for_all = Deployment(
        stages={"ear": {"worker_python": str(OTHER)}}, worker_python=Path("/other")
    )
    assert (for_all.python_of("ear"), for_all.python_of("talker")) == (OTHER, Path("/other"))


@pytest.mark.parametrize(
    "deployment",
    [
        Deployment(worker_python=OTHER),
        Deployment(stages={"words": {"worker_python": str(OTHER)}}),
        Deployment(stages={"words": {"workers": ["h:1"]}}, worker_secret="s" * 40),
        Deployment(stages={"words": {"backend": "vllm"}}),
    ],
)
def test_a_stage_that_runs_on_vllm_alone_does_so_in_any_worker(deployment: Deployment) -> None:
    words = PipelineConfig(stages=(StageConfig("words", backends=("vllm",)),))
    assert deployment.apply(words).stages[0].backends == ("vllm",)


def test_engine_arguments_of_a_vllm_stage_are_merged() -> None:
    stage = StageConfig("words", backends=("vllm",), vllm={"model": "m", "dtype": "float32"})
    changed = Deployment(stages={"words": {"vllm": {"model": "n"}}})
    applied = changed.apply(PipelineConfig(stages=(stage,))).stages[0]
    assert applied.vllm == {"model": "n", "dtype": "float32"}


@pytest.mark.parametrize(
    ("stages", "path", "says"),
    [
        ({"talkr": {}}, "stages.talkr", "no such stage"),
        ({"ear": {"backend": "vllm"}}, "stages.ear.backend", "does not run as 'vllm'"),
        ({"ear": {"colour": 1}}, "stages.ear.colour", "no such setting"),
        ({"ear": {"replicas": 0}}, "stages.ear", "replicas must be at least 1"),
        (
            {"ear": {"backend": "inline", "worker_python": "/opt/p"}},
            "stages.ear.worker_python",
            "runs as 'inline' has no workers",
        ),
        ({"ear": {"backend": "ray"}}, "stages.ear.backend", "does not run as 'ray'"),
        ({"ear": {"vllm": {"model": "m"}}}, "stages.ear.vllm", "takes no arguments of vLLM"),
    ],
)
def test_what_cannot_be_names_the_setting(stages: dict[str, Any], path: str, says: str) -> None:
    with pytest.raises(StageSettingError, match=says) as failure:
        Deployment(stages=stages).apply(PIPELINE)
    assert failure.value.path == path
    assert str(failure.value).startswith(path)


def test_a_stage_that_is_no_process_cannot_have_another_interpreter() -> None:
    here = PipelineConfig(stages=(StageConfig("ear", model="m:Ear", backends=("inline",)),))
    with pytest.raises(StageSettingError, match="ear does not run in a worker") as failure:
        Deployment(worker_python=OTHER).apply(here)
    assert (failure.value.path, failure.value.hint) == ("worker_python", "it may run as: inline")
    with pytest.raises(StageSettingError, match="does not run in a worker") as failure:
        Deployment(stages={"ear": {"worker_python": "/opt/p"}}).apply(here)
    assert failure.value.path == "stages.ear.worker_python"


def test_a_backend_that_this_server_does_not_have_is_passed_over() -> None:
    first = PipelineConfig(stages=(StageConfig("ear", model="m:Ear", backends=("ray", "inline")),))
    assert Deployment().apply(first).stages[0].backends == ("inline",)
    alone = PipelineConfig(stages=(StageConfig("ear", model="m:Ear", backends=("ray",)),))
    with pytest.raises(StageSettingError, match="it runs as ray alone"):
        Deployment().apply(alone)


@pytest.mark.parametrize(
    ("backends", "quick", "kind"),
    [
        (("inline",), True, LoopReplica),
        (("inline",), False, ThreadReplica),
        (("process", "inline"), True, ProcessReplica),
        (("ray", "process"), False, ProcessReplica),
        (("vllm",), False, ProcessReplica),
    ],
)
def test_the_first_backend_there_is_runs_the_stage(
    shop: Any, backends: tuple[Any, ...], quick: bool, kind: type
) -> None:
    made: list[object] = []
    stage = StageConfig("ear", model="m:Ear", backends=backends, quick=quick)
    (pool,) = build_pools(PipelineConfig(stages=(stage,)), shop.heard, output_rate=None)
    made.append(pool._keeper._make_replica(0))
    assert [type(replica) for replica in made] == [kind]


def test_a_stage_for_no_backend_of_this_server_is_refused(shop: Any) -> None:
    stage = StageConfig("ear", model="m:Ear", backends=("ray",))
    with pytest.raises(StageLoadError, match="ray only"):
        build_pools(PipelineConfig(stages=(stage,)), shop.heard, output_rate=None)
