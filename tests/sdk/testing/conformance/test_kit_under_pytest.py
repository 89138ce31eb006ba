from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from duplex_sdk.testing.conformance.run import law_levels
from duplex_sdk.testing.report_card import Grade, ReportCards
from duplex_sdk.testing.scripted.stage import ScriptedModel
from patience import PATIENCE_S

pytest_plugins = ["pytester"]

HEAD = """
from dataclasses import replace
import pytest
from duplex_sdk.testing import ModelConformance
from duplex_sdk.testing.scripted import plugin
"""
SCRIPTED = f"""{HEAD}
class TestScripted(ModelConformance):
    @property
    def spec(self):
        return plugin
"""
WRONG_RATE = SCRIPTED.replace("return plugin", "return replace(plugin, output_sample_rate=8000)")
LAW = "the_descriptor_names_the_true_rates"


# What is imported by now each run in this process finds; else it would import it anew.
assert f"test_{LAW}" in law_levels()

REST = len(law_levels()) - 3

Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester) -> Run:
    """An author's test run of these tests; in this process, it is one of many."""

    def run_tests(text: str, *arguments: str) -> pytest.RunResult:
        pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
        pytester.makepyfile(test_mine=text)
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", *arguments)

    return run_tests


def output(done: pytest.RunResult) -> str:
    return done.stdout.str() + done.stderr.str()


def test_a_suite_without_a_spec_is_an_error(run: Run) -> None:
    done = run(f"{HEAD}\nclass TestMine(ModelConformance):\n    pass\n")
    assert done.ret == pytest.ExitCode.INTERRUPTED, output(done)
    assert "TestMine is a conformance suite without spec" in output(done)


def test_an_abstract_base_of_suites_is_none(run: Run) -> None:
    base = f"{HEAD}\nclass Base(ModelConformance):\n    pass\n"
    done = run(base + "\ndef test_else():\n    pass\n")
    assert done.ret == 0, output(done)


@pytest.mark.parametrize(
    "drop",
    [
        f"    test_{LAW} = None",
        f"    def test_{LAW}(self, conformance):\n        pass",
        f"    @pytest.mark.skip(reason='no')\n    def test_{LAW}(self, conformance):\n        pass",
        f"    @pytest.mark.xfail\n    def test_{LAW}(self, conformance):\n        assert False",
    ],
    ids=["removed", "emptied", "skipped", "no reason"],
)
def test_a_law_is_not_dropped_in_silence(run: Run, drop: str) -> None:
    done = run(f"{SCRIPTED}\n{drop}\n")
    assert done.ret == pytest.ExitCode.INTERRUPTED, output(done)
    assert f"test_{LAW} drops a law" in output(done)


@pytest.mark.parametrize(
    "body",
    ["pass", "assert False", f"ModelConformance.test_{LAW}(self, conformance)"],
    ids=["passes", "fails", "calls no super"],
)
def test_a_law_that_is_excused_is_run_all_the_same(run: Run, body: str) -> None:
    law = f"    def test_{LAW}(self, conformance):\n        {body}"
    done = run(f"{SCRIPTED}\n    @pytest.mark.xfail(reason='known')\n{law}\n")
    assert done.ret == pytest.ExitCode.INTERRUPTED, output(done)
    assert f"test_{LAW} drops a law" in output(done)


@pytest.mark.parametrize(
    ("suite", "reason"),
    [
        (
            SCRIPTED.replace("\nclass", "\n@pytest.mark.skip(reason='later')\nclass"),
            "drops every law",
        ),
        (SCRIPTED.replace("\nclass", "\n@pytest.mark.xfail\nclass"), "an xfail says why"),
        (f"{SCRIPTED}\n    def __init__(self):\n        pass\n", "has no __init__"),
        (f"{SCRIPTED}\n    @pytest.fixture\n    def conformance(self):\n        pass\n", "kit's"),
    ],
    ids=["skipped", "expected to fail", "constructor", "fixture"],
)
def test_a_suite_that_would_run_nothing_is_an_error(run: Run, suite: str, reason: str) -> None:
    done = run(suite)
    assert done.ret == pytest.ExitCode.INTERRUPTED, output(done)
    assert reason in output(done)


@pytest.mark.parametrize(
    "elsewhere",
    [
        "pytestmark = pytest.mark.skip(reason='later')",
        "@pytest.fixture(autouse=True)\ndef gpu():\n    pytest.skip('no GPU')",
    ],
    ids=["module", "fixture"],
)
def test_what_was_skipped_from_outside_was_not_run(run: Run, elsewhere: str) -> None:
    done = run(f"{SCRIPTED}\n{elsewhere}\n", "-k", LAW, "--duplex-report", "card.json")
    assert done.ret == 0, output(done)
    (suite,) = json.loads(Path("card.json").read_text())["suites"]
    assert suite["conforms"] is None
    assert suite["badge"]["color"] == "lightgrey"
    assert suite["counts"]["not run"] == len(law_levels())


def test_a_broken_law_fails_and_tells_what_to_do(run: Run) -> None:
    done = run(WRONG_RATE, "-k", LAW)
    assert done.ret == pytest.ExitCode.TESTS_FAILED
    assert "What to do: write output_sample_rate=24000 into the PluginSpec" in output(done)


def test_a_law_broken_knowingly_is_on_the_card_with_its_reason(run: Run) -> None:
    excused = f"""
    @pytest.mark.xfail(reason="resampled by the stage")
    def test_{LAW}(self, conformance):
        super().test_{LAW}(conformance)
"""
    done = run(WRONG_RATE + excused, "-k", LAW, "--duplex-report", "card.json")
    assert done.ret == 0, output(done)
    (suite,) = json.loads(Path("card.json").read_text())["suites"]
    assert "0 do not apply: it does not conform to plugin API 1.0" in output(done)
    assert suite["conforms"] is False
    assert suite["laws"] == [
        {
            "level": "descriptor",
            "law": LAW,
            "outcome": "dropped",
            "reason": "resampled by the stage",
        }
    ]


def test_the_card_says_what_was_skipped_and_why(run: Run) -> None:
    wanted = f"{LAW} or input_without or true_capabilities"
    done = run(SCRIPTED, "-k", wanted, "--duplex-report", "card.json")
    assert "conformance of scripted (TestScripted)" in output(done)
    assert "the plugin takes whole turns" in output(done)
    assert f"1 of 1 laws hold, {REST} not run, 2 do not apply: run all of them" in output(done)
    (suite,) = json.loads(Path("card.json").read_text())["suites"]
    counts = {"holds": 1, "broken": 0, "skipped": 2, "dropped": 0, "not run": REST}
    assert suite["counts"] == counts
    assert suite["badge"]["message"] == f"1 of 1 laws hold, {REST} not run"
    assert suite["badge"]["color"] == "lightgrey"
    assert suite["conforms"] is None


def test_only_who_keeps_every_law_conforms() -> None:
    cards = ReportCards()
    for test, level in law_levels().items():
        grade = Grade("mine", level, test, "holds")
        cards.keep(grade)
    assert cards.document("mine")["conforms"] is True
    assert cards.document("mine")["badge"]["color"] == "brightgreen"
    assert "it conforms to plugin API 1.0" in cards.verdict("mine")


def test_without_the_server_its_laws_are_skipped_with_that_reason(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duplex_sdk.discovery.hooks.entries", lambda group: ((), ()))
    done = run(SCRIPTED, "-k", "both_clients or at_once or broken_connection", "-rs")
    done.assert_outcomes(skipped=3)
    assert output(done).count("duplex-server is not installed, so nothing can serve the plugin")


def test_an_unload_that_fails_is_an_error_of_the_run(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unload(self: ScriptedModel) -> None:
        raise RuntimeError("already freed")

    monkeypatch.setattr(ScriptedModel, "unload", unload)
    done = run(SCRIPTED, "-k", "the_models_load")
    assert done.ret == pytest.ExitCode.TESTS_FAILED
    assert "unload() raised RuntimeError: already freed" in output(done)


def test_other_tests_pay_nothing_for_the_kit(tmp_path: Path) -> None:
    look = """
import sys
def test_it():
    assert "numpy" not in sys.modules
    assert "duplex_sdk.testing.conformance" not in sys.modules
"""
    (tmp_path / "test_mine.py").write_text(look)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "conformance of" not in done.stdout
