from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE_S

DUPLEX = Path(sys.executable).with_name("duplex")


def duplex(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [DUPLEX, *arguments], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def test_list_names_each_plugin_with_its_package_and_version() -> None:
    done = duplex("plugins", "list")
    assert done.returncode == 0
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0] == ["NAME", "PACKAGE", "VERSION"]
    assert ["scripted", "duplex-sdk", "0.1.0"] in lines


def test_listing_loads_next_to_nothing() -> None:
    """How long that takes is a benchmark's; what could make it slow is seen here."""
    code = (
        "import sys, duplex_sdk.cli as cli\n"
        "sys.argv = ['duplex', 'plugins', 'list']\n"
        "try: cli.main()\n"
        "except SystemExit: pass\n"
        "print('loaded:', *{name.split('.')[0] for name in sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    loaded = set(done.stdout.split("loaded:")[1].split())
    heavy = {"numpy", "soxr", "websockets", "jinja2", "duplex_server", "duplex_plugin_local"}
    assert loaded.isdisjoint(heavy)


def test_inspect_shows_the_descriptor() -> None:
    done = duplex("plugins", "inspect", "scripted", "--json")
    facts = json.loads(done.stdout)
    assert facts["name"] == "scripted"
    assert facts["api"] == "1.0"
    assert facts["output_sample_rate"] == 24_000
    assert {"name": "script", "flag": "--script"}.items() <= facts["options"][0].items()


def test_inspect_is_readable() -> None:
    done = duplex("plugins", "inspect", "scripted")
    assert done.returncode == 0
    assert "--script" in done.stdout


def test_an_unknown_plugin_is_one_sentence_and_a_hint() -> None:
    for command in ("inspect", "doctor"):
        done = duplex("plugins", command, "scriptd")
        assert done.returncode == 1
        assert done.stdout == ""
        first, second = done.stderr.splitlines()
        assert first.startswith("error: no plugin called 'scriptd'")
        assert second == "hint: did you mean 'scripted'?"


def test_the_doctor_finds_our_own_plugins_and_hooks_sound() -> None:
    done = duplex("plugins", "doctor", "--json")
    assert done.returncode == 0, done.stdout
    subjects = [report["subject"] for report in json.loads(done.stdout)["reports"]]
    assert any(subject.startswith("scripted ") for subject in subjects)
    assert "hooks" in subjects


@pytest.mark.parametrize("wrong", [["plugins", "list", "--loud"], ["plugins", "lost"], ["bogus"]])
def test_wrong_usage_is_exit_code_2(wrong: list[str]) -> None:
    done = duplex(*wrong)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_help_lists_the_commands_of_installed_packages() -> None:
    done = duplex("--help")
    assert done.returncode == 0
    for command in ("plugins", "serve", "talk"):
        assert command in done.stdout


def test_the_version_is_told() -> None:
    assert duplex("--version").stdout.startswith("duplex-sdk ")
