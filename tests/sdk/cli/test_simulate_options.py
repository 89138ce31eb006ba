"""`duplex simulate --plugin-option`: sessions of a plugin as somebody wants it to be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from duplex_sdk.cli.app import build_app
from duplex_sdk.plugin import PluginSpecError
from duplex_sdk.session.append_queue import AppendQueue
from duplex_sdk.testing.simulation import Soak
from typer.testing import CliRunner

ANSWERS = '{"answers": [{"ms": 100}]}'
QUICK = ["--seed", "0", "--schedules", "3", "--processes", "1"]


def simulate(*words: str) -> Any:
    return CliRunner().invoke(build_app(["simulate"]), ["simulate", *words])


@pytest.fixture
def fails_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def fall(*_: Any) -> Any:
        raise AssertionError("on purpose")

    monkeypatch.setattr(AppendQueue, "submitted", fall)


def test_the_plugin_is_made_with_its_options() -> None:
    kinds = Soak(plugin="scripted", options={"script": ANSWERS}).kinds()
    assert kinds["as it is"].plugin().options["script"] == ANSWERS
    usual = Soak(plugin="scripted").kinds()
    assert usual["as it is"].plugin().options["script"] != ANSWERS
    assert Soak(plugin="scripted", options={"script": ANSWERS}).kinds() is kinds


@pytest.mark.usefixtures("fails_at_once")
@pytest.mark.parametrize("from_file", [True, False])
def test_a_life_that_broke_is_run_again_with_the_same_options(
    tmp_path: Path, from_file: bool
) -> None:
    kept = tmp_path / "script.json"
    kept.write_text(ANSWERS)
    option = f"script=@{kept}" if from_file else f"script={ANSWERS}"
    done = simulate("--plugin", "scripted", "--plugin-option", option, *QUICK)
    assert done.exit_code == 1
    again = f"duplex simulate --plugin scripted --plugin-option '{option}' --seed"
    assert again.replace("'", "") in done.output.replace("'", "")


def test_a_trace_is_of_the_plugin_as_it_was_asked_for() -> None:
    words = ("--plugin", "scripted", "--seed", "5", "--trace")
    usual, brief = simulate(*words), simulate(*words, "--plugin-option", f"script={ANSWERS}")
    assert (usual.exit_code, brief.exit_code) == (0, 0), usual.output + brief.output
    said = "response.output_audio.delta"
    assert usual.output.count(said) > brief.output.count(said) > 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--plugin-option", "script={}"], "needs --plugin"),
        (["--plugin", "scripted", "--plugin-option", "script"], "takes KEY=VALUE"),
        (["--plugin", "scripted", "--plugin-option", "=1"], "takes KEY=VALUE"),
        (["--plugin", "scripted", "--plugin-option", "script=@/no/such/file"], "cannot read"),
    ],
)
def test_what_is_no_option_is_refused_before_anything_runs(words: list[str], told: str) -> None:
    done = simulate(*words, *QUICK)
    assert done.exit_code == 2
    assert told in done.output
    assert "schedules in" not in done.output


def test_an_option_that_the_plugin_has_not_is_named() -> None:
    done = simulate("--plugin", "scripted", "--plugin-option", "nope=1", *QUICK)
    assert isinstance(done.exception, PluginSpecError)
    assert "'nope'" in str(done.exception)
