from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

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


def run(folder: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """An author's test run of these tests."""
    (folder / "test_mine.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )


def test_a_suite_without_a_spec_is_an_error(tmp_path: Path) -> None:
    done = run(tmp_path, f"{HEAD}\nclass TestMine(ModelConformance):\n    pass\n")
    assert done.returncode == pytest.ExitCode.INTERRUPTED, done.stdout
    assert "TestMine is a conformance suite without spec" in done.stderr + done.stdout


def test_an_abstract_base_of_suites_is_none(tmp_path: Path) -> None:
    base = f"{HEAD}\nclass Base(ModelConformance):\n    pass\n"
    done = run(tmp_path, base + "\ndef test_else():\n    pass\n")
    assert done.returncode == 0, done.stdout + done.stderr


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
def test_a_law_is_not_dropped_in_silence(tmp_path: Path, drop: str) -> None:
    done = run(tmp_path, f"{SCRIPTED}\n{drop}\n")
    assert done.returncode == pytest.ExitCode.INTERRUPTED, done.stdout
    assert f"test_{LAW} drops a law" in done.stderr + done.stdout


def test_a_broken_law_fails_and_tells_what_to_do(tmp_path: Path) -> None:
    done = run(tmp_path, WRONG_RATE, "-k", LAW)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "What to do: write output_sample_rate=24000 into the PluginSpec" in done.stdout


def test_a_law_broken_knowingly_is_on_the_card_with_its_reason(tmp_path: Path) -> None:
    excused = f"""
    @pytest.mark.xfail(reason="resampled by the stage")
    def test_{LAW}(self, conformance):
        super().test_{LAW}(conformance)
"""
    done = run(tmp_path, WRONG_RATE + excused, "-k", LAW, "--duplex-report", "card.json")
    assert done.returncode == 0, done.stdout
    (suite,) = json.loads((tmp_path / "card.json").read_text())["suites"]
    assert suite["conforms"] is False
    assert suite["laws"] == [
        {
            "level": "descriptor",
            "law": LAW,
            "outcome": "dropped",
            "reason": "resampled by the stage",
        }
    ]


def test_the_card_says_what_was_skipped_and_why(tmp_path: Path) -> None:
    wanted = f"{LAW} or input_without or true_capabilities"
    done = run(tmp_path, SCRIPTED, "-k", wanted, "--duplex-report", "card.json")
    assert "conformance of scripted (TestScripted)" in done.stdout
    assert "the plugin takes whole turns" in done.stdout
    (suite,) = json.loads((tmp_path / "card.json").read_text())["suites"]
    assert suite["counts"] == {"holds": 1, "broken": 0, "skipped": 2, "dropped": 0}
    assert suite["badge"]["message"] == "1 of 1 laws hold"
    assert suite["badge"]["color"] == "brightgreen"


def test_an_unload_that_fails_is_an_error_of_the_run(tmp_path: Path) -> None:
    broken = f"""{SCRIPTED}
from duplex_sdk.testing.scripted.stage import ScriptedModel
def unload(self):
    raise RuntimeError("already freed")
ScriptedModel.unload = unload
"""
    done = run(tmp_path, broken, "-k", "the_models_load")
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "unload() raised RuntimeError: already freed" in done.stdout


def test_other_tests_pay_nothing_for_the_kit(tmp_path: Path) -> None:
    look = """
import sys
def test_it():
    assert "numpy" not in sys.modules
    assert "duplex_sdk.testing.conformance" not in sys.modules
"""
    done = run(tmp_path, look)
    assert done.returncode == 0, done.stdout
    assert "conformance of" not in done.stdout
